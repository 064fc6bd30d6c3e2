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
		if err := b.takeInLine(w, hashes[i:end], round); err != nil {
			return err
		}
		b.putLine(w, line)
		i = end
	}
	return nil
}

// takeInLine puts the items that arrived at one line, loaded in w, into it, or sends as many
// items to their other lines.
func (b *builder) takeInLine(w *worker, came []uint64, round int) error {
	goBack := round%2 == 1 && round <= lastReturn && b.hosts != nil // where they came from (place, P10)
	for _, h := range came {
		it := layout.Unhash(b.table, h)
		if b.table.Place(&w.line, it, nil) {
			continue
		}
		goes := it
		if !goBack {
			if goes = b.victim(w, it, h, round); goes != it && !(b.table.Remove(&w.line, goes, nil) && b.table.Place(&w.line, it, nil)) {
				panic("mmapfilter: a victim left no room")
			}
			if b.hosts != nil {
				b.hosts.SetOverflow(&w.line, goes, nil)
			}
		}
		if err := w.homeless.add(b.table.Hash(b.table.Alternate(goes))); err != nil {
			return err
		}
	}
	return nil
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

// A lineRoom has a bit for each line that has room.
type lineRoom struct {
	before []uint64 // at the end of the previous round
	now    []uint64
}

func newLineRoom(lines uint64) lineRoom {
	n := (lines + 63) / 64
	r := lineRoom{make([]uint64, n), make([]uint64, n)}
	for i := range r.now {
		r.now[i] = ^uint64(0)
	}
	return r
}

// had reports whether a line had room at the end of the previous round.
func (r lineRoom) had(line uint64) bool { return r.before[line/64]>>(line%64)&1 != 0 }

// next starts a round.
func (r lineRoom) next() { copy(r.before, r.now) }

// set is called by all workers. Their lines may have their bits in the same word.
func (r lineRoom) set(line uint64, has bool) {
	if bit := uint64(1) << (line % 64); has {
		atomic.OrUint64(&r.now[line/64], bit)
	} else {
		atomic.AndUint64(&r.now[line/64], ^bit)
	}
}

// victim chooses the item that leaves the line loaded in w to make room (place, P9). In round 0 the
// new item itself may go; later it goes if no other item makes room.
func (b *builder) victim(w *worker, it layout.Item, h uint64, round int) layout.Item {
	first := uint64(0) // the items that cost lookups least come first
	if b.hosts != nil {
		w.victims = b.hosts.Leavers(w.victims, &w.line, it, round == 0)
	} else {
		w.victims = b.table.Victims(w.victims, &w.line, it)
		if round == 0 {
			w.victims = append(w.victims, it)
		}
		first, _ = bits.Mul64((h+uint64(round))*0x9E3779B97F4A7C15, uint64(len(w.victims)))
	}
	if len(w.victims) == 0 {
		return it
	}
	for _, some := range [2][]layout.Item{w.victims[first:], w.victims[:first]} {
		for _, v := range some {
			if b.room.had(b.table.Alternate(v).Line) {
				return v
			}
		}
	}
	return w.victims[first]
}
