package recovery

import (
	"errors"
	"fmt"
	"os"

	"github.com/edsrzf/mmap-go"
	"golang.org/x/sys/unix"
)

// AdviseRandom turns read-ahead off: a fault reads one page.
func (m *Mapping) AdviseRandom() error { return m.advise(m.Data, unix.MADV_RANDOM) }

// AdviseLarge asks the system to hold in large pages what it reads from now on, or what is first
// stored to, where the file system can. A fault then reads a large page, too. It is for files that no
// writer has open: each store would write a whole page back.
func (m *Mapping) AdviseLarge() { m.advise(m.Data, unix.MADV_HUGEPAGE) }

// AdviseSmall is AdviseRandom after AdviseLarge. On tmpfs, which writes nothing back, it does nothing.
func (m *Mapping) AdviseSmall() {
	if m.around == nil {
		m.advise(m.Data, unix.MADV_NOHUGEPAGE)
		m.advise(m.Data, unix.MADV_RANDOM)
	}
}

// Release gives back the memory of the mapping at once, even if it is locked. Its addresses
// stay valid: a later load reads the file again.
func (m *Mapping) Release() {
	m.Data.Unlock()
	m.advise(m.Data, unix.MADV_DONTNEED)
}

// leavePageTable removes the bytes [from, to) of a mapping that is stored to, which begin and
// end with a page, from the page table of this process, before a sync. They stay in the cache,
// dirty where they have been stored to, and other goroutines may store to the mapping
// meanwhile. Otherwise, the sync write-protects every writable page, and each time interrupts
// the other processors that run this process; this interrupts them once. Lookups load from a
// read-only mapping, which stays.
func (m *Mapping) leavePageTable(from, to int64) {
	if delaysRmap {
		m.advise(m.Data[from:to], unix.MADV_DONTNEED)
	}
}

// delaysRmap reports whether this is Linux 6.2 or later. Earlier versions consider a page
// unmapped before every processor has flushed it from its TLB. A processor can still store
// to it after a sync that found nothing to write-protect, and the next sync misses the
// store (commit 5df397dec7c4, "mm: delay page_remove_rmap() until after the TLB has been
// flushed").
var delaysRmap = func() bool {
	var name unix.Utsname
	if unix.Uname(&name) != nil {
		return false
	}
	return isSince(unix.ByteSliceToString(name.Release[:]), 6, 2)
}()

// isSince reports whether a Linux release, such as 6.1.0-13-amd64, is major.minor or
// later.
func isSince(release string, major, minor int) bool {
	var a, b int
	n, _ := fmt.Sscanf(release, "%d.%d", &a, &b)
	return n == 2 && (a > major || a == major && b >= minor)
}

func (m *Mapping) advise(b []byte, advice int) error {
	return os.NewSyscallError("madvise", unix.Madvise(b, advice))
}

// populate reads b, a page-aligned part of the mapping, into the page cache and enters it
// into the page table.
func (m *Mapping) populate(b []byte) error {
	err := unix.Madvise(b, unix.MADV_POPULATE_READ)
	switch {
	case errors.Is(err, unix.EINVAL): // Linux before 5.14
		return touch(m.Data, b)
	case errors.Is(err, unix.EFAULT), errors.Is(err, unix.EHWPOISON):
		return &FaultError{Offset: int64(address(b) - address(m.Data))}
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

// ShrinkPages drops the filter file from the page cache, so that it comes back in small
// pages, and reports whether most of it was there. Build, or reading the file
// sequentially, leaves pages of up to 2 MiB in the cache. They make lookups faster, but
// the system writes back whole pages, so each store would write a large one.
//
// Dirty pages and pages that another process has mapped stay, and so do the pages of tmpfs,
// which writes nothing back.
func (v *Files) ShrinkPages() (most bool) {
	if !delaysRmap || isTmpfs(v.filter.file) { // others may store meanwhile; see delaysRmap
		return false
	}
	loads, stores := v.filter.loads, v.filter.stores
	n, err := loads.Resident()
	if err != nil || n == 0 {
		return false
	}
	for _, m := range []*Mapping{loads, stores} { // pages that this process has mapped would stay
		m.advise(m.Data, unix.MADV_DONTNEED)
	}
	unix.Fadvise(int(v.filter.file.Fd()), 0, 0, unix.FADV_DONTNEED)
	return n > int64(len(loads.Data))/2
}

// Resident returns the number of bytes of the mapped file that are in the page cache.
func (m *Mapping) Resident() (int64, error) {
	page := os.Getpagesize()
	// The kernel writes one byte per page. Pass a mapping, since the garbage collector may
	// move other memory.
	vec, err := mmap.MapRegion(nil, (len(m.Data)+page-1)/page, mmap.RDWR, mmap.ANON, 0)
	if err != nil {
		return 0, err
	}
	defer vec.Unmap()
	if _, _, errno := unix.Syscall(unix.SYS_MINCORE, address(m.Data), uintptr(len(m.Data)), address(vec)); errno != 0 {
		return 0, os.NewSyscallError("mincore", errno)
	}
	pages := 0
	for _, b := range vec {
		pages += int(b & 1)
	}
	return min(int64(pages)*int64(page), int64(len(m.Data))), nil
}
