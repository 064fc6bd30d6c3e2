package recovery

import "golang.org/x/sys/unix"

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
