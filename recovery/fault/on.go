//go:build faults

// Package fault makes system calls fail when a test asks for it.
package fault

// Hook, if not nil, decides what At returns. It must not change while anything runs.
var Hook func(call string) error

// At is called before each system call that writes, with its name: write, fsync,
// fdatasync, msync, fallocate, truncate, rename, link, remove or syncdir. If it returns an
// error, that error replaces the call.
func At(call string) error {
	if Hook == nil {
		return nil
	}
	return Hook(call)
}
