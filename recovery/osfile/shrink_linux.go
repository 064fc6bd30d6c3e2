package osfile

import (
	"os"

	"golang.org/x/sys/unix"
)

// ShrinkPages drops the filter file from the page cache, so that it comes back in small
// pages. Build, or reading the file sequentially, leaves pages of up to 2 MiB in the cache. They
// make lookups faster, but the system writes back whole pages, so each store would write a large
// one.
//
// It drops the beginning of the file, and returns what drops the rest: that calls hold for each of
// its steps, and reports whether most of the file was there. Pages that this process looks at during
// a step, dirty pages and pages that another process has mapped stay, and so do the pages of tmpfs,
// which writes nothing back.
func (v *Files) ShrinkPages() (rest func(hold func(step func())) (most bool)) {
	if !delaysRmap || isTmpfs(v.filter.file) { // others may store meanwhile; see delaysRmap
		return func(func(func())) bool { return false }
	}
	size, were := len(v.filter.loads.Data), int64(0)
	shrink := func(off int, hold func(step func())) {
		end := min(off+shrinkStep, size)
		// What comes in after this look is in small pages.
		if n, err := resident(v.filter.loads.Data[off:end]); err == nil && n > 0 {
			were += n
			hold(func() { v.shrinkPages(off, end) })
		}
	}
	shrink(0, func(step func()) { step() })
	return func(hold func(step func())) bool {
		for off := shrinkStep; off < size; off += shrinkStep {
			shrink(off, hold)
		}
		return were > int64(size)/2
	}
}

// shrinkStep is how many bytes a step of ShrinkPages drops. It is a multiple of the largest page, which
// has as many small ones as a small one has room for addresses: a page stays if only a part of it is to
// be dropped. An operation may wait for a step.
var shrinkStep = max(8<<20, os.Getpagesize()*os.Getpagesize()/8)

// shrinkPages drops a part of the filter file from the page cache.
func (v *Files) shrinkPages(off, end int) {
	for _, m := range []*Mapping{v.filter.loads, v.filter.stores} { // what is mapped would stay
		m.advise(m.Data[off:end], unix.MADV_DONTNEED)
	}
	unix.Fadvise(int(v.filter.file.Fd()), int64(off), int64(end-off), unix.FADV_DONTNEED)
}
