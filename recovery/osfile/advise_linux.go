package osfile

import (
	"fmt"
	"os"

	"github.com/edsrzf/mmap-go"
	"github.com/mmapfilter/mmapfilter/recovery"
	"golang.org/x/sys/unix"
)

// AdviseRandom turns read-ahead off: a fault reads one page.
func (m *Mapping) AdviseRandom() error { return m.advise(m.Data, unix.MADV_RANDOM) }

// AdviseLarge asks the system to hold in large pages what it reads from now on, or what is first
// stored to, where the file system can. A fault then reads a large page, too. It is for files that no
// writer has open: each store would write a whole page back.
func (m *Mapping) AdviseLarge() { m.advise(m.Data, unix.MADV_HUGEPAGE) }

// ForgetHead drops the first large page of f, the mapped file, from the page cache, unless all of
// it is there. Whoever reads the superblocks of a file that is not in memory leaves some small pages
// there, and the large page would come in as small ones; and a good part of those behind it. What a
// process has mapped stays.
func (m *Mapping) ForgetHead(f *os.File) {
	if len(m.Data) < largePage || m.around != nil {
		return
	}
	if n, err := resident(m.Data[:largePage]); err == nil && n < largePage {
		unix.Fadvise(int(f.Fd()), 0, largePage, unix.FADV_DONTNEED)
	}
}

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

// Resident returns the number of bytes of the mapped file that are in the page cache.
func (m *Mapping) Resident() (int64, error) { return resident(m.Data) }

func resident(part []byte) (int64, error) {
	page := os.Getpagesize()
	// The kernel writes one byte per page. Pass a mapping, since the garbage collector may
	// move other memory.
	vec, err := mmap.MapRegion(nil, (len(part)+page-1)/page, mmap.RDWR, mmap.ANON, 0)
	if err != nil {
		return 0, err
	}
	defer vec.Unmap()
	if _, _, errno := unix.Syscall(unix.SYS_MINCORE, recovery.Address(part), uintptr(len(part)), recovery.Address(vec)); errno != 0 {
		return 0, os.NewSyscallError("mincore", errno)
	}
	pages := 0
	for _, b := range vec {
		pages += int(b & 1)
	}
	return min(int64(pages)*int64(page), int64(len(part))), nil
}
