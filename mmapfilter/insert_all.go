package mmapfilter

import (
	"math/bits"

	"github.com/mmapfilter/mmapfilter/layout"
)

// insertBlock is how many inserts of a batch are under way at once.
const insertBlock = 64

// insertAll inserts up to insertBlock items, up to the first that gives an
// error. It makes room for all of them at once, if there may be as much, and tells of
// them together.
func (w *writer) insertAll(hashes []uint64) (n int, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.placer.asked = true
	defer func() { // after a fault, too
		if w.mu.placer.asked = false; n > 0 {
			w.tell(n)
		}
	}()
	var block [insertBlock]layout.Item
	items := block[:len(hashes)]
	for i, h := range hashes {
		items[i] = w.table.Split(h)
		w.prefetchHomeLine(items[i].Line)
	}
	full := uint64(0) // bit i: the home line of items[i]
	room := 0         // for so many of them
	for ; n < len(items); n++ {
		if n == room {
			if err = w.ready(); err != nil {
				break
			}
			room++
			if left := len(items) - n; w.log.Room(left*w.most) && !w.batchIsFull(left) {
				room = len(items)
			}
			if full = 0; n == 0 { // later there may have been deletes since it was asked
				full = w.lookAhead(items)
			}
		}
		if !w.plan(items[n], full>>n&1 != 0) {
			err = ErrFull
			break
		}
		w.append(1)
	}
	return n, err
}

// lookAhead asks for the lines that inserts look at beyond the home lines, so that their
// cache misses overlap: the alternate lines of those whose home is full; and where that is
// full as well, or the table chooses who goes, the lines that the first moves out of
// the home line lead to. It gives the set of the items whose home line is full, which
// it is as long as only inserts follow. REQUIRES: w.mu.
func (w *writer) lookAhead(items []layout.Item) (full uint64) {
	p := w.mu.placer
	for i, home := range items {
		if w.full(home.Line) {
			if full |= 1 << i; !p.bounds.ChooseFirst {
				p.prefetchOther(home)
			}
		}
	}
	var line layout.Line
	for left := full; left != 0; left &= left - 1 {
		home := items[bits.TrailingZeros64(left)]
		if !p.bounds.ChooseFirst && !w.fullMapped(w.table.Alternate(home).Line) {
			continue
		}
		w.loadMapped(home.Line, &line)
		p.listVictims(&line, home, true, false)
		for _, victim := range p.victims[:min(searchAhead, len(p.victims))] {
			p.prefetchOther(victim)
		}
	}
	return full
}
