package mmapfilter

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/recovery"
	"github.com/zeebo/xxh3"
)

// Build makes a sealed filter of the keys of a sequence, under path, and opens
// it as [OpenReadOnly] does. It ranges over the sequence once and does not keep
// the keys, so each may be overwritten when the next one is asked for. A file
// that stands under path is replaced when the new one is complete and durable. The new
// one gets its owner, group and permissions; where this process may not give them,
// [Stats.Warning] of the filter says so.
//
// The file depends on the options and on the keys, not on their order and not
// on the number of workers.
//
// Where Build returns an error, it has left nothing behind, and an older file
// under path is as it was; unless the error says that the new filter is
// complete, but could not be opened, or may not survive a power loss. The errors
// are one that the sequence gave, the cause of a context that was cancelled, an
// [*OptionError], [ErrFull] where more keys came than the capacity that was
// given has room for, or too many keys too often for the stash to count them
// (see [Options.Distinct]), [ErrLocked] where a writer has the older file open,
// and those of the file system: a full disk, for one.
//
// Build holds about MemoryBudget bytes of hashes in memory, half of them in buffers,
// and up to a quarter more of those whose home line is full; the rest is on the disk
// beside the file, 8 bytes for each key and, for a while, for each of those: 4 % of the
// keys in Blocked and Compact, 20 % in Packed and SemiSorted. Besides, each worker sorts
// the hashes of one partition at a time, in 16 bytes each: 1 in 1,024 of the keys, or 1
// in 4,096 if Capacity is above 100 million; it has up to 2 MiB of keys on their
// way; and there are 4 bits for each line of the file, which in Packed and SemiSorted is
// each bucket. The copies of one key are in one partition; with Distinct they are
// dropped on the way, in 64 MiB, without it they take about 40 bytes each. Where many times
// more keys come than Capacity says, those for each 64 KiB of lines are sorted at once.
//
// All stages go through the file from its begin to its end, but for the last few keys:
// it may be larger than the memory.
func Build(ctx context.Context, path string, opts *Options, keys iter.Seq2[[]byte, error]) (*Filter, error) {
	if err := opts.Validate(); err != nil {
		return nil, about("build", path, err)
	}
	lost, err := buildFile(ctx, path, opts.withDefaults(), keys)
	if err != nil {
		return nil, about("build", path, err)
	}
	f, err := OpenReadOnly(path, nil)
	if err != nil {
		return nil, fmt.Errorf("the new filter is complete: %w", err)
	}
	o := f.open.Load()
	o.warning = joinWarnings(o.warning, lost)
	return f, nil
}

// buildFile takes the steps of Build one after the other:
//
//	spool   hash the keys, short ones where they come from;
//	        partition the hashes by their top bits                   all workers
//	count   if no capacity was given and equal keys count once       all workers
//	fill    each range of lines, from its partition, sorted          all workers
//	place   what its home line had no room for, in rounds            all workers;
//	        the last few                                             one worker
//	check   hold the items in the lines against the keys that came,
//	        make the chunk checksums                                 all workers
//	publish superblocks, fsync, rename
//
// Sorting the hashes of a partition puts them in the order of their lines, and
// makes the order in which they came, and so the workers, immaterial.
//
// lost is what the new file could not keep of the old one's owner and group.
func buildFile(ctx context.Context, path string, o Options, keys iter.Seq2[[]byte, error]) (lost string, err error) {
	draft, err := recovery.NewDraft(path)
	if err != nil {
		return "", err
	}
	b := &builder{options: o, draft: draft}
	published := false
	defer func() {
		b.homes.close()
		b.overflows.close()
		if !published {
			err = errors.Join(err, draft.Discard())
		}
	}()
	if err := context.Cause(ctx); err != nil {
		return "", err
	}
	if o.Capacity > 0 { // a disk too small is found before the keys are read
		if err := b.allocate(o.Capacity); err != nil {
			return "", err
		}
	}
	b.homes = newSpool(draft, o.Workers, o.MemoryBudget, spoolParts(o.Capacity))
	if err := b.spool(ctx, keys); err != nil {
		return "", err
	}
	if err := b.store(ctx); err != nil {
		return "", err
	}
	if err := b.guard(b.putSuperblocks); err != nil {
		return "", err
	}
	if err := context.Cause(ctx); err != nil {
		return "", err
	}
	published = true // or discarded, by Publish
	return draft.Lost(), draft.Publish()
}

