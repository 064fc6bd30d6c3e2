package build

import (
	"context"
	"fmt"
	"slices"
	"sort"
	"sync/atomic"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/hashes"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/place"
)

// minRangeBits is the smallest range of lines that a task fills, unless the table is smaller: 512 KiB.
// With shorter ranges, more items would have their other line in the next range.
const minRangeBits = 8 * 512 << 10

// ranges returns the number of ranges of lines, a power of two. It depends only on the geometry, as
// the file does. No two ranges share a word: see RoundUp.
func (b *builder) ranges() int {
	lines, lineBits := b.table.Lines(), uint64(layout.LineBits(b.table.Kind(), b.table.Params()))
	ranges := TaskCount(lines, lineBits)
	for ranges > 1 && (lines%ranges != 0 || lines/ranges*lineBits%64 != 0 || lines/ranges*lineBits < minRangeBits) {
		ranges /= 2
	}
	return int(ranges)
}

// count returns the number of keys that the filter will hold.
func (b *builder) count(ctx context.Context) (uint64, error) {
	if n, all := b.homes.count(); all && !b.Distinct {
		return n, nil
	}
	var total atomic.Uint64
	parts := b.homes.Parts()
	err := b.parallel(ctx, nil, parts, func(_ context.Context, w *worker, i int) error {
		hashes, err := b.homes.load(w, i, i+1, false, b.Distinct)
		total.Add(uint64(len(hashes)))
		b.report("count", 1, uint64(parts))
		return err
	})
	return total.Load(), err
}

// fill puts items into the lines, if they find room within their range of lines. A task fills the
// ranges of a partition, or one range from its partitions.
func (b *builder) fill(ctx context.Context) error {
	ranges := b.ranges()
	tasks := min(ranges, b.homes.Parts())
	b.homeless = newSpool(b.draft, b.Workers, b.MemoryBudget/homelessShare, tasks)
	perTask := b.homes.Parts() / tasks
	if b.Keep {
		if err := b.keep(tasks); err != nil {
			return err
		}
	}
	var read, left atomic.Uint64
	err := b.parallel(ctx, b.homeless, tasks, func(ctx context.Context, w *worker, i int) error {
		hashes, err := b.homes.load(w, i*perTask, (i+1)*perTask, true, b.Distinct)
		if err == nil && b.base != nil {
			err = b.base.put(ctx, i, hashes, w.ages)
		}
		if err != nil {
			return err
		}
		read.Add(uint64(w.read))
		left.Add(uint64(len(hashes)))
		lines := b.table.Lines() / uint64(ranges)
		for r := ranges / tasks * i; r < ranges/tasks*(i+1) && err == nil; r++ {
			from, to := lines*uint64(r), lines*uint64(r+1)
			n := sort.Search(len(hashes), func(i int) bool { return b.table.Split(hashes[i]).Line >= to })
			err = b.fillLines(w, from, to, hashes[:n])
			hashes = hashes[n:]
		}
		b.report("fill", 1, uint64(tasks))
		return err
	})
	if err == nil {
		err = b.homes.done()
	}
	b.homes.Close() // frees its disk space
	if err == nil && b.base != nil {
		err = b.base.end()
	}
	if err != nil {
		return err
	}
	if read.Load() != b.came {
		return fmt.Errorf("read %d keys but kept %d hashes", b.came, read.Load())
	}
	b.items = left.Load()
	return nil
}

// keep begins the base of NAME.hashes, which gets the hashes of a number of tasks.
func (b *builder) keep(tasks int) error {
	f, err := b.draft.CreateHashes()
	if err != nil {
		return err
	}
	w := b.window()
	now := max(b.Now, w.believed(b.LastTime))
	h := hashes.Header{Identity: b.Identity, Ages: []hashes.Age{{First: now, Last: now}}}
	if m, ok := b.homes.(*Merged); ok {
		h.Ages = slices.Clone(m.ages)
		for i := range h.Ages {
			h.Ages[i].First, h.Ages[i].Last = w.believed(h.Ages[i].First), w.believed(h.Ages[i].Last)
		}
		if b.Continues != nil {
			h.At, h.Before = m.inputs[0].surveyed.From, m.inputs[0].Counted
		}
	}
	b.base = &baseFile{pages: pageFile{file: f}, turns: make([]chan struct{}, tasks+1)}
	for i := range b.base.turns {
		b.base.turns[i] = make(chan struct{})
	}
	close(b.base.turns[0])
	b.base.base = hashes.NewBase(h, b.base.pages.write)
	return nil
}

// window returns the Window of the new file.
func (b *builder) window() Window { return Window{b.ExpireAfter, b.Now} }

// fillLines puts the items of sorted hashes into the lines [from, to). The lines are the home lines of
// these items and of no others, and no other task uses them. Items that find no room are left to
// placeLeft.
func (b *builder) fillLines(w *worker, from, to uint64, hashes []uint64) error {
	w.left = w.left[:0]
	if b.hosts != nil {
		w.left = b.hosts.FillLines(b.view.Region, from, to, hashes, w.left)
	} else {
		lines := place.NewUnlogged(b.table, b.view)
		for _, h := range hashes {
			if it := b.table.Split(h); b.table.Place(lines.Load(it.Line), it, nil) {
				lines.Change(nil)
			} else {
				w.left = append(w.left, h)
			}
		}
	}
	for _, h := range w.left {
		if err := w.homeless.add(h); err != nil {
			return err
		}
	}
	return nil
}

// placeLeft inserts the items that found no room in fill, in the order of their hashes.
func (b *builder) placeLeft(ctx context.Context) error {
	p := place.New(b.table, place.NewUnlogged(b.table, b.view))
	w, parts := &worker{}, b.homeless.Parts()
	for i := range parts {
		hashes, err := b.homeless.load(w, i, i+1, true, false)
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
					it := b.table.Split(h)
					full = full || !p.CountUp(it) && !p.Insert(it)
				}
			}); err != nil {
				return err
			}
			if full {
				return b.full()
			}
			hashes = hashes[n:]
		}
		b.report("place", 1, uint64(parts))
	}
	return nil
}

// placeAtOnce is how many items are placed between two checks of the context. With few items,
// setting up catch for each group would take a noticeable part of the time; with many more, a
// cancelled build would not end soon.
const placeAtOnce = 4096
