package osfile

import "time"

// Now returns the time of the system, in nanoseconds since 1970.
func Now() uint64 { return clock() }

// Now is the function Now.
func (v *Files) Now() uint64 { return clock() }

// clock is replaced by tests.
var clock = func() uint64 { return uint64(time.Now().UnixNano()) }

// SetClock replaces the clock of all Files until restore is called. Only tests use it.
func SetClock(now func() uint64) (restore func()) {
	old := clock
	clock = now
	return func() { clock = old }
}
