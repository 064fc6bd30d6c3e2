package mmapfilter

import (
	"context"
	"math/bits"
	"sync/atomic"

	"github.com/mmapfilter/mmapfilter/layout"
)

// place finds room for the items that fill had none for, in rounds. In each round, the
// lines of a partition take, in their order, the items that have come to them. Where a line
// has no room, one item goes to its other line, and is there in the next round.
//
// So what is stored is near what was stored before, in a file of any size. A store to a
// random line would be a miss of the caches; in a file larger than the memory, a page
// read and written; and where the system holds a file in pages of 2 MiB and has many to
// write back, 2 MiB written: 5 billion keys, of which 4 % find no room at home, then
// take hours.
//
// An item that goes leaves overflow bits behind, and these make lookups of absent keys
// go on: see victim. The items of the first round have come to their home lines: fill
// left them in the spool, and nothing in their line tells of them. For each of them, the line
// chooses the item to go among all that are in it, and itself. An item that then finds no
// room in its other line, because others came first, goes back, and another one has
// to go: so few are away from home. It leaves no bits where it could not stay, as it has
// left some where it came from. After these rounds, what has no room displaces
// another item wherever it comes to, as in the paper.
//
// A round in which items come back cannot make them fewer: each has come to a full line. Later
// ones do, or the table is full, or a class has too many items: when a round
// leaves nearly all of what it was given, the searches of inserts are next, and the stash. They
// are for the last few items as well.
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
	leastRounds  = 2    // afterwards every item that is not in its home has bits there
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
	for i := 0; i < len(hashes); {
		line, end := b.sameLine(hashes, i)
		b.table.Load(b.view.Region, line, &w.line)
		for ; i < end; i++ {
			if i+ahead < len(hashes) {
				next, _ := layout.SplitHash(hashes[i+ahead], b.plan.Lines)
				first, _ := b.table.Words(next)
				layout.Prefetch(&b.view.Region[first])
			}
			if err := b.takeItem(w, hashes[i], round); err != nil {
				return err
			}
		}
		b.storeLine(w, line)
	}
	return nil
}

// takeItem puts the item of a hash into its line, in w, or sends one to its other line.
func (b *builder) takeItem(w *worker, h uint64, round int) error {
	it := b.table.Split(h)
	if b.table.Place(&w.line, it, nil) {
		return nil
	}
	goes := it
	if back := round%2 == 1 && round <= lastReturn && !b.table.Both(); !back {
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
// these, one whose other line had most room. In Compact at 98 % load, lookups of
// absent keys go on half as often as with victims that only find room.
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
		chance, _ := bits.Mul64((h+uint64(round))*0x9E3779B97F4A7C15, uint64(len(w.victims)))
		for i := range w.victims {
			v := w.victims[(uint64(i)+chance)%uint64(len(w.victims))]
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
	maxRoom  = 1<<roomBits - 1
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
