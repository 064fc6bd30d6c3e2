package mmapfilter

import (
	"encoding/binary"
	"math/bits"

	"github.com/mmapfilter/mmapfilter/layout"
)

// insertBlock is how many inserts of a batch are under way at once: the bits of a word.
const insertBlock = 64

// An outlook is what has been found out ahead of an insert. A line that is full stays so as long
// as only inserts follow. One that is not may be full by the time of the insert: then that costs
// time, and no more.
type outlook struct {
	made        bool // false of unknown alone
	home, other bool // these lines are full
	asked       bool // the lines that the first moves lead to are on their way

	// What a full home line is, where the alternate line is full as well, and the first of it
	// that may go. They stand for nothing once that line is another.
	line    layout.Line
	victims []layout.Item
	full    int  // the lines that so many of them would go to are full
	open    bool // and that of the next is not
}

// unknown is the outlook of an insert by itself.
var unknown outlook

// insertAll inserts up to insertBlock items, up to the first that gives an error, and adds
// to done how many it inserted, also where a fault ends it. It makes
// room for all of them at once, if there may be as much, and tells of them together. The home
// lines of those that will come next are on their way meanwhile.
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
	room := 0   // for so many of them
	waits := -1 // what w.mu.waits was when their outlooks were made
	ahead := &w.mu.ahead
	for ; n < len(items); n++ {
		if n == room {
			p.outlook = &unknown // of whoever comes first, where this waits
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
// those of a burst are held up together. (With other work between them each took 50 ns in a
// virtual machine; in bursts of 8, an insert of a batch at 95 % load took 6 % longer, of 16 3 %.)
func (w *writer) prefetchHomes(hashes []uint64) {
	var blocks [insertBlock]uint64
	w.table.HomeBlocks(hashes, blocks[:])
	layout.PrefetchBlocks(w.view.Region, blocks[:len(hashes)])
}

// lookAhead makes the outlooks of up to insertBlock inserts, a step for all of them at a time, so
// that their cache misses overlap and most lines are looked at by the kernel: the home lines; the
// alternate lines of those whose home is full; and where that is full as well, the line that
// the first move out of the home line leads to, then that of the second for those that have
// not found one with room, and so on; of the last few the next lines are asked for, and no more.
// So are the lines of the first moves where the table chooses who goes. REQUIRES: w.mu.
func (w *writer) lookAhead(items []layout.Item, ahead []outlook) {
	p := w.mu.placer
	var which [insertBlock]uint8 // of the items is being worked on
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

// fewestAhead is how many lines are worth waiting for together.
const fewestAhead = 4

// listFirst lists the first that may go of a full home line. Where the table chooses who goes, it
// asks for the lines that they would go to, and no more.
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

// prefetchOpen asks for what those of the lines are stored to that are not full.
func (w *writer) prefetchOpen(lines []uint64, full uint64) {
	eachBit(^full&(1<<len(lines)-1), func(i int) { w.prefetchTags(lines[i]) })
}

// fullLines gives the set of those of up to 64 lines that have no free slot. REQUIRES: w.mu.
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

// pendingLines gives the set of those of up to 64 lines of which isPending reports true, and of a few
// others. It asks for their words.
func (w *writer) pendingLines(p *pending, lines []uint64) (set uint64) {
	var first, last [insertBlock]uint64 // blocks
	var may [insertBlock / 8]uint8
	across := false // lie some in two blocks
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

// eachBit calls do for each bit that is set, from the lowest on.
func eachBit(set uint64, do func(i int)) {
	for ; set != 0; set &= set - 1 {
		do(bits.TrailingZeros64(set))
	}
}
