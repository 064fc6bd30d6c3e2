package recovery

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// lock takes the writer lock: an open-file-description lock on the whole file,
// which ends with f and its mappings and not, as a POSIX lock does, when the process
// closes any other descriptor of the same file.
func lock(f *os.File) error {
	err := unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_WRLCK})
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
		return ErrLocked
	}
	return err
}

// unlock gives the lock up. A mapping keeps the open file description, and with
// it the lock, when f is closed.
func unlock(f *os.File) error {
	return os.NewSyscallError("fcntl", unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_UNLCK}))
}

// Locked reports whether another process, or another descriptor of this one, has
// the writer lock of a file that is open for reading.
func Locked(f *os.File) (bool, error) {
	l := unix.Flock_t{Type: unix.F_RDLCK} // one for reading is in the way of the writer's alone
	if err := unix.FcntlFlock(f.Fd(), unix.F_OFD_GETLK, &l); err != nil {
		return false, os.NewSyscallError("fcntl", err)
	}
	return l.Type != unix.F_UNLCK, nil
}
