package recovery

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// largePage is the size of the large pages of amd64, and of arm64 with small ones of 4 KiB.
const largePage = 2 << 20

// makeLargePages gives a new file on tmpfs its memory in large pages, as far as the system
// has some: a lookup finds the address of a line in the processor then, which in a filter
// of 1 GiB in small pages it looks up in page tables that no cache holds. Nothing is ever
// written back from there, so that rule R4, which keeps the pages small of what is written,
// has no reason. (Other file systems choose the sizes of pages by themselves.)
//
// Only the maker of a file does it, since the memory counts for who asks for it.
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
	for off := int64(0); off < whole; off += largePage { // there is to be something to make one page of
		if _, err := f.WriteAt([]byte{0}, off); err != nil {
			return
		}
	}
	for range 3 { // pages may be in other hands for a moment
		if err := m.advise(m.Data[:whole], unix.MADV_COLLAPSE); !errors.Is(err, unix.EAGAIN) { // since Linux 6.1
			return
		}
	}
}

func isTmpfs(f *os.File) bool {
	var st unix.Statfs_t
	return unix.Fstatfs(int(f.Fd()), &st) == nil && int64(st.Type) == unix.TMPFS_MAGIC
}

// mapFile maps a file on tmpfs to a multiple of largePage, without which large pages are
// entered into the page table as small ones: into addresses that are reserved for that, if it
// gets so many. Other file systems find such a place by themselves.
func mapFile(f *os.File, size int64, writable bool) (*Mapping, error) {
	if size < largePage || !isTmpfs(f) {
		return mapAnywhere(f, size, writable)
	}
	around, err := unix.Mmap(-1, 0, int(size)+largePage, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	if err != nil {
		return mapAnywhere(f, size, writable)
	}
	start := -address(around) & (largePage - 1)
	m := &Mapping{Data: around[start:][:size:size], around: around}
	prot := uintptr(unix.PROT_READ)
	if writable {
		prot |= unix.PROT_WRITE
	}
	if _, _, errno := unix.Syscall6(unix.SYS_MMAP, address(m.Data), uintptr(size), prot, unix.MAP_SHARED|unix.MAP_FIXED, f.Fd(), 0); errno != 0 {
		m.Unmap()
		return nil, os.NewSyscallError("mmap", errno)
	}
	return m, nil
}
