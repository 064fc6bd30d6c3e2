package osfile

import (
	"context"
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
func makeLargePages(ctx context.Context, f *os.File, size int64) {
	if size < largePage || !isTmpfs(f) || !hasRoom(f, size) || f.Truncate(size) != nil {
		return
	}
	m, err := mapFile(f, size, true)
	if err != nil {
		return
	}
	defer m.Unmap()
	whole := size &^ (largePage - 1)
	for off := int64(0); off < whole; off += largePage { // MADV_COLLAPSE needs at least one small page
		if _, err := f.WriteAt([]byte{0}, off); err != nil || ctx.Err() != nil {
			return
		}
	}
	const step = 32 * largePage
	for off := int64(0); off < whole && ctx.Err() == nil; off += step {
		for range 3 { // pages may be busy for a moment
			if err = m.advise(m.Data[off:min(off+step, whole)], unix.MADV_COLLAPSE); !errors.Is(err, unix.EAGAIN) { // since Linux 6.1
				break
			}
		}
		if err != nil && !errors.Is(err, unix.EAGAIN) {
			return
		}
	}
}

// hasRoom reports whether the file system of f has room for size bytes, as far as it says.
func hasRoom(f *os.File, size int64) bool {
	var st unix.Statfs_t
	return unix.Fstatfs(int(f.Fd()), &st) != nil || st.Blocks == 0 || uint64(size)/uint64(st.Bsize) <= st.Bavail
}
