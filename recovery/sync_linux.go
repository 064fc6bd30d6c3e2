package recovery

import (
	"errors"
	"os"

	"github.com/mmapfilter/mmapfilter/recovery/fault"
	"golang.org/x/sys/unix"
)

// syncLog makes a log durable: neither its size nor where its blocks are has
// changed since it was made, so its data is all there is to write.
func syncLog(f *mappedFile) error {
	if err := fault.At("fdatasync"); err != nil {
		return err
	}
	err := unix.Fdatasync(int(f.file.Fd()))
	for errors.Is(err, unix.EINTR) {
		err = unix.Fdatasync(int(f.file.Fd()))
	}
	return os.NewSyscallError("fdatasync", err)
}

// writeBack starts to write the dirty pages of a file. It says nothing of
// whether they are durable, and an error is one that the next sync will have.
func writeBack(f *os.File) {
	unix.SyncFileRange(int(f.Fd()), 0, 0, unix.SYNC_FILE_RANGE_WRITE)
}
