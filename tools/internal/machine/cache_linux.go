package machine

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// DropCache writes a file to its disk and drops it from the page cache. Pages
// that someone has mapped stay.
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

// SmallPages has the page cache hold a file in pages of the smallest size, as it does that of a
// file that is written to through a mapping, or read here and there; what it read or wrote in one
// run it holds in larger ones.
func SmallPages(path string) error {
	if err := DropCache(path); err != nil {
		return err
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_RANDOM); err != nil {
		return os.NewSyscallError("fadvise", err)
	}
	_, err = io.Copy(io.Discard, struct{ io.Reader }{f})
	return err
}
