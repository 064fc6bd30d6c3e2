//go:build darwin || freebsd || netbsd || openbsd || dragonfly

package osfile

import (
	"errors"
	"os"

	"github.com/mmapfilter/mmapfilter/recovery"
	"golang.org/x/sys/unix"
)

// lock takes the writer lock, which ends when f is closed.
func lock(f *os.File) error {
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return recovery.ErrLocked
	}
	return err
}

// unlock releases the lock.
func unlock(f *os.File) error { return unix.Flock(int(f.Fd()), unix.LOCK_UN) }

// Locked reports whether another descriptor has the writer lock of a file.
func Locked(f *os.File) (bool, error) {
	err := unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	return false, unix.Flock(int(f.Fd()), unix.LOCK_UN)
}
