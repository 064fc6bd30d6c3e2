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

// Build makes a sealed filter from a sequence of keys and opens it as [OpenReadOnly]
// does. It ranges over keys once and keeps no key, so the sequence may reuse the memory
// of a key once the next one is asked for. A file at path is replaced when the new one
// is complete and durable. The new file gets the owner, group and permissions of the
// old one; [Stats.Warning] names those that this process may not set.
//
// The file depends on the options and the keys alone, not on the order of the keys or
// the number of workers.
//
// If Build fails, it leaves nothing behind, and a file at path is as it was. The
// exception is an error that says that the new filter is complete: it is at path, but
// could not be opened or may not survive a power loss.
//
// The errors are the one that the sequence yielded; the cause of a cancelled context;
// an [*OptionError]; [ErrLocked] if a writer has the file at path open; [ErrFull] if
// there are more keys than the given Capacity has room for, or too many keys with more
// copies than their buckets hold (see [Options.Distinct]); and those of the file
// system, such as a full disk.
//
// Build holds about [Options.MemoryBudget] bytes of hashes in memory, half of them in
// buffers, and up to a quarter more for items whose home line is full. The rest goes to
// temporary files beside path: 8 bytes a key and, for a while, 8 bytes for each item
// whose home line is full, which is 4 % of the keys in Blocked and Compact and 20 % in
// Packed and SemiSorted.
//
// In addition, each worker holds up to 2 MiB of keys yet to be hashed and sorts one
// partition of the hashes at a time, in 16 bytes a key. A partition has 1 in 1,024 of
// the keys, or 1 in 4,096 if Capacity is above 100 million and MemoryBudget has 4 MiB
// for each worker. The workers share 4 bits for each line of the file, which in Packed
// and SemiSorted is each bucket. All copies of a key are in one partition: Distinct
// drops them while the partition is read, in 64 MiB; without Distinct, each takes about
// 40 bytes. If there are many times more keys than Capacity, the hashes for each 64 KiB
// of lines are sorted at once.
//
// All stages but the placement of the last few items go through the file from start to
// end, so it may be larger than memory.
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
		return nil, fmt.Errorf("the new filter is complete but cannot be opened: %w", err)
	}
	o := f.open.Load()
	o.warning = joinWarnings(o.warning, lost)
	return f, nil
}

// buildFile takes the steps of Build:
//
//	spool   hash the keys, short ones in the goroutine that reads them;
//	        partition the hashes by their top bits                   all workers
//	count   the distinct keys, if Distinct is set without Capacity   all workers
//	fill    each range of lines, from its partition, sorted          all workers
//	place   items whose home line is full, in rounds                 all workers;
//	        the last few                                             one worker
//	check   count the items in the lines, make the chunk checksums   all workers
//	publish superblocks, fsync, rename
//
// Sorting the hashes of a partition puts them in the order of their lines and makes the
// order in which they were read, and so the number of workers, irrelevant.
//
// lost says what the new file could not keep of the owner and group of the old one.
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

// store takes the steps from the spooled hashes to lines and checksums.
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

// A builder is one Build in progress.
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

// guard runs f, which uses the draft. A fault, from a disk that failed, becomes an
// error.
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

// report passes progress of a stage on to the caller.
func (b *builder) report(stage string, add, total uint64) {
	b.progress.Lock()
	defer b.progress.Unlock()
	if b.progress.stage != stage {
		b.progress.stage, b.progress.done = stage, 0
	}
	b.progress.done += add
	b.options.Progress(stage, b.progress.done, total)
}

// tasks returns the number of ranges of lines that are filled in parallel. Each range
// has the lines of whole partitions of the spool, and no two ranges share a word: see
// linesFor.
func (b *builder) tasks() int {
	lines, lineBits := b.plan.Lines, uint64(layout.LineBits(b.plan.Layout, b.table.Params()))
	tasks := min(taskCount(lines, lineBits), uint64(b.homes.parts()))
	for lines%tasks != 0 || lines/tasks*lineBits%64 != 0 && tasks > 1 {
		tasks /= 2
	}
	return int(tasks)
}

// count returns the number of keys that the filter will hold.
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

// fill stores every key that finds room in its home line.
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
		return fmt.Errorf("read %d keys but kept %d hashes", b.came, read.Load())
	}
	if b.items = b.came; b.options.Distinct {
		b.items = distinct.Load()
	}
	return nil
}

// fillLines fills the home lines of sorted hashes. No other task has items in these
// lines.
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

// sameLine returns the line of hashes[i], which are sorted, and the index of the first
// hash of the next line.
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

// checkLimit checks the number of keys against keyLimit once all are placed.
func (b *builder) checkLimit(context.Context) error {
	var entries int
	var inStash uint64
	if err := b.guard(func() { entries, inStash = layout.StashUse(b.view.Stash) }); err != nil {
		return err
	}
	sb := newSuperblock(b.plan, b.options)
	if limit := keyLimit(&sb, b.plan.geometry); keysOf(b.items, inStash, entries) > limit {
		return fmt.Errorf("%w: %d keys for a capacity of %d; more than %d would raise the false-positive rate above %g times %g",
			ErrFull, b.items, b.plan.Capacity, limit, overRate, sb.TargetRate())
	}
	return nil
}

func (b *builder) errFull() error {
	entries := 0
	if err := b.guard(func() { entries = layout.StashLen(b.view.Stash) }); err != nil {
		return err
	}
	return fmt.Errorf("%w: %d keys (equal ones count each unless Distinct is set) for a capacity of %d, with %d slots and %d of %d stash entries in use",
		ErrFull, b.items, b.plan.Capacity, b.plan.geometry.Slots(), entries, layout.StashEntries)
}

// check counts the items in the lines, which shows that no key was lost, and makes the
// chunk checksums.
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
		return fmt.Errorf("placed %d items, but the lines hold %d and the stash %d", b.items, inLines.Load(), inStash)
	}
	return nil
}

// putSuperblocks stores the trailer, and the superblock in all four slots: the file can
// be read as long as one of them is intact.
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

// newSuperblock returns the first superblock of a file, without state, UUID and
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

// buildUUID derives the UUID from the superblock, which holds seed and geometry, and
// the checksums: equal content has an equal UUID on every machine.
func buildUUID(sb *layout.Superblock, table []byte) (uuid [16]byte) {
	h := xxh3.New()
	h.Write(sb[:])
	h.Write(table)
	return h.Sum128().Bytes()
}
