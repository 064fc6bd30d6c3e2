//go:build !faults

// Package fault makes system calls fail when a test asks for it. Only a program built with
// the tag "faults" can do this; in any other program, [At] always returns nil and is
// inlined away.
package fault

// At is called before each system call that writes, with its name: write, fsync,
// fdatasync, msync, fallocate, truncate, rename, link, remove or syncdir. If it returns an
// error, that error replaces the call.
func At(string) error { return nil }
