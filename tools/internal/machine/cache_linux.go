package machine

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// DropCache writes a file to its disk and drops it from the page cache. Mapped pages stay.
func DropCache(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	err = f.Sync()
	if err == nil {
		err = os.NewSyscallError("fadvise", unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED))
	}
	return errors.Join(err, f.Close())
}
