package recovery

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// makeLargePages gives a new file on tmpfs its memory in large pages, as far as the
// system has some, so that the TLB covers more of the file and a lookup need not walk page
// tables that are in no cache. Tmpfs writes nothing back, so rule R4, which keeps the
// pages of written files small, does not apply. (Other file systems choose the sizes of
// pages themselves.)
//
// Only the process that makes a file does this, since the system charges the memory to the
// process that asks for it.
func makeLargePages(f *os.File, size int64) {
	if size < largePage || !isTmpfs(f) || f.Truncate(size) != nil {
		return
	}
	m, err := mapFile(f, size, true)
	if err != nil {
		return
	}
	defer m.Unmap()
	whole := size &^ (largePage - 1)
	for off := int64(0); off < whole; off += largePage { // MADV_COLLAPSE needs at least one small page
		if _, err := f.WriteAt([]byte{0}, off); err != nil {
			return
		}
	}
	for range 3 { // pages may be busy for a moment
		if err := m.advise(m.Data[:whole], unix.MADV_COLLAPSE); !errors.Is(err, unix.EAGAIN) { // since Linux 6.1
			return
		}
	}
}
