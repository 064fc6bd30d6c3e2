//go:build faults

// Package fault makes calls of the operating system fail when a test asks for
// it.
package fault

// Hook, if not nil, is what At calls. It must not change while anything runs.
var Hook func(call string) error

// At is called before each call of the system that writes, with its name: write,
// fsync, fdatasync, msync, fallocate, rename, remove or syncdir. An error is
// returned in place of the call.
func At(call string) error {
	if Hook == nil {
		return nil
	}
	return Hook(call)
}
