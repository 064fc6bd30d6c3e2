package writer

import (
	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/place"
)

// A FullError is the error of an insert that finds no room for a hash. It matches ErrFull.
type FullError struct {
	Hash uint64
	// Begun says that Apply has made all changes durable, and perhaps done some. Resume does the rest.
	Begun bool
}

func (e *FullError) Error() string { return ErrFull.Error() }
func (e *FullError) Unwrap() error { return ErrFull }

// plan plans what an operation does to the items (K7). It puts the stores into w.mu.op. grow is the
// change in the number of items. does says that the operation changes something, if only the history.
// listed says that the operation is in the history of the old file (see Replay); then it goes to the
// history of w too, whatever it does to the items.
//
// Once an AtLeastOne has left a key out, no delete takes an item until the next rebuild, since the item
// may answer for that key. An AtLeastOne that leaves its key out goes to the history, unless the key is
// known to be in it. REQUIRES: w.mu.
func (w *Writer) plan(op layout.Op, hash uint64, listed bool) (grow int, does bool, err error) {
	switch {
	case op == layout.Delete && w.protocol.History().LeftOut > 0:
		return 0, listed || layout.Lookup(w.looks, w.newest, hash), nil
	case op == layout.Delete && w.remove(hash):
		return -1, true, nil
	case op == layout.Delete:
		return 0, listed, nil
	case op == layout.AtLeastOne && layout.Lookup(w.looks, w.newest, hash):
		return 0, listed || !w.mu.known.has(hash) || w.mu.tap != nil, nil
	case !w.tryInsert(w.table.Split(hash)):
		return 0, false, &FullError{Hash: hash}
	}
	return 1, true, nil
}

// tryInsert lets the placer plan an insert and reports whether there is room. At the limit of keys,
// there is room only for an item whose class has an entry in the stash. REQUIRES: w.mu.
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

// remove lets the placer plan a delete and reports whether there is such an item. REQUIRES: w.mu.
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

// drain moves an item from the stash into the line freed, which has just got room, if this is a line of
// the item. It reports whether it has moved an item. REQUIRES: w.mu.
func (w *Writer) drain(freed uint64) (done bool) {
	if !w.mu.stashed.mayBeOf(freed) {
		return false
	}
	full := w.mu.stashed.entries == layout.StashEntries || w.atLimit()
	layout.StashClasses(w.stash, func(c layout.Class, items uint64) {
		it := layout.Item(c)
		// If full is set, skip an entry of several items: it would stay in use, and the next key
		// would have no room.
		if !done && !(full && items > 1) && (it.Line == freed || w.table.Alternate(it).Line == freed) {
			done = w.mu.placer.Unstash(it)
		}
	})
	return done
}

// atLimit reports whether the filter has Limit keys or more. REQUIRES: w.mu.
func (w *Writer) atLimit() bool {
	return place.KeysOf(w.protocol.Length(), w.mu.stashed.items, w.mu.stashed.entries) >= w.Limit
}
