//go:build !faults

// Package fault makes calls of the operating system fail when a test asks for
// it. Only a program built with the tag "faults" can do that; in any other, [At]
// is nil at compile time.
package fault

// At is called before each call of the system that writes, with its name: write,
// fsync, fdatasync, msync, fallocate, rename, remove or syncdir. An error is
// returned in place of the call.
func At(string) error { return nil }
