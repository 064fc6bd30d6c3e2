package osfile

import (
	"os"

	"github.com/mmapfilter/mmapfilter/recovery/fault"
)

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
