package mmapfilter

import (
	"context"
	"math/bits"
	"sync/atomic"

	"github.com/mmapfilter/mmapfilter/layout"
)

// place finds room for the items that fill had none for, in rounds. At the begin of a
// round every such item has come to one of its two lines. The lines take them in, one
// line after the other; where an item finds no room, it or another one of the line is sent
// to its other line, and has come there at the begin of the next round.
//
//	round 0        the items are at home, in a line that is full: the line chooses
//	               which ones are sent, of those that it holds and those that have come
//	rounds 1, 3    an item that finds no room goes back to where it came from
//	round 2        where an item that came back takes the room of another one
//	round 4 on     an item that finds no room takes that of another one, as in the paper
//
// Going back keeps the number of items away from home small; in layouts without
// overflow bits no item goes back. An item that is sent leaves its overflow bits in the
// line. One that goes back leaves none: it was never in that line, and where it came
// from it has left some; so, from round 1 on, whatever is away from home has bits there.
//
// The rounds end when few items are left, or when one places next to none: then the table is
// full, or many items are of one class. (Rounds 2 and 4 say nothing of that: what went back comes
// to a full line.) What is left over goes through the search of inserts, item by
// item, and to the stash.
//
// Rounds store near where they stored before, in a file of any size. To place items one
// by one means a store to a random line: a miss of the caches; in a file larger than the
// memory a page read and written; and where the system holds a file in pages of 2 MiB and
// has many to write back, 2 MiB written. With 5 billion keys, of which 4 % find no room
// at home, that takes hours.
//
// What a round does depends on the items and on the lines as the round before left
// them, and so not on the workers.
func (b *builder) place(ctx context.Context) error {
	total := b.overflows.count()
	for round := 0; ; round++ {
		before := b.overflows.count()
		if before <= fewOverflows && round >= leastRounds {
			break
		}
		if err := b.round(ctx, round); err != nil {
			return err
		}
		placed := before - b.overflows.count()
		b.report("place", placed, total)
		if round > lastReturn+1 && placed < before/64 {
			break
		}
	}
	return b.placeLast(ctx, total)
}

const (
	leastRounds  = 2    // until then nothing is placed, and home lines have no bits of it
	lastReturn   = 3    // items go back in round 1 and in this one
	fewOverflows = 1024 // that need no round
)

func (b *builder) round(ctx context.Context, round int) error {
	arrived := b.overflows
	defer arrived.close()
	b.overflows = newSpool(b.draft, b.options.Workers, b.options.MemoryBudget/4, arrived.parts())
	b.room.next()
	return b.parallel(ctx, b.overflows, arrived.parts(), func(w *worker, i int) error {
		hashes, err := w.load(arrived, i, i+1, true, false)
		if err != nil {
			return err
		}
		return b.takeIn(w, hashes, round)
	})
}

// takeIn puts the items of sorted hashes into their lines; no other task has items that
// have come to these lines.
func (b *builder) takeIn(w *worker, hashes []uint64, round int) error {
	const ahead = 16
	for i, asked := 0, 0; i < len(hashes); {
		line, end := b.sameLine(hashes, i)
		b.table.Load(b.view.Region, line, &w.line)
		for ; asked < min(end+ahead, len(hashes)); asked++ {
			next, _ := layout.SplitHash(hashes[asked], b.plan.Lines)
			first, _ := b.table.Words(next)
			layout.Prefetch(&b.view.Region[first])
		}
		if err := b.takeInLine(w, hashes[i:end], round); err != nil {
			return err
		}
		b.storeLine(w, line)
		i = end
	}
	return nil
}

// takeInLine puts the items of hashes, which have come to one line, in w, into it, or sends
// as many to their other lines.
func (b *builder) takeInLine(w *worker, came []uint64, round int) error {
	choose := b.chooser != nil && !b.goBack(round)
	for i, h := range came {
		it := b.table.Split(h)
		if b.table.Place(&w.line, it, nil) {
			continue
		}
		if choose {
			choose = false
			if done, err := b.takeTogether(w, came[i:]); done || err != nil {
				return err
			}
		}
		if err := b.send(w, it, h, round); err != nil {
			return err
		}
	}
	return nil
}

// goBack reports whether items that find no room go back to where they came from.
func (b *builder) goBack(round int) bool {
	return round%2 == 1 && round <= lastReturn && !b.table.Both()
}

