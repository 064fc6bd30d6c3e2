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

// serve does nothing, since this lock has only one part.
func serve(*os.File) error { return nil }

// Served is Locked. A reader may be served after a process takes the lock and before it
// begins to recover the file.
func Served(f *os.File) (bool, error) { return Locked(f) }

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

// lockDraft marks a temporary file as being made, with the writer lock.
func lockDraft(f *os.File) error { return lock(f) }
