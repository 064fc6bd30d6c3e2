package mmapfilter

import "github.com/mmapfilter/mmapfilter/layout"

// insertBlock is how many inserts of a batch are under way at once.
const insertBlock = 64

// insertAll inserts up to insertBlock items, up to the first that gives an
// error. It makes room for all of them at once, if there may be as much, and tells of
// them together.
func (w *writer) insertAll(hashes []uint64) (n int, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.prefetchInserts(hashes)
	w.mu.placer.asked = true
	defer func() { // after a fault, too
		if w.mu.placer.asked = false; n > 0 {
			w.tell(n)
		}
	}()
	room := 0 // for so many of them
	for ; n < len(hashes); n++ {
		if n == room {
			if err = w.ready(); err != nil {
				break
			}
			room++
			if left := len(hashes) - n; w.log.Room(left*w.most) && !w.batchIsFull(left) {
				room = len(hashes)
			}
		}
		if !w.plan(hashes[n]) {
			err = ErrFull
			break
		}
		w.append(1)
	}
	return n, err
}

// prefetchInserts asks for the lines that inserts will look at, so that their
// cache misses overlap: the home lines first; then the alternate lines of those
// whose home is full; and where that is full as well, or the table chooses who goes,
// the lines that the first moves out of the home line lead to. What the mapping has
// is good enough to guess by. REQUIRES: w.mu.
func (w *writer) prefetchInserts(hashes []uint64) {
	for _, h := range hashes {
		w.prefetchHome(h)
	}
	p := w.mu.placer
	var line layout.Line
	var full [insertBlock]layout.Item
	beyond := full[:0]
	for _, h := range hashes {
		home := w.table.Split(h)
		if w.fullMapped(home.Line) {
			if !p.bounds.ChooseFirst {
				w.prefetch(w.table.Alternate(home).Line)
			}
			beyond = append(beyond, home)
		}
	}
	for _, home := range beyond {
		if !p.bounds.ChooseFirst {
			if !w.fullMapped(w.table.Alternate(home).Line) {
				continue
			}
		}
		w.loadMapped(home.Line, &line)
		p.listVictims(&line, home, true, false)
		for _, victim := range p.victims[:min(searchAhead, len(p.victims))] {
			w.prefetch(w.table.Alternate(victim).Line)
		}
	}
}
