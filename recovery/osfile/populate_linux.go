package osfile

import (
	"errors"
	"os"

	"github.com/mmapfilter/mmapfilter/recovery"
	"golang.org/x/sys/unix"
)

// populate reads b, a page-aligned part of the mapping, into the page cache and enters it
// into the page table.
func (m *Mapping) populate(b []byte) error {
	err := unix.Madvise(b, unix.MADV_POPULATE_READ)
	switch {
	case errors.Is(err, unix.EINVAL): // Linux before 5.14
		return touch(m.Data, b)
	case errors.Is(err, unix.EFAULT), errors.Is(err, unix.EHWPOISON):
		return &FaultError{Offset: int64(recovery.Address(b) - recovery.Address(m.Data))}
	}
	return os.NewSyscallError("madvise", err)
}

// readSmall starts reading b, a page-aligned part of the mapping, into the page cache in
// small pages, in pieces: the system limits how much it reads at once.
func (m *Mapping) readSmall(b []byte) {
	const atOnce = 128 << 10
	for off := 0; off < len(b); off += atOnce {
		m.advise(b[off:min(off+atOnce, len(b))], unix.MADV_WILLNEED)
	}
}
