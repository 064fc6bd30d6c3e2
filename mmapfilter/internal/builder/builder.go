package builder

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/hashes"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/place"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/sweep"
	"github.com/mmapfilter/mmapfilter/recovery"
	"github.com/zeebo/xxh3"
)

// A Config says what to build and with what. No field has a default.
type Config struct {
	Seed         uint64
	Shard        layout.Shard // keys of others are left out
	Capacity     uint64       // 0: as many as there are keys
	Distinct     bool         // store equal keys once
	Workers      int
	MemoryBudget int64 // bytes
	// Keep makes NAME.hashes, with the given identity. Keys were inserted Now.
	Keep     bool
	Identity uint64
	Now      uint64
	// Check, if not nil, is called once writers are kept out of a file at the path of the new one: with
	// Name, at the end, and otherwise at the beginning.
	Check func() error
	// Like, if not "", is a file whose owner, group and permissions the new one gets.
	Like string
	// First, if it is not empty, is the superblock of the file that the new one replaces, whose
	// generation and sequence go on.
	First layout.Superblock
	// Name, if not nil, returns the name that a finished file gets, in the directory of the path, or ""
	// if it is not needed. read is the number of keys that it was made from.
	Name func(sb *layout.Superblock, read uint64) (name string, err error)
	// Progress is called from one goroutine at a time. total is 0 while it is unknown.
	Progress func(stage string, done, total uint64)
	// Plan returns the filter for a capacity.
	Plan func(capacity uint64) (Plan, error)
}

// A Plan is the filter to build.
type Plan struct {
	Geometry   layout.Geometry
	Superblock layout.Superblock // the first superblock of the file, without state, length, UUID and signature
	Limit      uint64            // keys, as place.KeysOf counts them
	Beyond     string            // what more keys would do, for the error
}

// A FullError says that not all keys have room.
type FullError struct{ Reason string }

func (e *FullError) Error() string { return e.Reason }

// Build makes the file at path from keys. lost says which parts of an older file's owner and
// group it could not keep. If not all keys have room, the error is a *FullError.
func Build(ctx context.Context, path string, c Config, keys iter.Seq2[[]byte, error]) (lost string, err error) {
	return build(ctx, path, c, func(b *builder) error {
		s := newSpool(b.draft, c.Workers, c.MemoryBudget, spoolParts(c.Capacity))
		b.homes = s
		return b.spoolParcels(ctx, s, b.ofKeys(keys))
	})
}

// BuildHashes is Build from the hashes of keys, a block at a time. All keys must belong to the shard.
func BuildHashes(ctx context.Context, path string, c Config, blocks iter.Seq2[[]uint64, error]) (lost string, err error) {
	return build(ctx, path, c, func(b *builder) error {
		s := newSpool(b.draft, c.Workers, c.MemoryBudget, spoolParts(c.Capacity))
		b.homes = s
		return b.spoolParcels(ctx, s, b.ofHashes(blocks))
	})
}

// BuildKept is Build from the hashes that filters have kept.
func BuildKept(ctx context.Context, path string, c Config, kept []Kept) (lost string, err error) {
	return build(ctx, path, c, func(b *builder) error {
		m, err := OpenKept(ctx, b.draft, c.Workers, c.MemoryBudget, kept, nil)
		if err != nil {
			return err
		}
		b.homes, b.came = m, m.items
		return nil
	})
}

