package machine

import (
	"errors"
	"io"
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

// SmallPages loads a file into the page cache in pages of the smallest size, as if it had been
// written through a mapping or read here and there. The cache uses larger pages for what is read
// or written sequentially.
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
