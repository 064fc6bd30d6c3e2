package osfile

import (
	"errors"
	"os"

	"github.com/mmapfilter/mmapfilter/recovery/fault"
	"golang.org/x/sys/unix"
)

// syncLog makes a log durable. Its size and the places of its blocks have not changed since
// it was made, so only its data needs writing.
func syncLog(m *Mapping, f *os.File) error {
	if err := fault.At("fdatasync"); err != nil {
		return err
	}
	m.leavePageTable(0, int64(len(m.Data)))
	err := unix.Fdatasync(int(f.Fd()))
	for errors.Is(err, unix.EINTR) {
		err = unix.Fdatasync(int(f.Fd()))
	}
	return os.NewSyscallError("fdatasync", err)
}

// beginSync has the system begin to write a file, and does not wait for it. Sync waits, and returns
// any error.
func beginSync(f *os.File) { unix.SyncFileRange(int(f.Fd()), 0, 0, unix.SYNC_FILE_RANGE_WRITE) }