// build makes the file at path. take takes the hashes in.
func build(ctx context.Context, path string, c Config, take func(b *builder) error) (lost string, err error) {
	newDraft := recovery.NewDraft
	if c.Like != "" {
		newDraft = func(path string) (*recovery.Draft, error) { return recovery.NewDraftLike(path, c.Like) }
	}
	draft, err := newDraft(path)
	if err != nil {
		return "", err
	}
	b := &builder{Config: c, draft: draft}
	published := false
	defer func() {
		b.close()
		if !published {
			err = errors.Join(err, draft.Discard())
		}
	}()
	if err := context.Cause(ctx); err != nil {
		return "", err
	}
	if c.Check != nil && c.Name == nil {
		if err := c.Check(); err != nil {
			return "", err
		}
	}
	if c.Capacity > 0 { // find out that the disk is too small before reading the keys
		if err := b.allocate(c.Capacity); err != nil {
			return "", err
		}
	}
	if err := take(b); err != nil {
		return "", err
	}
	if err := b.fromSource(ctx); err != nil {
		return "", err
	}
	if err := b.guard(b.putSuperblocks); err != nil {
		return "", err
	}
	if err := context.Cause(ctx); err != nil {
		return "", err
	}
	if c.Name != nil {
		name, err := c.Name(&b.plan.Superblock, b.came)
		if err != nil || name == "" {
			return "", err
		}
		draft.Rename(name, c.Check)
	}
	published = true // or discarded, by Publish
	return draft.Lost(), draft.Publish()
}

