package mmapfilter

import (
	"encoding/binary"
	"math/bits"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/kernel"
)

// insertBlock is how many inserts of a batch are planned together: the bits of a word.
const insertBlock = 64

// An outlook is what is known of the lines of an item before its insert. A full line
// stays full as long as only inserts follow. A line that is not may be full by the time
// of the insert: that costs time, but no more.
type outlook struct {
	made        bool // false of unknown alone
	home, other bool // these lines are full
	asked       bool // the lines that the first moves lead to are prefetched

	// If both lines are full: the image of the home line and its first movable items.
	// Valid only while the line is unchanged.
	line    layout.Line
	victims []layout.Item
	full    int  // the other lines of that many of the victims are full
	open    bool // the other line of the next victim is not
}

// unknown is the outlook of an insert that is not part of a batch.
var unknown outlook

// insertAll inserts up to insertBlock items, in order, and stops at the first error. It
// adds the number of items inserted to done, even if a fault ends it. It makes room for
// all of them at once if it can, and reports them together. Meanwhile it prefetches the
// home lines of the next hashes.
func (w *writer) insertAll(hashes, next []uint64, done *int) (err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.mu.placer
	n := 0
	defer func() { // after a fault, too
		*done += n
		if p.outlook = &unknown; n > 0 {
			w.tell(n)
		}
	}()
	var block [insertBlock]layout.Item
	items := block[:len(hashes)]
	for i, h := range hashes {
		items[i] = w.table.Split(h)
	}
	room := 0   // items that there is room for
	waits := -1 // what w.mu.waits was when their outlooks were made
	ahead := &w.mu.ahead
	for ; n < len(items); n++ {
		if n == room {
			p.outlook = &unknown // others may insert first while we wait
			if err = w.ready(); err != nil {
				break
			}
			room++
			if left := len(items) - n; w.log.Room(left*w.most) && !w.segmentIsFull(left) {
				room = len(items)
			}
			if waits != w.mu.waits { // there may have been deletes since
				waits = w.mu.waits
				w.lookAhead(items[n:], ahead[n:])
				w.prefetchHomes(next)
			}
		}
		p.outlook = &ahead[n]
		if !w.plan(items[n]) {
			err = ErrFull
			break
		}
		w.append(1)
	}
	return err
}

// prefetchHomes asks for the blocks that the home lines of up to insertBlock hashes begin in. A
// prefetch is held up until its address is translated, which may take as long as a cache miss;
// those of a burst are held up together.
func (w *writer) prefetchHomes(hashes []uint64) {
	var blocks [insertBlock]uint64
	layout.HomeBlocks(w.table, hashes, blocks[:])
	kernel.PrefetchBlocks(w.view.Region, blocks[:len(hashes)])
}

// lookAhead makes the outlooks of up to insertBlock inserts, one step for all of them
// at a time, so that their cache misses overlap and the kernel checks most lines. The
// steps are: the home lines; the alternate lines of items whose home line is full; if
// those are full too, the line that the first move out of the home line leads to, then
// the second, and so on, for the items that have found no room yet. When few items are
// left it prefetches their next lines and stops. If the table chooses which item moves,
// it prefetches the lines of the first moves instead. REQUIRES: w.mu.
func (w *writer) lookAhead(items []layout.Item, ahead []outlook) {
	p := w.mu.placer
	var which [insertBlock]uint8 // indices of the items still in progress
	var lines [insertBlock]uint64
	for i, it := range items {
		lines[i] = it.Line
		w.prefetchTags(it.Line)
		o := &ahead[i]
		o.made, o.home, o.other, o.asked, o.full, o.open = true, false, false, false, 0, false
	}
	n := 0
	eachBit(w.fullLines(lines[:len(items)]), func(i int) {
		ahead[i].home = true
		which[n], lines[n] = uint8(i), w.table.Alternate(items[i]).Line
		n++
	})
	full := uint64(1)<<n - 1
	if !p.bounds.ChooseFirst {
		full = w.fullLines(lines[:n])
		w.prefetchOpen(lines[:n], full)
	}
	n = 0
	eachBit(full, func(j int) {
		i := which[j]
		w.listFirst(items[i], &ahead[i])
		which[n] = i
		n++
	})
	if p.bounds.ChooseFirst {
		return
	}
	for n >= fewestAhead {
		for j, i := range which[:n] {
			o := &ahead[i]
			lines[j] = w.table.Alternate(o.victims[o.full]).Line
		}
		full := w.fullLines(lines[:n])
		w.prefetchOpen(lines[:n], full)
		for j, i := range which[:n] {
			ahead[i].open = full>>j&1 == 0
		}
		n = 0
		eachBit(full, func(j int) {
			o := &ahead[which[j]]
			if o.full++; o.full < len(o.victims) {
				which[n] = which[j]
				n++
			}
		})
	}
	for _, i := range which[:n] {
		o := &ahead[i]
		p.prefetchOthers(o.victims[o.full:])
	}
}

// fewestAhead is the fewest lines that are worth waiting for together.
const fewestAhead = 4

// listFirst lists the first movable items of a full home line. If the table chooses
// which item moves, it only prefetches the lines that they would move to.
func (w *writer) listFirst(home layout.Item, o *outlook) {
	p := w.mu.placer
	o.asked = true
	w.loadLine(home.Line, &o.line)
	p.listVictims(&o.line, home, true, false)
	if p.bounds.ChooseFirst {
		p.prefetchOthers(p.victims)
		return
	}
	o.other = true
	o.victims = append(o.victims[:0], p.victims...)
}

// prefetchOpen prefetches what a store to one of the lines needs, for the lines that
// are not full.
func (w *writer) prefetchOpen(lines []uint64, full uint64) {
	eachBit(^full&(1<<len(lines)-1), func(i int) { w.prefetchTags(lines[i]) })
}

// fullLines returns the set of lines, of up to 64, that have no free slot. REQUIRES:
// w.mu.
func (w *writer) fullLines(lines []uint64) (full uint64) {
	full = w.table.FullLines(w.view.Region, lines)
	if p := w.overlay.Load(); p != nil {
		var l layout.Line
		eachBit(w.pendingLines(p, lines), func(i int) {
			full &^= 1 << i
			if w.loadLine(lines[i], &l); w.table.Free(&l, lines[i]) == 0 {
				full |= 1 << i
			}
		})
	}
	return full
}

// pendingLines returns a set of those lines, of up to 64, for which isPending reports
// true, and a few others. It prefetches their words.
func (w *writer) pendingLines(p *pending, lines []uint64) (set uint64) {
	var first, last [insertBlock]uint64 // blocks
	var may [insertBlock / 8]uint8
	across := false // some lines lie in two blocks
	for i, line := range lines {
		word, n := w.table.Words(line)
		first[i], last[i] = word/blockWords, (word+uint64(n)-1)/blockWords
		across = across || first[i] != last[i]
	}
	p.mayHave(first[:len(lines)], may[:])
	if across {
		p.mayHave(last[:len(lines)], may[:])
	}
	set = binary.LittleEndian.Uint64(may[:])
	eachBit(set, func(i int) {
		p.prefetchTags(first[i])
		p.prefetchTags(last[i])
	})
	eachBit(set, func(i int) {
		if one, other := p.seemsToHave(first[i]), p.seemsToHave(last[i]); !one && !other {
			set &^= 1 << i
		}
	})
	return set
}

// eachBit calls do for each bit that is set, starting with the lowest.
func eachBit(set uint64, do func(i int)) {
	for ; set != 0; set &= set - 1 {
		do(bits.TrailingZeros64(set))
	}
}
