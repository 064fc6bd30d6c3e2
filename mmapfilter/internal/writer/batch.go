package writer

import "github.com/mmapfilter/mmapfilter/layout"

// InsertAll inserts up to Batch items in order and stops at the first error. It adds the number
// of items inserted to done, even if a fault ends it. If it can, it makes room for all inserts
// at once and calls tell once for all. Meanwhile it prefetches the home lines of the next
// hashes.
func (w *Writer) InsertAll(hashes, next []uint64, done *int) (err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.mu.placer
	n := 0
	defer func() { // after a fault, too
		*done += n
		if p.Expect(nil); n > 0 {
			w.tell(n)
		}
	}()
	var all [Batch]layout.Item
	items := all[:len(hashes)]
	for i, h := range hashes {
		items[i] = w.table.Split(h)
	}
	room := 0   // number of leading items for which there is room
	waits := -1 // w.mu.waits when the outlooks were made
	ahead := &w.mu.ahead
	for ; n < len(items); n++ {
		if n == room {
			p.Expect(nil) // others may insert first while we wait
			if err = w.ready(); err != nil {
				break
			}
			room++
			if left := len(items) - n; w.protocol.Room(left*w.most) && !w.segmentIsFull(left) {
				room = len(items)
			}
			if waits != w.mu.waits { // there may have been deletes since
				waits = w.mu.waits
				p.LookAhead(&w.mu.op, items[n:], ahead[n:])
				w.prefetchHomes(next)
			}
		}
		p.Expect(&ahead[n])
		if !w.tryInsert(items[n]) {
			err = &FullError{hashes[n]}
			break
		}
		w.append(layout.Insert, 1, hashes[n], true)
	}
	return err
}
