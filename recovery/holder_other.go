//go:build !linux

package recovery

// LockHolder cannot tell: 0.
func LockHolder(string) (pid int) { return 0 }

// ReadLockHolder cannot tell: 0.
func ReadLockHolder(string) (pid int) { return 0 }
