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
	if inLine && !(w.mu.stashLen > 0 && w.drain(freed)) {
		w.mu.placer.BringHome(freed)
	}
	return true
}

// searchEvery is the number of deletes per search, while the stash is in use, for a path by
// which an item could leave the stash. A search may read a line for each slot of
// Bounds.SearchLines lines (place, P7); the rest of a delete reads two.
const searchEvery = 8

// drain moves an item from the stash into the line that has just got room, if that is a line of
// the item; otherwise, once in searchEvery deletes, into any line where moves can make room. It
// reports whether it moved one. REQUIRES: w.mu.
func (w *Writer) drain(freed uint64) (done bool) {
	w.mu.drains++
	full := w.mu.stashLen == layout.StashEntries || w.atLimit()
	search := w.mu.drains%searchEvery == 0
	chosen := w.mu.drains / searchEvery % w.mu.stashLen // index of the entry for a search
	n := 0
	layout.StashClasses(w.stash, func(c layout.Class, items uint64) {
		if full && items > 1 {
			return // its entry would stay, and the next key would have no room
		}
		it := layout.Item(c)
		if !done && (it.Line == freed || w.table.Alternate(it).Line == freed) {
			done = w.mu.placer.Unstash(it, false)
		}
		if n++; !done && search && n-1 == chosen {
			done = w.mu.placer.Unstash(it, true)
		}
	})
	return done
}

// atLimit reports whether the filter has at least as many keys as it may have. REQUIRES: w.mu.
func (w *Writer) atLimit() bool {
	return place.KeysOf(w.protocol.Length(), w.mu.inStash, w.mu.stashLen) >= w.Limit
}
