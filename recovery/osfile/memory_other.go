//go:build !linux

package osfile

import "math"

// MemoryLimit does not know a limit on this system.
func MemoryLimit() int64 { return math.MaxInt64 }
