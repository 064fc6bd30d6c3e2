package build

import (
	"context"
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
	// lastReturn is the last round in which items go back (place, P10); round 1 is the other.
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

// takeAhead is how many items ahead takeIn prefetches lines: taking in that many takes longer
// than a cache miss.
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

// send makes room in the line loaded in w for the item of hash h, which found none: it sends another
// item of the line to its other line. Or it sends the item of h itself.
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

// makeBits rebuilds the overflow bits of lines that know their guests: in the rounds, items left
// bits behind and then came home.
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

// placeAtOnce is how many items are placed between two checks of the context. With few, the preparations
// for a fault in the draft (catch) would count; with many more, a cancelled build would not end at once.
const placeAtOnce = 4096
