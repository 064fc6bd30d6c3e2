package engine

import (
	"encoding/binary"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/kernel"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/pending"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/place"
)

// Batch is how many inserts of a batch are planned together.
const Batch = place.MostAhead

// InsertAll inserts up to Batch items in order and stops at the first error. It adds the number
// of items inserted to done, even if a fault ends it. If it can, it makes room for all of them
// at once and reports them together. Meanwhile it prefetches the home lines of the next hashes.
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
	var block [Batch]layout.Item
	items := block[:len(hashes)]
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
		if !w.plan(items[n]) {
			err = ErrFull
			break
		}
		if err = w.double(Insert, hashes[n]); err != nil {
			w.mu.op.reset()
			break
		}
		w.append(1, hashes[n])
	}
	return err
}

// prefetchHomes prefetches the blocks in which the home lines of up to Batch hashes start. It
// does so in one burst: a prefetch waits until its address is translated, and those of a burst
// wait together.
func (w *Writer) prefetchHomes(hashes []uint64) {
	var blocks [Batch]uint64
	layout.HomeBlocks(w.table, hashes, blocks[:])
	kernel.PrefetchBlocks(w.view.Region, blocks[:len(hashes)])
}

// fullLines returns as a bit set which of up to 64 lines have no free slot. REQUIRES: w.mu.
func (w *Writer) fullLines(lines []uint64) (full uint64) {
	full = w.table.FullLines(w.view.Region, lines)
	if p := w.overlay.Load(); p != nil {
		var l layout.Line
		place.EachBit(w.pendingLines(p, lines), func(i int) {
			full &^= 1 << i
			if w.loadLine(lines[i], &l); w.table.Free(&l, lines[i]) == 0 {
				full |= 1 << i
			}
		})
	}
	return full
}

// pendingLines returns as a bit set for which of up to 64 lines isPending reports true, plus a
// few others. It prefetches their words.
func (w *Writer) pendingLines(p *pending.Overlay, lines []uint64) (set uint64) {
	var first, last [Batch]uint64 // blocks
	var may [Batch / 8]uint8
	across := false // some lines lie in two blocks
	for i, line := range lines {
		word, n := w.table.Words(line)
		first[i], last[i] = word/layout.BlockWords, (word+uint64(n)-1)/layout.BlockWords
		across = across || first[i] != last[i]
	}
	p.MayHave(first[:len(lines)], may[:])
	if across {
		p.MayHave(last[:len(lines)], may[:])
	}
	set = binary.LittleEndian.Uint64(may[:])
	place.EachBit(set, func(i int) {
		p.PrefetchTags(first[i])
		p.PrefetchTags(last[i])
	})
	place.EachBit(set, func(i int) {
		if one, other := p.SeemsToHave(first[i]), p.SeemsToHave(last[i]); !one && !other {
			set &^= 1 << i
		}
	})
	return set
}
