package recovery

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// largePage is the size of a large page on amd64, and on arm64 with pages of 4 KiB.
const largePage = 2 << 20

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

func isTmpfs(f *os.File) bool {
	var st unix.Statfs_t
	return unix.Fstatfs(int(f.Fd()), &st) == nil && int64(st.Type) == unix.TMPFS_MAGIC
}

// mapFile maps a file. On tmpfs it reserves addresses, if it can, to map the file at a
// multiple of largePage; at any other address, large pages enter the page table as small
// ones. Other file systems choose such an address themselves.
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