// fromSource runs the steps from the hashes to lines and checksums.
func (b *builder) fromSource(ctx context.Context) error {
	if b.table == nil {
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
	Config
	draft *recovery.Draft

	plan    Plan
	table   layout.Table   // nil until the capacity is known
	chooser layout.Chooser // the table, or nil
	hosts   layout.Hosts   // likewise
	view    layout.View    // of the draft

	homes     source      // the hash of every key
	base      *baseWriter // nil if the filter does not keep its hashes
	overflows *spool      // hashes of items on the way to the line of the hash
	room      lineRoom
	came      uint64 // keys from the sequence, counted before anything is done with them
	items     uint64 // those that go into the filter: all, or with Distinct one of each

	progress struct {
		sync.Mutex
		stage string
		done  uint64
	}
}

func (b *builder) close() {
	if b.homes != nil {
		b.homes.close()
	}
	b.overflows.close()
}

// guard runs f, which uses the draft. A fault, caused by a failed disk, becomes an error.
func (b *builder) guard(f func()) error {
	if fault := recovery.Guard(b.draft.Data, f); fault != nil {
		return fault
	}
	return nil
}

// allocate fixes the geometry and gives the draft its size.
func (b *builder) allocate(capacity uint64) (err error) {
	if b.plan, err = b.Plan(capacity); err != nil {
		return err
	}
	g := b.plan.Geometry
	if err := b.draft.Allocate(g.SealedBytes); err != nil {
		return err
	}
	b.draft.AdviseLarge()
	b.table = layout.NewTable(g)
	b.chooser, _ = b.table.(layout.Chooser)
	b.hosts, _ = b.table.(layout.Hosts)
	b.view = layout.NewView(recovery.Words(b.draft.Data)[layout.WordRuntime:], g)
	return nil
}

// report passes the progress of a stage to the caller.
func (b *builder) report(stage string, add, total uint64) {
	b.progress.Lock()
	defer b.progress.Unlock()
	if b.progress.stage != stage {
		b.progress.stage, b.progress.done = stage, 0
	}
	b.progress.done += add
	b.Progress(stage, b.progress.done, total)
}

// tasks returns the number of ranges of lines to fill in parallel. Each range has the lines of
// whole partitions of the spool, and no two ranges share a word: see RoundUp.
func (b *builder) tasks() int {
	lines, lineBits := b.table.Lines(), uint64(layout.LineBits(b.table.Kind(), b.table.Params()))
	tasks := min(TaskCount(lines, lineBits), uint64(b.homes.parts()))
	for lines%tasks != 0 || lines/tasks*lineBits%64 != 0 && tasks > 1 {
		tasks /= 2
	}
	return int(tasks)
}

// count returns the number of keys that the filter will hold.
func (b *builder) count(ctx context.Context) (uint64, error) {
	if !b.Distinct {
		return b.homes.count(), nil
	}
	var total atomic.Uint64
	parts := b.homes.parts()
	err := b.parallel(ctx, nil, parts, func(w *worker, i int) error {
		hashes, err := b.homes.load(w, i, i+1, false, true)
		total.Add(uint64(len(hashes)))
		b.report("count", 1, uint64(parts))
		return err
	})
	return total.Load(), err
}

// fill puts keys into their home lines, as far as they have room.
func (b *builder) fill(ctx context.Context) error {
	tasks := b.tasks()
	b.overflows = newSpool(b.draft, b.Workers, b.MemoryBudget/4, tasks)
	b.room = newLineRoom(b.table.Lines())
	perTask := b.homes.parts() / tasks
	if b.Keep {
		stop, err := b.keep(ctx)
		if err != nil {
			return err
		}
		defer stop()
	}
	var read, distinct atomic.Uint64
	err := b.parallel(ctx, b.overflows, tasks, func(w *worker, i int) error {
		written := b.base == nil
		defer func() { // also after a fault
			if !written {
				b.base.fail()
			}
		}()
		hashes, err := b.homes.load(w, i*perTask, (i+1)*perTask, true, b.Distinct)
		if err != nil {
			return err
		}
		if b.base != nil {
			if err := b.base.put(i, hashes, w.ages); err != nil {
				return err
			}
			written = true
		}
		read.Add(uint64(w.read))
		distinct.Add(uint64(len(hashes)))
		err = b.fillLines(w, hashes)
		b.report("fill", 1, uint64(tasks))
		return err
	})
	if err == nil {
		err = b.homes.done()
	}
	b.homes.close() // frees its disk space
	if err == nil && b.base != nil {
		err = b.base.end()
	}
	if err != nil {
		return err
	}
	if read.Load() != b.came {
		return fmt.Errorf("read %d keys but kept %d hashes", b.came, read.Load())
	}
	if b.items = b.came; b.Distinct {
		b.items = distinct.Load()
	}
	return nil
}

// fillLines fills the home lines of sorted hashes. No other task has items in these lines.
func (b *builder) fillLines(w *worker, hashes []uint64) error {
	l := &w.line
	for i := 0; i < len(hashes); {
		line, end := b.sameLine(hashes, i)
		b.table.Load(b.view.Region, line, l)
		w.beyond = b.table.Fill(l, hashes[i:end], w.beyond[:0])
		for _, h := range w.beyond { // the line has none of their bits yet: round 0 sets them
			if err := w.overflow.add(h); err != nil {
				return err
			}
		}
		b.putLine(w, line)
		i = end
	}
	return nil
}

// sameLine returns the line of hashes[i] and the index of the first hash of the next line.
// hashes is sorted.
func (b *builder) sameLine(hashes []uint64, i int) (line uint64, end int) {
	lines := b.table.Lines()
	line, _ = layout.SplitHash(hashes[i], lines)
	for end = i + 1; end < len(hashes); end++ {
		if next, _ := layout.SplitHash(hashes[end], lines); next != line {
			break
		}
	}
	return line, end
}

// putLine stores the worker's line to the draft.
func (b *builder) putLine(w *worker, line uint64) {
	b.table.Store(b.view.Region, line, &w.line)
	free := b.table.Free(&w.line, line)
	if b.hosts != nil { // nearly all arrivals are guests
		free = b.hosts.GuestRoom(&w.line)
	}
	b.room.set(line, free)
}

// checkLimit checks the number of keys against the limit after all are placed.
func (b *builder) checkLimit(context.Context) error {
	var entries int
	var inStash uint64
	if err := b.guard(func() { entries, inStash = layout.StashUse(b.view.Stash) }); err != nil {
		return err
	}
	if place.KeysOf(b.items, inStash, entries) > b.plan.Limit {
		return &FullError{fmt.Sprintf("%d keys for a capacity of %d; more than %d %s",
			b.items, b.plan.Superblock.Capacity(), b.plan.Limit, b.plan.Beyond)}
	}
	return nil
}

// full returns the error for a build with no free slot and no free stash entry.
func (b *builder) full() error {
	entries := 0
	if err := b.guard(func() { entries = layout.StashLen(b.view.Stash) }); err != nil {
		return err
	}
	return &FullError{fmt.Sprintf("%d keys (equal ones count each unless Distinct is set) for a capacity of %d, with %d slots and %d of %d stash entries in use",
		b.items, b.plan.Superblock.Capacity(), b.plan.Geometry.Slots(), entries, layout.StashEntries)}
}

// check counts the items in the lines, which proves that no key was lost, and makes the chunk
// checksums.
func (b *builder) check(ctx context.Context) error {
	var inLines atomic.Uint64
	table, pieces := b.checksums(), sweep.NewPieces(b.plan.Geometry)
	err := b.parallel(ctx, nil, pieces.N(), func(_ *worker, i int) error {
		items, err := pieces.Sum(b.table, b.view.Region, i, b.draft.Data, table)
		inLines.Add(items)
		b.report("check", 1, uint64(pieces.N()))
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

// checksums returns the draft's table of checksums.
func (b *builder) checksums() []byte {
	g := b.plan.Geometry
	return b.draft.Data[g.OffTable : g.OffTable+4*g.Chunks]
}

// putSuperblocks stores the trailer to the draft, and the superblock to all four slots.
func (b *builder) putSuperblocks() {
	sb, table := &b.plan.Superblock, b.checksums()
	sb.SetState(layout.Sealed)
	sb.SetLength(b.items)
	if b.First != (layout.Superblock{}) {
		sb.SetGeneration(b.First.Generation() + 1)
		sb.SetCheckpointLSN(b.First.CheckpointLSN())
		sb.SetUserSeq(b.First.UserSeq())
		sb.SetOperation(b.First.Operation())
	}
	if b.base != nil {
		sb.SetHashes(layout.Hashes{Identity: b.Identity, Pages: b.base.tail.Number, Check: b.base.tail.Before})
	}
	id := uuid(sb, table)
	sb.SetUUID(id)
	if b.Shard.Count > 0 && sb.ShardIdentity() == 0 {
		sb.SetShardIdentity(binary.LittleEndian.Uint64(id[:]))
	}
	sb.Sign()
	trailer := layout.Trailer(sb, b.plan.Geometry, table)
	copy(b.draft.Data[b.plan.Geometry.OffTrailer:], trailer[:])
	PutCopies(b.draft.Data, sb)
}

// PutCopies puts a superblock into all four slots of a file. The file is readable while one of
// them is intact.
func PutCopies(file []byte, sb *layout.Superblock) {
	for i := range layout.SuperblockSlots {
		copy(file[i*layout.SuperblockBytes:], sb[:])
	}
}

// uuid derives the UUID from the checksums and the superblock, which holds seed and geometry:
// equal content has an equal UUID on every machine.
func uuid(sb *layout.Superblock, table []byte) (uuid [16]byte) {
	h := xxh3.New()
	h.Write(sb[:])
	h.Write(table)
	return h.Sum128().Bytes()
}

// keep begins the base of NAME.hashes. Its waits end when ctx is cancelled, until stop is called.
func (b *builder) keep(ctx context.Context) (stop func() bool, err error) {
	f, err := b.draft.CreateHashes()
	if err != nil {
		return nil, err
	}
	ages := []hashes.Age{{First: b.Now, Last: b.Now}}
	if m, ok := b.homes.(*Merged); ok {
		ages = m.ages
	}
	b.base = &baseWriter{pages: pageWriter{file: f}}
	b.base.base = hashes.NewBase(b.Identity, ages, b.base.pages.write)
	b.base.turns.L = &b.base.mu
	return context.AfterFunc(ctx, b.base.fail), nil
}

// parallel runs the tasks 0 to n-1 of a build stage, each once, on all workers. What they spool
// goes to overflows, if not nil. It ends early on the first error, a fault in the draft, or a
// cancelled context.
func (b *builder) parallel(ctx context.Context, overflows *spool, n int, task func(w *worker, i int) error) error {
	return sweep.Each(ctx, b.Workers, n, b.draft.Data, func() (func(i int) error, func() error) {
		w := &worker{}
		run := func(i int) error { return task(w, i) }
		if overflows == nil {
			return run, func() error { return nil }
		}
		w.overflow = overflows.collector()
		return run, w.overflow.flush
	})
}
