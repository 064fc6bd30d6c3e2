package osfile

import (
	"os"

	"github.com/mmapfilter/mmapfilter/recovery"
	"golang.org/x/sys/unix"
)

// largePage is the size of a large page on amd64, and on arm64 with pages of 4 KiB.
const largePage = 2 << 20

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
	start := -recovery.Address(around) & (largePage - 1)
	m := &Mapping{Data: around[start:][:size:size], around: around}
	prot := uintptr(unix.PROT_READ)
	if writable {
		prot |= unix.PROT_WRITE
	}
	if _, _, errno := unix.Syscall6(unix.SYS_MMAP, recovery.Address(m.Data), uintptr(size), prot, unix.MAP_SHARED|unix.MAP_FIXED, f.Fd(), 0); errno != 0 {
		m.Unmap()
		return nil, os.NewSyscallError("mmap", errno)
	}
	return m, nil
}

func isTmpfs(f *os.File) bool {
	var st unix.Statfs_t
	return unix.Fstatfs(int(f.Fd()), &st) == nil && int64(st.Type) == unix.TMPFS_MAGIC
}
