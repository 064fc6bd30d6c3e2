//go:build darwin || freebsd || netbsd || openbsd || dragonfly

package recovery

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// lock takes the writer lock; it ends when f is closed.
func lock(f *os.File) error {
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return ErrLocked
	}
	return err
}
