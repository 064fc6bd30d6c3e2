package recovery

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

// SyncRange implements RangeSyncer. On Linux, msync makes a part of a file durable by itself,
// as fsync does for a whole file.
func (f *mappedFile) SyncRange(word, words uint64) error {
	if err := fault.At("msync"); err != nil {
		return err
	}
	page := int64(os.Getpagesize())
	from := int64(word) * 8 / page * page
	to := min((int64(word+words)*8+page-1)/page*page, int64(len(f.stores.Data)))
	f.stores.leavePageTable(from, to)
	return os.NewSyscallError("msync", f.stores.Data[from:to].Flush())
}

// beginSync has the system begin to write a file, which Sync waits for. It waits for nothing. A sync
// tells of the errors that there are.
func beginSync(f *os.File) { unix.SyncFileRange(int(f.Fd()), 0, 0, unix.SYNC_FILE_RANGE_WRITE) }