// store takes the steps from what is spooled to lines and checksums.
func (b *builder) store(ctx context.Context) error {
	if b.plan.Lines == 0 {
		n, err := b.count(ctx)
		if err != nil {
			return err
		}
		if err := b.allocate(n); err != nil {
			return err
		}
	}
	for _, step := range []func(context.Context) error{b.fill, b.place, b.checkLimit, b.check} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// A builder is one Build under way.
type builder struct {
	options Options
	draft   *recovery.Draft

	plan    Plan
	table   layout.Table
	chooser layout.Chooser // the table, or nil
	view    layout.View    // of the draft

	homes     *spool // the hash of every key
	overflows *spool // hashes of items on the way to the line of the hash
	room      lineRoom
	came      uint64 // keys that the sequence gave, counted before anything is done with them
	items     uint64 // of them, those that go into the filter: all, or with Distinct one of each

	progress struct {
		sync.Mutex
		stage string
		done  uint64
	}
}

// guard runs f on the draft; a fault in it, from a disk that failed, is an error.
func (b *builder) guard(f func()) error {
	if fault := recovery.Guard(b.draft.Data, f); fault != nil {
		return fault
	}
	return nil
}

// allocate fixes the geometry and gives the draft its size.
func (b *builder) allocate(capacity uint64) (err error) {
	if b.plan, err = b.options.plan(capacity); err != nil {
		return err
	}
	if err := b.draft.Allocate(b.plan.geometry.SealedBytes); err != nil {
		return err
	}
	b.table = layout.NewTable(b.plan.geometry)
	b.chooser, _ = b.table.(layout.Chooser)
	b.view = layout.NewView(recovery.Words(b.draft.Data)[layout.WordRuntime:], b.plan.geometry)
	return nil
}

// report passes on how far a stage is.
func (b *builder) report(stage string, add, total uint64) {
	b.progress.Lock()
	defer b.progress.Unlock()
	if b.progress.stage != stage {
		b.progress.stage, b.progress.done = stage, 0
	}
	b.progress.done += add
	b.options.Progress(stage, b.progress.done, total)
}

// tasks is into how many ranges of lines, each the lines of whole partitions of
// the spool, the region is cut to be filled in parallel. No two ranges have lines
// in one word: see linesFor.
func (b *builder) tasks() int {
	lines, lineBits := b.plan.Lines, uint64(layout.LineBits(b.plan.Layout, b.table.Params()))
	tasks := min(taskCount(lines, lineBits), uint64(b.homes.parts()))
	for lines%tasks != 0 || lines/tasks*lineBits%64 != 0 && tasks > 1 {
		tasks /= 2
	}
	return int(tasks)
}

// count gives the number of keys that the filter will hold.
func (b *builder) count(ctx context.Context) (uint64, error) {
	if !b.options.Distinct {
		return b.homes.count(), nil
	}
	var total atomic.Uint64
	parts := b.homes.parts()
	err := b.parallel(ctx, nil, parts, func(w *worker, i int) error {
		hashes, err := w.load(b.homes, i, i+1, false, true)
		total.Add(uint64(len(hashes)))
		b.report("count", 1, uint64(parts))
		return err
	})
	return total.Load(), err
}

// fill puts every key that finds room in its home line there.
func (b *builder) fill(ctx context.Context) error {
	tasks := b.tasks()
	b.overflows = newSpool(b.draft, b.options.Workers, b.options.MemoryBudget/4, tasks)
	b.room = newLineRoom(b.plan.Lines)
	perTask := b.homes.parts() / tasks
	var read, distinct atomic.Uint64
	err := b.parallel(ctx, b.overflows, tasks, func(w *worker, i int) error {
		hashes, err := w.load(b.homes, i*perTask, (i+1)*perTask, true, b.options.Distinct)
		if err != nil {
			return err
		}
		read.Add(uint64(w.read))
		distinct.Add(uint64(len(hashes)))
		err = b.fillLines(w, hashes)
		b.report("fill", 1, uint64(tasks))
		return err
	})
	b.homes.close() // its space on the disk is free again
	if err != nil {
		return err
	}
	if read.Load() != b.came {
		return fmt.Errorf("%d keys came, and %d of their hashes were kept", b.came, read.Load())
	}
	if b.items = b.came; b.options.Distinct {
		b.items = distinct.Load()
	}
	return nil
}

// fillLines fills the home lines of sorted hashes; no other task has items in
// these lines.
func (b *builder) fillLines(w *worker, hashes []uint64) error {
	l := &w.line
	for i := 0; i < len(hashes); {
		line, end := b.sameLine(hashes, i)
		b.table.Load(b.view.Region, line, l)
		w.beyond = b.table.Fill(l, hashes[i:end], w.beyond[:0])
		for _, h := range w.beyond { // nothing in the line tells of them: see place
			if err := w.overflow.add(h); err != nil {
				return err
			}
		}
		b.storeLine(w, line)
		i = end
	}
	return nil
}

// sameLine gives the line of hash i of sorted ones, and where those of the next one begin.
func (b *builder) sameLine(hashes []uint64, i int) (line uint64, end int) {
	line, _ = layout.SplitHash(hashes[i], b.plan.Lines)
	for end = i + 1; end < len(hashes); end++ {
		if next, _ := layout.SplitHash(hashes[end], b.plan.Lines); next != line {
			break
		}
	}
	return line, end
}

func (b *builder) storeLine(w *worker, line uint64) {
	b.table.Store(b.view.Region, line, &w.line)
	b.room.set(line, b.table.Free(&w.line, line))
}

// checkLimit holds the keys against keyLimit, when all have a place.
func (b *builder) checkLimit(context.Context) error {
	var entries int
	var inStash uint64
	if err := b.guard(func() { entries, inStash = layout.StashUse(b.view.Stash) }); err != nil {
		return err
	}
	sb := newSuperblock(b.plan, b.options)
	if limit := keyLimit(&sb, b.plan.geometry); keysOf(b.items, inStash, entries) > limit {
		return fmt.Errorf("%w: %d keys for a capacity of %d; with more than %d, the false-positive rate would be more than %g times %g",
			ErrFull, b.items, b.plan.Capacity, limit, overRate, sb.TargetRate())
	}
	return nil
}

func (b *builder) errFull() error {
	entries := 0
	if err := b.guard(func() { entries = layout.StashLen(b.view.Stash) }); err != nil {
		return err
	}
	return fmt.Errorf("%w: %d keys, equal ones counted each unless Distinct is set, for a capacity of %d; it has %d slots, and %d of %d stash entries are in use",
		ErrFull, b.items, b.plan.Capacity, b.plan.geometry.Slots(), entries, layout.StashEntries)
}

// check counts what is in the lines, which makes sure that no key was lost on
// the way, and makes the checksum of every chunk and that of the table.
func (b *builder) check(ctx context.Context) error {
	g := b.plan.geometry
	table := b.draft.Data[g.OffTable : g.OffTable+4*g.Chunks]
	var inLines atomic.Uint64
	pieces := newPieces(g)
	err := b.parallel(ctx, nil, pieces.n, func(_ *worker, i int) error {
		items, err := sumPiece(b.table, b.view.Region, pieces, i, b.draft.Data, table)
		inLines.Add(items)
		b.report("check", 1, uint64(pieces.n))
		return err
	})
	if err != nil {
		return err
	}
	var inStash uint64
	var broken error
	if err := b.guard(func() { _, inStash, broken = layout.CheckStash(b.table, &b.view) }); err != nil || broken != nil {
		return errors.Join(err, broken)
	}
	if inLines.Load()+inStash != b.items {
		return fmt.Errorf("%d keys went in, %d are in the lines and %d in the stash", b.items, inLines.Load(), inStash)
	}
	return nil
}

// putSuperblocks stores the trailer and the superblock, in all four slots: the
// file stays readable when any three of them are damaged.
func (b *builder) putSuperblocks() {
	g := b.plan.geometry
	table := b.draft.Data[g.OffTable : g.OffTable+4*g.Chunks]
	sb := newSuperblock(b.plan, b.options)
	sb.SetState(layout.Sealed)
	sb.SetLength(b.items)
	sb.SetUUID(buildUUID(&sb, table))
	sb.Sign()
	trailer := layout.Trailer(&sb, g, table)
	copy(b.draft.Data[g.OffTrailer:], trailer[:])
	putCopies(b.draft.Data, &sb)
}

// newSuperblock is the first superblock of a file, without state, UUID and
// signature.
func newSuperblock(p Plan, o Options) (sb layout.Superblock) {
	sb.SetGeneration(1)
	sb.SetGeometry(p.geometry)
	sb.SetSeed(o.Seed)
	sb.SetCapacity(p.Capacity)
	sb.SetTargetRate(o.FalsePositiveRate)
	if o.FingerprintBits != 0 {
		sb.SetTargetRate(impliedRate(p.geometry, p.DesignLoad))
	}
	sb.SetDesignLoad(p.DesignLoad)
	sb.SetNormalisation(o.Normalisation)
	return sb
}

// putCopies stores a superblock in all four slots.
func putCopies(file []byte, sb *layout.Superblock) {
	for i := range layout.SuperblockSlots {
		copy(file[i*layout.SuperblockBytes:], sb[:])
	}
}

// buildUUID is made of the superblock, which holds seed and geometry, and the
// checksums: equal content has equal identity, on every machine.
func buildUUID(sb *layout.Superblock, table []byte) (uuid [16]byte) {
	h := xxh3.New()
	h.Write(sb[:])
	h.Write(table)
	return h.Sum128().Bytes()
}
