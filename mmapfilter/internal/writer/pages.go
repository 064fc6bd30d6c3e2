package writer

// largePages says which large pages of a file that was sealed must still be dropped (R4). They are
// dropped part by part: the first part before the first store, and the others before the first
// commit stores to the lines.
type largePages struct {
	left    bool
	from    int64 // offset of the next part in the file
	dropped int64 // bytes that were in memory
}

// DropLargePages drops the large pages that are left. Operations go on between its steps.
func (w *Writer) DropLargePages() {
	for more := true; more; {
		w.mu.Lock()
		more = w.dropPart()
		w.mu.Unlock()
	}
}

// dropPart drops the large pages of one part, and reports whether there are more parts. If most of the
// file was in memory, the file is read again after the last part. REQUIRES: w.mu.
func (w *Writer) dropPart() (more bool) {
	l := &w.mu.large
	if !l.left || w.mu.closed != nil { // the files may be closed
		return false
	}
	next, dropped := w.vol.DropLargePages(l.from)
	l.from, l.dropped = next, l.dropped+dropped
	if l.left = next > 0; !l.left && w.Work != nil && l.dropped > int64(len(w.words))*8/2 {
		w.Work.readAgain()
	}
	return l.left
}
