package mmapfilter

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/build"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/rebuild"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/writer"
	"github.com/mmapfilter/mmapfilter/recovery/osfile"
)

// RebuildOptions describe the file that [Filter.Rebuild] makes. A nil *RebuildOptions and the zero
// value mean a file like the old one.
type RebuildOptions struct {
	// Capacity is the number of keys that the filter is sized for. 0 means the capacity of the old
	// file, or the number of its items if that is larger.
	Capacity uint64
	// FalsePositiveRate is the largest acceptable rate at Capacity keys. 0 means the rate of the
	// old file.
	FalsePositiveRate float64
	// Layout is the layout to use. Auto, the zero value, means the layout of the old file,
	// or the layout that [Options.Plan] chooses if the old one cannot have the rate.
	Layout layout.Kind
	// Keys, if not nil, makes Rebuild take the keys from the caller, not the hashes that the filter has
	// kept. It is called once, while no operation of the filter is under way, and returns all keys that
	// are in the filter at this instant: a snapshot, such as a cursor of a read transaction that Keys
	// begins. Operations wait until Keys returns, but [Filter.DurableSeq] and [Filter.DurableOps] do
	// not, and Keys may call them. Operations go on while the sequence is read; the sequence must not
	// show their effects. In a filter that grows by itself, an insert that finds no room waits for the
	// rebuild. If the sequence waits for this insert, both wait until the context of the Rebuild ends,
	// and then the insert fails. In a shard, Rebuild leaves out keys of other shards. The new filter has
	// the keys of the sequence and the operations since, whatever the old filter had.
	Keys func() (iter.Seq2[[]byte, error], error)
	// MemoryBudget, Workers and Progress are as in [Options]. In a further stage, "catch up", Rebuild
	// repeats in the new file the operations that came meanwhile.
	MemoryBudget int64
	Workers      int
	Progress     func(stage string, done, total uint64)

	// capacityFor and hashes, if not nil, are the functions of bridge.Filter.Rebuild.
	capacityFor func(items uint64) uint64
	hashes      func() []uint64
	patient     bool // see rebuild.Job
}

// Rebuild makes a new file with the items of the filter and replaces the old one: the new file may
// be larger or smaller, or have another rate or layout (C8). Inserts, deletes, lookups and syncs go
// on meanwhile. At the end operations and syncs wait once, until the new file has the last operations,
// is durable, and has the name (K3). The wait includes two short syncs of the disk; [Stats.RebuildStall]
// says how long it took. Lookups never wait. If operations come faster than Rebuild can repeat them in
// the new file, each of them waits for a moment.
//
// The items come from [RebuildOptions.Keys], or otherwise from the hashes that the filter keeps
// ([Options.KeepHashes]). From hashes, the new file gets the items that the history means (K7): it has
// items for keys that InsertUnique left out, and for keys whose items were taken by deletes of absent
// keys (C6), but none for keys whose deletes waited. The seed, the normalisation, [Filter.DurableSeq]
// and [Filter.DurableOps] stay. A crash at any instant leaves the old file or the new one. If Rebuild
// fails or ctx is cancelled, everything stays as it was. (If the disk fails after the new file has got
// the name, the filter fails with [ErrFailed]. If the disk has no room left for the hashes of the
// operations that came meanwhile, Rebuild succeeds, and a later checkpoint writes these hashes: see
// [OpenOptions.OnError].)
//
// Once the new file has the name, processes that have the old file open for reading get "maybe" for keys
// that they do not find there: see [ErrSuperseded]. A [Follower] switches to the new file when it gets
// such an answer, or at its next look.
//
// Beside the old file, Rebuild needs room on the disk for the new file, and 8 bytes for each item
// and for each operation that goes on meanwhile.
//
// The errors are [ErrNoHashes], an [*OptionError], [ErrReadOnly], [ErrClosed], [ErrReplaced], [ErrFull]
// if the items have no room in the new file, and those of [Build].
func (f *Filter) Rebuild(ctx context.Context, opts *RebuildOptions) error {
	o, err := f.writable()
	if err != nil {
		return err
	}
	if opts == nil {
		opts = new(RebuildOptions)
	}
	ctx, cancel := f.growth.call(ctx)
	defer cancel()
	if err := f.rebuild(ctx, func() *RebuildOptions { return opts }); err != nil {
		return about("rebuild", o.path, err)
	}
	return nil
}

