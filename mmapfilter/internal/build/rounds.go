package build

import (
	"context"
	"math/bits"
	"sync/atomic"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/kernel"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/place"
)

// place finds room, in rounds, for the items that found none in fill. See the package essay.
func (b *builder) place(ctx context.Context) error {
	total := b.homeless.total.Load()
	for round := 0; ; round++ {
		before := b.homeless.total.Load()
		if before <= fewHomeless && round >= leastRounds {
			break
		}
		if err := b.round(ctx, round); err != nil {
			return err
		}
		placed := before - b.homeless.total.Load()
		b.report("place", placed, total)
		if round > lastReturn+1 && placed < before/leastShare { // items that went back arrive a round later
			break
		}
	}
	return b.placeLast(ctx, total)
}

const (
	// leastRounds is the minimum number of rounds: fill sets no overflow bits, round 0 sets them,
	// and nothing is placed before round 1.
	leastRounds = 2
	// lastReturn is the last round in which items go back (place, P10); round 1 is the other
	// such round.
	lastReturn = 3
	// fewHomeless items need no round: searching for each costs less than another pass over all
	// lines.
	fewHomeless = 1024
	// leastShare ends the rounds: if a round places less than 1 in 64 of its items, halving them
	// would take 44 more rounds.
	leastShare = 64
)

func (b *builder) round(ctx context.Context, round int) error {
	arrived := b.homeless
	defer arrived.close()
	b.homeless = newSpool(b.draft, b.Workers, b.MemoryBudget/homelessShare, arrived.parts())
	b.room.next()
	return b.parallel(ctx, b.homeless, arrived.parts(), func(w *worker, i int) error {
		hashes, err := w.load(arrived, i, i+1, true, false)
		if err != nil {
			return err
		}
		return b.takeIn(w, hashes, round)
	})
}

// takeAhead is how many items ahead takeIn prefetches lines: to take in takeAhead items takes
// longer than a cache miss.
const takeAhead = 16

// takeIn puts the items of sorted hashes into their lines. No other task has items that arrived
// at these lines.
func (b *builder) takeIn(w *worker, hashes []uint64, round int) error {
	for i, asked := 0, 0; i < len(hashes); {
		line, end := b.sameLine(hashes, i)
		layout.Load(b.table, b.view.Region, line, &w.line)
		for ; asked < min(end+takeAhead, len(hashes)); asked++ {
			next, _ := layout.SplitHash(hashes[asked], b.table.Lines())
			first, _ := b.table.Words(next)
			kernel.Prefetch(&b.view.Region[first])
		}
		if err := b.takeInLine(w, line, hashes[i:end], round); err != nil {
			return err
		}
		b.putLine(w, line)
		i = end
	}
	return nil
}

// takeInLine puts the items that arrived at one line, loaded in w, into it, or sends as many
// items to their other lines.
func (b *builder) takeInLine(w *worker, line uint64, came []uint64, round int) error {
	choose := b.hosts != nil && !b.goBack(round)
	for i, h := range came {
		it := layout.Unhash(b.table, h)
		if b.table.Place(&w.line, it, nil) {
			continue
		}
		if choose {
			choose = false
			if done, err := b.takeTogether(w, line, came[i:]); done || err != nil {
				return err
			}
		}
		if err := b.send(w, it, h, round); err != nil {
			return err
		}
	}
	return nil
}

// send makes room in the line loaded in w for the item of hash h, which found none: it sends an item
// of the line to its other line, or the item of h itself.
func (b *builder) send(w *worker, it layout.Item, h uint64, round int) error {
	goes := it
	if !b.goBack(round) {
		if goes = b.victim(w, it, h, round); goes != it && !(b.table.Remove(&w.line, goes, nil) && b.table.Place(&w.line, it, nil)) {
			panic("mmapfilter: a victim left no room")
		}
		if b.hosts != nil {
			b.hosts.SetOverflow(&w.line, goes, nil)
		}
	}
	return w.homeless.add(b.table.Hash(b.table.Alternate(goes)))
}

// goBack reports whether items that find no room go back where they came from (place, P10).
func (b *builder) goBack(round int) bool {
	return round%2 == 1 && round <= lastReturn && b.hosts != nil
}

