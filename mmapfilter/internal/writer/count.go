package writer

import (
	"math"

	"github.com/mmapfilter/mmapfilter/layout"
)

// Unknown is what Count returns if it cannot tell.
const Unknown = math.MaxUint64

// Count returns the number of items of the class of a hash, or Unknown.
func (w *Writer) Count(hash uint64) uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	n, ok := layout.Count(w.table, w.newest, hash)
	if !ok || w.Unsure() {
		return Unknown
	}
	return n
}

// An entry of the stash is crowded if the copies of its key take all the room that lines have for
// them. If at least fillsShare of the entries are crowded, a larger file would have hardly more room
// for such keys.
const fillsShare = 0.75

// Fills reports whether an insert of a key finds no room and would hardly find any in a larger
// file, because the copies of the key take all the room that lines have for them, and most entries
// of the stash are crowded.
func (w *Writer) Fills(hash uint64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	it := w.table.Split(hash)
	other := w.table.Alternate(it)
	most := room(w.table, it) + room(w.table, other)
	if w.mu.stashed.entries < layout.StashEntries || w.inLines(it) < most {
		return false
	}
	full := 0
	layout.StashClasses(w.stash, func(c layout.Class, _ uint64) {
		if !layout.Stashed(w.table, w.stash, c) /* damage */ || w.inLines(layout.Item(c)) >= most {
			full++
		}
	})
	return float64(full) >= fillsShare*layout.StashEntries
}

// room returns how many copies of an item an empty line has room for.
func room(t layout.Table, it layout.Item) (copies int) {
	for l := new(layout.Line); t.Place(l, it, nil); copies++ {
	}
	return copies
}

// inLines returns how many copies of an item are in its lines. REQUIRES: w.mu.
func (w *Writer) inLines(it layout.Item) int {
	n := layout.Copies(w.table, layout.LineFrom(w.table, w.newest, it.Line), it)
	if other := w.table.Alternate(it); other.Line != it.Line {
		n += layout.Copies(w.table, layout.LineFrom(w.table, w.newest, other.Line), other)
	}
	return n
}
