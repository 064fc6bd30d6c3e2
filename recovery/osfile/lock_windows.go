package osfile

import (
	"errors"
	"math"
	"os"

	"github.com/mmapfilter/mmapfilter/recovery"
	"golang.org/x/sys/windows"
)

// lock takes the writer lock, which ends when f is closed. It covers one byte past the end
// of any file, since a Windows lock keeps other processes from reading what it covers.
func lock(f *os.File) error {
	const flags = windows.LOCKFILE_EXCLUSIVE_LOCK | windows.LOCKFILE_FAIL_IMMEDIATELY
	err := windows.LockFileEx(windows.Handle(f.Fd()), flags, 0, 1, 0, &windows.Overlapped{OffsetHigh: math.MaxInt32})
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return recovery.ErrLocked
	}
	return err
}

// unlock releases the lock.
func unlock(f *os.File) error {
	return windows.UnlockFileEx(windows.Handle(f.Fd()), 0, 1, 0, &windows.Overlapped{OffsetHigh: math.MaxInt32})
}

// Locked reports whether another handle has the writer lock of a file.
func Locked(f *os.File) (bool, error) {
	at := &windows.Overlapped{OffsetHigh: math.MaxInt32}
	err := windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, at)
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	return false, windows.UnlockFileEx(windows.Handle(f.Fd()), 0, 1, 0, at)
}
