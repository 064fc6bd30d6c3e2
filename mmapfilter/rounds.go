package mmapfilter

import (
	"context"
	"math/bits"
	"sync/atomic"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/kernel"
)

// place finds room, in rounds, for the items that found none in fill. At the start of a
// round every such item has come to one of its two lines. The lines take the items in,
// one line after the other. If an item finds no room, it or another item of the line is
// sent to its other line, where it arrives in the next round.
//
//	round 0        the items are in their home line, which is full: the line chooses
//	               which items are sent, of those it holds and those that have come
//	rounds 1, 3    an item that finds no room goes back to where it came from
//	round 2        an item that came back takes the room of another one
//	round 4 on     an item that finds no room takes that of another one, as in the paper
//
// Going back keeps few items away from home; in layouts without overflow bits no item
// goes back. An item that is sent leaves its overflow bits in the line. One that goes
// back leaves none: it was never in that line, and it has left its bits where it came
// from. So, from round 1 on, every item away from home has bits there.
//
// The rounds end when few items are left, or when a round places next to none: then the
// table is full, or many items are of one class. (Rounds 2 and 4 do not count: an item
// that went back comes to a full line.) The items left over go through the search of
// inserts, one by one, and to the stash.
//
// Rounds store in the order of the file, whatever its size. Placing items one by one
// would store to random lines: a cache miss each; a page read and written if the file
// is larger than memory; and up to 2 MiB written if the system holds the file in large
// pages and has many to write back.
//
// A round depends on the items and on the lines as the round before left them, and so
// not on the workers.
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

// takeIn puts the items of sorted hashes into their lines. No other task has items that
// have come to these lines.
func (b *builder) takeIn(w *worker, hashes []uint64, round int) error {
	const ahead = 16
	for i, asked := 0, 0; i < len(hashes); {
		line, end := b.sameLine(hashes, i)
		b.table.Load(b.view.Region, line, &w.line)
		for ; asked < min(end+ahead, len(hashes)); asked++ {
			next, _ := layout.SplitHash(hashes[asked], b.plan.Lines)
			first, _ := b.table.Words(next)
			kernel.Prefetch(&b.view.Region[first])
		}
		if err := b.takeInLine(w, hashes[i:end], round); err != nil {
			return err
		}
		b.storeLine(w, line)
		i = end
	}
	return nil
}

// takeInLine puts the items that have come to one line, loaded in w, into it, or sends
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

// takeTogether puts the items that have come to one full line, loaded in w, into it. It
// sends as many items, whose other lines had room at the end of the round before: those
// that together leave few overflow bits, and so fewer than if one item chose after the
// other. It does nothing and returns false if there are not enough of these, or if more
// items have come than a line holds, which are copies of one key.
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

// send sends an item of the line loaded in w to its other line and puts it, the item of
// hash h that has found no room, in its place; or it sends that item itself.
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

// victim chooses the item that leaves the line loaded in w so that another has room; in
// the first round it may be that one. It prefers items whose other line had room at the
// end of the round before, then items that leave the fewest new overflow bits behind,
// then items whose other line had the most room.
//
// The score of an item combines these in that order: 16 for any room at all, minus 4
// for each of at most 2 bits, plus up to 3 for the room. Only if no item scores 16 are
// all items of the line listed, and one of those with the fewest bits leaves, at
// random.
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

// placeLast places what the rounds have left over, in the order of hashes.
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

// placeBlock is how many items are placed between two checks of the context.
const placeBlock = 4096

// A lineRoom holds the number of free slots of each line, up to maxRoom.
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

// of returns the room that a line had at the end of the last round.
func (r lineRoom) of(line uint64) int {
	return int(r.before[line/perWord] >> (line % perWord * roomBits) & maxRoom)
}

// next starts a round.
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
