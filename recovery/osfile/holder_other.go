//go:build !linux

package osfile

// LockHolder returns 0: this system does not say.
func LockHolder(string) (pid int) { return 0 }

// ReadLockHolder returns 0: this system does not say.
func ReadLockHolder(string) (pid int) { return 0 }
