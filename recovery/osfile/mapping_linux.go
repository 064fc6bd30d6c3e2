package osfile

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/edsrzf/mmap-go"
	"github.com/mmapfilter/mmapfilter/recovery"
	"golang.org/x/sys/unix"
)

// largePage is the size of a large page on amd64, and on arm64 with pages of 4 KiB.
const largePage = 2 << 20

// mapFile maps a file. On tmpfs it reserves addresses, if it can, to map the file at a
// multiple of largePage, because at any other address large pages enter the page table as
// small ones. On other file systems, the system chooses such an address itself.
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
	if _, _, errno := unix.Syscall6(sysMmap, recovery.Address(m.Data), uintptr(size), prot, unix.MAP_SHARED|unix.MAP_FIXED, f.Fd(), 0); errno != 0 {
		m.Unmap()
		return nil, os.NewSyscallError("mmap", errno)
	}
	return m, nil
}

func isTmpfs(f *os.File) bool {
	var st unix.Statfs_t
	return unix.Fstatfs(int(f.Fd()), &st) == nil && int64(st.Type) == unix.TMPFS_MAGIC
}

// AdviseRandom turns read-ahead off: a fault reads one page.
func (m *Mapping) AdviseRandom() error { return m.advise(m.Data, unix.MADV_RANDOM) }

// AdviseLarge asks the system to use large pages, if the file system has them, for all that it reads
// from now on and for pages that are stored to for the first time. A fault then reads a large page,
// too. Use it only for files that no writer has open, since each store would write a large page back.
func (m *Mapping) AdviseLarge() { m.advise(m.Data, unix.MADV_HUGEPAGE) }

// ForgetHead drops the first large page of f, the mapped file, from the page cache, unless the cache
// has all of this page. A process that has read the superblocks of a file that is not in memory
// leaves some small pages in the cache. With these, the system would read the first large page, and
// many of the next ones, as small pages. Pages that a process has mapped stay.
func (m *Mapping) ForgetHead(f *os.File) {
	if len(m.Data) < largePage || m.around != nil {
		return
	}
	if n, err := resident(m.Data[:largePage]); err == nil && n < largePage {
		unix.Fadvise(int(f.Fd()), 0, largePage, unix.FADV_DONTNEED)
	}
}

// AdviseSmall undoes AdviseLarge and turns read-ahead off. On tmpfs, which writes nothing back, it does
// nothing.
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

// leavePageTable removes whole pages, the bytes [from, to) of a mapping for stores, from the
// page table of this process before a sync. The pages stay in the cache, dirty where they have
// been stored to, and other goroutines may store to the mapping meanwhile. Without
// leavePageTable, the sync would write-protect one writable page after the other, and for
// each page interrupt the other processors that run this process; leavePageTable interrupts
// them once. Lookups load from another mapping, which is read-only and stays in the page
// table.
func (m *Mapping) leavePageTable(from, to int64) {
	if delaysRmap {
		m.advise(m.Data[from:to], unix.MADV_DONTNEED)
	}
}

// delaysRmap reports whether this is Linux 6.2 or later. Earlier versions of Linux consider
// a page unmapped before every processor has flushed it from its TLB. A processor can still
// store to it after a sync that found nothing to write-protect, and the next sync misses
// the store (commit 5df397dec7c4, "mm: delay page_remove_rmap() until after the TLB has
// been flushed").
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
	// The kernel writes one byte per page into vec. vec is a mapping, since the garbage
	// collector may move other memory.
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
// small pages. It does so in pieces, since the system limits how much it reads at once.
func (m *Mapping) readSmall(b []byte) {
	const atOnce = 128 << 10
	for off := 0; off < len(b); off += atOnce {
		m.advise(b[off:min(off+atOnce, len(b))], unix.MADV_WILLNEED)
	}
}

// DropLargePages drops a part of the filter file from the page cache, so that it comes back in small
// pages. Build, or reading the file sequentially, leaves pages of up to 2 MiB in the cache.
// Large pages make lookups faster, but the system writes back whole pages, so each store would
// write a large page back.
//
// Some pages stay: pages that this process loads from meanwhile, dirty pages, pages that another
// process has mapped, and all pages of tmpfs, which writes nothing back.
func (v *Files) DropLargePages(from int64) (next, dropped int64) {
	if !delaysRmap || isTmpfs(v.filter.file) { // others may store meanwhile; see delaysRmap
		return 0, 0
	}
	off, size := int(from), len(v.filter.loads.Data)
	end := min(off+shrinkStep, size)
	if n, err := resident(v.filter.loads.Data[off:end]); err == nil && n > 0 {
		dropped = n
		for _, m := range []*Mapping{v.filter.loads, v.filter.stores} { // pages that are mapped would stay
			m.advise(m.Data[off:end], unix.MADV_DONTNEED)
		}
		unix.Fadvise(int(v.filter.file.Fd()), from, int64(end-off), unix.FADV_DONTNEED)
	}
	if end == size {
		return 0, dropped
	}
	return int64(end), dropped
}

// shrinkStep is how many bytes DropLargePages drops. It is a multiple of the size of the largest page,
// since a large page stays if only a part of it would be dropped. The largest page has a small page
// for each address that fits on a small page. An operation may have to wait for one such step.
var shrinkStep = max(8<<20, os.Getpagesize()*os.Getpagesize()/8)

// makeLargePages gives a new file on tmpfs its memory in large pages, as far as the system
// has large pages. Then the TLB covers more of the file, and a lookup need not walk page
// tables that are in no cache. Tmpfs writes nothing back, so rule R4, which keeps the pages
// of written files small, does not apply. (Other file systems choose the sizes of pages
// themselves.)
//
// Only the process that creates a file does this, since the system charges the memory to the
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

// hasRoom reports whether the file system of f has room for size bytes, or does not say.
func hasRoom(f *os.File, size int64) bool {
	var st unix.Statfs_t
	return unix.Fstatfs(int(f.Fd()), &st) != nil || st.Blocks == 0 || uint64(size)/uint64(st.Bsize) <= st.Bavail
}
