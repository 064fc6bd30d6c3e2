package builder

import (
	"context"
	"fmt"
	"sync"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/place"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/sweep"
	"github.com/mmapfilter/mmapfilter/recovery"
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

// A FullError says that not all keys have room. It matches place.ErrFull.
type FullError struct{ Reason string }

func (e *FullError) Error() string { return fmt.Sprintf("%v: %s", place.ErrFull, e.Reason) }
func (e *FullError) Unwrap() error { return place.ErrFull }

// A filler is a Table that fills a line faster than Place does, with the same result.
type filler interface {
	// Fill puts the items of sorted hashes, whose home line is the empty line l, into
	// it. It appends the hashes of those that find no room to beyond, in order.
	Fill(l *layout.Line, hashes, beyond []uint64) []uint64
}

// A builder is one Build in progress.
type builder struct {
	Config
	draft *recovery.Draft

	plan         Plan
	table        layout.Table     // nil until the capacity is known
	filler       filler           // the table, or nil
	chooser      layout.Chooser   // likewise
	overflowBits layout.Overflows // likewise
	hosts        layout.Hosts     // likewise
	view         layout.View      // of the draft

	homes     source    // the hash of every key
	base      *baseFile // nil if the filter does not keep its hashes
	overflows *spool    // hashes of items on the way to the line of the hash
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

// catch runs f, which uses the draft. A fault, caused by a failed disk, becomes an error.
func (b *builder) catch(f func()) error {
	if fault := recovery.Catch(b.draft.Data, f); fault != nil {
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
	b.filler, _ = b.table.(filler)
	b.chooser, _ = b.table.(layout.Chooser)
	b.overflowBits, _ = b.table.(layout.Overflows)
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
	layout.Store(b.table, b.view.Region, line, &w.line)
	free := b.table.Free(w.line[:], line)
	if b.hosts != nil { // nearly all arrivals are guests
		free = b.hosts.GuestRoom(&w.line)
	}
	b.room.set(line, free)
}

// full returns the error for a build with no free slot and no free stash entry.
func (b *builder) full() error {
	entries := 0
	if err := b.catch(func() { entries = layout.StashLen(b.view.Stash) }); err != nil {
		return err
	}
	return &FullError{fmt.Sprintf("%d keys (equal ones count each unless Distinct is set) for a capacity of %d, with %d slots and %d of %d stash entries in use",
		b.items, b.plan.Superblock.Capacity(), b.plan.Geometry.Slots(), entries, layout.StashEntries)}
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
