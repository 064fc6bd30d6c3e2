package engine

import (
	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/place"
)

// tryInsert has the placer plan an insert and reports whether there is room. At the limit of keys,
// only an item whose class has an entry in the stash has room. REQUIRES: w.mu.
func (w *Writer) tryInsert(home layout.Item) bool {
	put := w.mu.placer.Insert
	if w.atLimit() {
		put = w.mu.placer.CountUp
	}
	if put(home) {
		return true
	}
	w.mu.op.reset()
	return false
}

// remove has the placer plan a delete and reports whether there is such an item. REQUIRES: w.mu.
func (w *Writer) remove(hash uint64) bool {
	freed, inLine, ok := w.mu.placer.Remove(w.table.Split(hash))
	if !ok {
		w.mu.op.reset()
		return false
	}
	if inLine && !(w.mu.stashed.entries > 0 && w.drain(freed)) {
		w.mu.placer.BringHome(freed)
	}
	return true
}

// atLimit reports whether the filter has at least as many keys as it may have. REQUIRES: w.mu.
func (w *Writer) atLimit() bool {
	return place.KeysOf(w.protocol.Length(), w.mu.stashed.items, w.mu.stashed.entries) >= w.Limit
}
