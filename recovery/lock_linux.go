package recovery

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// lock takes the writer lock: an open-file-description lock on the whole file,
// which ends when f is closed and not, as a POSIX lock does, when the process
// closes any other descriptor of the same file.
func lock(f *os.File) error {
	err := unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_WRLCK})
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
		return ErrLocked
	}
	return err
}