// takeTogether puts the items of hashes, which have come to one full line, in w, into it,
// and sends as many to their other lines, which had room at the end of the round before:
// those that leave few overflow bits together. It does nothing, and reports that, where
// there are not so many, or where more have come than a line holds: copies of one key.
// (In Compact at 98 % load, f=13, 4.2 % of the lookups of absent keys then go on; 5.6 % where
// one item chooses after the other, which takes longer, too.)
func (b *builder) takeTogether(w *worker, came []uint64) (done bool, err error) {
	if len(came) > b.table.SlotsPerLine() {
		return false, nil
	}
	c, some := &w.crowd, 0
	b.chooser.Gather(c, &w.line, came)
	for i, other := range c.Others { // that of an item that was sent here was full, and still is
		room := b.room.of(other)
		c.Rooms[i] = uint8(room)
		some += min(room, 1)
	}
	if some < len(came) {
		return false, nil
	}
	for _, h := range b.chooser.Part(c, &w.line) {
		if err := w.overflow.add(h); err != nil {
			return true, err
		}
	}
	return true, nil
}

// send sends an item to its other line, so that it, the item of a hash, which has found no
// room in its line, in w, is in there; or that one itself.
func (b *builder) send(w *worker, it layout.Item, h uint64, round int) error {
	goes := it
	if !b.goBack(round) {
		if goes = b.victim(w, it, h, round); goes != it && !(b.table.Remove(&w.line, goes, nil) && b.table.Place(&w.line, it, nil)) {
			panic("mmapfilter: a victim left no room")
		}
		b.table.SetOverflow(&w.line, goes, nil)
	}
	return w.overflow.add(b.table.Hash(b.table.Alternate(goes)))
}

// victim chooses the item that goes from a line, in w, so that another one has room; in
// the first round it may be that one. It is one whose other line had room at the end of the
// round before; of these, one that leaves the fewest new overflow bits behind; of
// these, one whose other line had most room.
//
// The score of an item has these three in that order: up to 3 for the room, 4 for each of
// at most 2 bits, and 16 for any room at all. Only where no item is worth 16 are
// all items of the line listed, and one of those with the fewest bits goes, by chance.
func (b *builder) victim(w *worker, it layout.Item, h uint64, round int) (goes layout.Item) {
	const someRoom, perMark = 16, -4
	most := 2*perMark - 1
	for all, more := false, true; more && most < someRoom+2*perMark; all = true {
		w.victims, more = b.table.Victims(w.victims, &w.line, it, all)
		if round == 0 {
			w.victims = append(w.victims, it)
		}
		// From one of them on, by chance.
		chance, _ := bits.Mul64((h+uint64(round))*0x9E3779B97F4A7C15, uint64(len(w.victims)))
		for _, some := range [2][]layout.Item{w.victims[chance:], w.victims[:chance]} {
			for _, v := range some {
				score := perMark * b.table.NewMarks(&w.line, v)
				if score+someRoom+maxRoom <= most { // whatever its room
					continue
				}
				if room := b.room.of(b.table.Alternate(v).Line); room > 0 {
					score += someRoom + room
				}
				if score > most {
					goes, most = v, score
				}
			}
		}
	}
	return goes
}

// placeLast places what the rounds left over, in the order of hashes.
func (b *builder) placeLast(ctx context.Context, total uint64) error {
	p := newPlacer(b.table, newDirect(b.table, b.view))
	w := &worker{}
	for i := range b.overflows.parts() {
		hashes, err := w.load(b.overflows, i, i+1, true, false)
		if err != nil {
			return err
		}
		for len(hashes) > 0 {
			if err := context.Cause(ctx); err != nil {
				return err
			}
			n := min(len(hashes), placeBlock)
			full := false
			if err := b.guard(func() {
				for _, h := range hashes[:n] {
					full = full || !p.settle(b.table.Split(h))
				}
			}); err != nil {
				return err
			}
			if full {
				return b.errFull()
			}
			b.report("place", uint64(n), total)
			hashes = hashes[n:]
		}
	}
	return nil
}

// placeBlock is how many items are placed between two looks at the context.
const placeBlock = 4096

// A lineRoom has for each line how many of its slots are free, up to maxRoom.
type lineRoom struct {
	before []uint64 // at the end of the last round
	now    []uint64
}

const (
	maxRoom  = layout.MostRoom // every one of the bits
	roomBits = 2
	perWord  = 64 / roomBits
)

func newLineRoom(lines uint64) lineRoom {
	n := (lines + perWord - 1) / perWord
	r := lineRoom{make([]uint64, n), make([]uint64, n)}
	for i := range r.now {
		r.now[i] = ^uint64(0)
	}
	return r
}

// of gives the room that a line had at the end of the last round.
func (r lineRoom) of(line uint64) int {
	return int(r.before[line/perWord] >> (line % perWord * roomBits) & maxRoom)
}

// next begins a round.
func (r lineRoom) next() { copy(r.before, r.now) }

// set is called by all workers, for lines that may have their bits in one word.
func (r lineRoom) set(line, free uint64) {
	word, shift := &r.now[line/perWord], line%perWord*roomBits
	for {
		old := atomic.LoadUint64(word)
		changed := old&^(maxRoom<<shift) | min(free, maxRoom)<<shift
		if old == changed || atomic.CompareAndSwapUint64(word, old, changed) {
			return
		}
	}
}