// rebuild is Rebuild with the options that choose returns; if choose returns nil, rebuild does nothing.
// It calls choose once no other rebuild is under way.
func (f *Filter) rebuild(ctx context.Context, choose func() *RebuildOptions) error {
	f.growth.take()
	defer f.growth.Unlock()
	o, err := f.live()
	if err != nil {
		return err
	}
	opts := choose()
	if opts == nil {
		return nil
	}
	options, err := rebuilding(o.superblock, o.len(), opts)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(f.growth.life, func() { cancel(ErrClosed) })()
	if opts.Keys != nil {
		f.growth.auto.goesOn(ctx)
		defer f.growth.auto.goesOn(context.Background()) // before ctx ends
	}
	s := &successor{filter: f, old: o}
	job := rebuild.Job{Old: o.work, Config: options.building(), Keys: opts.Keys, Patient: opts.patient, Open: s.open, Use: s.use}
	capacity := opts.capacityFor
	if capacity == nil && opts.Capacity == 0 && opts.Keys == nil { // the history may mean more items than the file has
		capacity = func(items uint64) uint64 { return max(o.superblock.Capacity(), items) }
	}
	if capacity != nil {
		sizeByItems(&job.Config, capacity)
	}
	if opts.hashes != nil {
		job.Hashes = func() []uint64 { return f.shard.OwnAll(opts.hashes()) }
	}
	swapped, err := rebuild.Run(ctx, job)
	switch {
	case swapped:
		f.growth.auto.Lock()
		f.growth.auto.failed = nil // the error was about the old file
		f.growth.auto.Unlock()
		f.growth.auto.tryAgain()
		o.release()
		osfile.ForgetPast(s.file.path, time.Duration(s.file.superblock.KeepChanges()))
		// Other processes see the position of the last checkpoint, and the old file may have had a
		// later checkpoint than the new file. If this checkpoint cannot keep the hashes, later ones try.
		if late := s.file.work.Writer.Checkpoint(); s.file.work.Writer.Err() != nil {
			err = errors.Join(err, late)
		} else {
			s.file.work.Report(late)
		}
	case s.file != nil:
		s.file.release()
	}
	return err
}

// sizeByItems makes a build choose its capacity once the items are counted.
func sizeByItems(c *build.Config, capacity func(items uint64) uint64) {
	plan := c.Plan
	c.Capacity = 0
	c.Plan = func(items uint64) (build.Plan, error) { return plan(max(capacity(items), 1)) }
}

// rebuilding returns the options, with defaults, for a file that replaces the file with the superblock
// and a number of items.
func rebuilding(sb *layout.Superblock, items uint64, opts *RebuildOptions) (Options, error) {
	n := Options{
		Capacity: opts.Capacity, FalsePositiveRate: opts.FalsePositiveRate, Layout: opts.Layout,
		Seed: sb.Seed(), Normalisation: sb.Normalisation(), KeepHashes: sb.KeepsHashes(), AutoGrow: sb.Grows(), KeepChanges: time.Duration(sb.KeepChanges()),
		ExpireAfter:  expireAfterOf(sb),
		MemoryBudget: opts.MemoryBudget, Workers: opts.Workers, Progress: opts.Progress,
		shard: sb.Shard(), identity: sb.ShardIdentity(),
	}
	if n.Capacity == 0 {
		n.Capacity = max(sb.Capacity(), items)
	}
	if n.FalsePositiveRate == 0 {
		n.FalsePositiveRate = sb.TargetRate()
	}
	err := n.validate()
	if opts.Layout == layout.Auto && err == nil {
		n.Layout = sb.Kind()
		if n.validate() != nil {
			n.Layout = layout.Auto
		}
	}
	if err != nil {
		return n, err
	}
	n = n.withDefaults()
	n.Seed = sb.Seed() // also if it is 0
	return n, nil
}

// A successor is the file that replaces another one in a filter.
type successor struct {
	filter    *Filter
	old, file *openFile
}

// open opens the file for writing, as the old one was opened.
func (s *successor) open(path string) (*writer.Work, error) {
	file, err := openLive(path, &OpenOptions{
		CommitInterval: s.old.work.Interval, LogBytes: s.old.logBytes, Checked: s.old.checked, Residency: s.old.residency,
		RequireHashes: s.old.work.Files.RequireHashes,
	})
	if err != nil {
		return nil, err
	}
	file.work.OnError = s.old.work.OnError
	s.file = file
	return file.work, nil
}

// use makes the filter use the file of a writer.
func (s *successor) use(w *writer.Writer) {
	if w == s.old.work.Writer {
		s.filter.use(s.old)
		return
	}
	n := s.file
	n.path, n.warning, n.progress = s.old.path, s.old.warning, s.old.progress
	n.found, n.rebuilds = s.old.found, s.old.rebuilds+1
	s.filter.use(n)
}