// placeLast places the items left after the rounds, in the order of hashes.
func (b *builder) placeLast(ctx context.Context, total uint64) error {
	p := place.New(b.table, place.NewUnlogged(b.table, b.view))
	w := &worker{}
	for i := range b.homeless.parts() {
		hashes, err := w.load(b.homeless, i, i+1, true, false)
		if err != nil {
			return err
		}
		for len(hashes) > 0 {
			if err := context.Cause(ctx); err != nil {
				return err
			}
			n := min(len(hashes), placeAtOnce)
			full := false
			if err := b.catch(func() {
				for _, h := range hashes[:n] {
					full = full || !p.Settle(layout.Unhash(b.table, h))
				}
			}); err != nil {
				return err
			}
			if full {
				return b.full()
			}
			b.report("place", uint64(n), total)
			hashes = hashes[n:]
		}
	}
	return b.makeBits(ctx)
}

// makeBits makes overflow bits anew if the table is a layout.Hosts: in the rounds, items set
// bits when they left and did not clear them when they came home.
func (b *builder) makeBits(ctx context.Context) error {
	if b.hosts == nil {
		return nil
	}
	lines, tasks := b.table.Lines(), uint64(b.homeless.parts()) // as in fill
	store := func(word, value uint64) { atomic.StoreUint64(&b.view.Region[word], value) }
	return b.parallel(ctx, nil, int(tasks), func(_ *worker, i int) error {
		b.hosts.MakeBits(&b.view, lines/tasks*uint64(i), lines/tasks*uint64(i+1), store)
		return nil
	})
}

// placeAtOnce is how many items are placed between two checks of the context. With few items,
// setting up catch for each group would take a noticeable part of the time; with many more, a
// cancelled build would not end at once.
const placeAtOnce = 4096

// A lineRoom holds the number of free slots of each line, up to maxRoom.
type lineRoom struct {
	before []uint64 // at the end of the previous round
	now    []uint64
}

const (
	maxRoom  = layout.MostRoom // all bits of a line's count
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

// of returns the room that a line had at the end of the previous round.
func (r lineRoom) of(line uint64) int {
	return int(r.before[line/perWord] >> (line % perWord * roomBits) & maxRoom)
}

// next starts a round.
func (r lineRoom) next() { copy(r.before, r.now) }

// set is called by all workers. Their lines may have their bits in the same word.
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

// takeTogether puts the items that arrived at one full line, loaded in w, into it. It sends as
// many items whose other lines had room at the end of the previous round. It chooses the items
// that leave together (place, P9), which sets fewer overflow bits than a choice of one after the
// other. It does nothing and returns false if there are too few such items, or if more items
// arrived than a line holds; then most are copies of one key.
func (b *builder) takeTogether(w *worker, line uint64, came []uint64) (done bool, err error) {
	if len(came) > layout.SlotsPerLine(b.plan.Geometry.Kind, b.plan.Geometry.Params) {
		return false, nil
	}
	c, some := &w.crowd, 0
	b.hosts.Gather(c, &w.line, line, came)
	for i, other := range c.Others { // an item was sent here because its other line was full; that line still is
		room := b.room.of(other)
		c.Rooms[i] = uint8(room)
		some += min(room, 1)
	}
	if some < len(came) {
		return false, nil
	}
	left, ok := b.hosts.Part(c, &w.line)
	for _, h := range left {
		if err := w.homeless.add(h); err != nil {
			return true, err
		}
	}
	return ok, nil
}

// The score of an item that may leave a line (place, P9). It orders items first by whether their
// other line has room, then by the cost that the move adds to lookups, then by how much room the
// other line has. One step of cost outweighs any amount of room, and having room at all outweighs
// any cost.
const (
	perCost  = -(maxRoom + 1)
	leastOf  = layout.MostCost * perCost // the least score of a cost
	someRoom = -(layout.MostCost + 1) * perCost
)

// victim chooses the item that leaves the line loaded in w to make room: a random one of the
// items with the highest score. In round 0 the new item itself may go; later it goes if no other
// item makes room.
func (b *builder) victim(w *worker, it layout.Item, h uint64, round int) (goes layout.Item) {
	w.victims = b.table.Victims(w.victims, &w.line, it)
	if round == 0 {
		w.victims = append(w.victims, it)
	}
	goes = it
	most := leastOf - 1 // less than any score
	chance, _ := bits.Mul64((h+uint64(round))*0x9E3779B97F4A7C15, uint64(len(w.victims)))
	for _, some := range [2][]layout.Item{w.victims[chance:], w.victims[:chance]} {
		for _, v := range some {
			score := 0
			if b.hosts != nil {
				score = perCost * b.hosts.Cost(&w.line, v)
			}
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
