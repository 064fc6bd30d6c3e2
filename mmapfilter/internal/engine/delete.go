package engine

import (
	"github.com/mmapfilter/mmapfilter/layout"
)

// Delete deletes an item of a hash. It reports false if there certainly is none; that changes
// nothing but counts as an operation.
func (w *Writer) Delete(hash uint64) (bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.ready(); err != nil {
		return false, err
	}
	return w.deleteReady(hash)
}

// deleteReady is Delete after ready. REQUIRES: w.mu.
func (w *Writer) deleteReady(hash uint64) (bool, error) {
	freed, inLine, ok := w.mu.placer.Remove(w.table.Split(hash))
	if !ok {
		w.mu.op.reset()
		w.skip()
		return false, nil
	}
	if inLine && !(w.mu.stashLen > 0 && w.drain(freed)) {
		w.mu.placer.BringHome(freed)
	}
	if err := w.double(Delete, hash); err != nil {
		w.mu.op.reset()
		return false, err
	}
	w.finish(-1, hash)
	return true, nil
}

// searchEvery is the number of deletes per search, while the stash is in use, for a path by
// which an item could leave the stash. A search may read a thousand lines; the rest of a delete
// reads two.
const searchEvery = 8

// drain moves an item from the stash into the line that has just got room, if that is a line of
// the item; otherwise, once in searchEvery deletes, into any line where moves can make room. It
// reports whether it moved one.
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
