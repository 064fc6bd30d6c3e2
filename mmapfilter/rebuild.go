package mmapfilter

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/builder"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/engine"
	"github.com/mmapfilter/mmapfilter/recovery"
)

// RebuildOptions describe the file that [Filter.Rebuild] makes. A nil *RebuildOptions and the zero
// value mean one like the old one.
type RebuildOptions struct {
	// Capacity is the number of keys that the filter is sized for. 0 means that of the old file, or
	// the number of its items if that is larger.
	Capacity uint64
	// CapacityFor, if not nil, returns the capacity for a number of items, once they are counted.
	CapacityFor func(items uint64) uint64
	// FalsePositiveRate is the largest acceptable rate at Capacity keys. 0 means that of the old
	// file.
	FalsePositiveRate float64
	// Layout is the layout to use. Auto, the zero value, means that of the old file, or what
	// [Options.Plan] chooses if that cannot have the rate.
	Layout Layout
	// Keys, if not nil, makes Rebuild take the keys from the caller, not the hashes that the filter
	// has kept. It is called once, at an instant at which no operation of the filter is under way,
	// and returns all keys that are in the filter then: a snapshot, such as a cursor of a read
	// transaction that it begins. Operations wait while it is called, and go on while the sequence
	// is read, which must not show what they do. In a shard, keys of other shards are left out. The
	// new filter has these keys, and what is done meanwhile, whatever the old one had.
	Keys func() (iter.Seq2[[]byte, error], error)
	// Hashes, if not nil, is called after Keys, at the same instant, and returns the hashes of further
	// items: such as those of transactions that will be committed after the snapshot.
	Hashes func() []uint64
	// MemoryBudget, Workers and Progress are as in [Options]. A further stage, "catch up", does in
	// the new file what was done in the old one meanwhile.
	MemoryBudget int64
	Workers      int
	Progress     func(stage string, done, total uint64)
}

// Rebuild makes a new file with the items of the filter, and puts it in the place of the old one:
// larger, smaller, with another rate or layout (C8). Inserts, deletes, lookups and syncs go on
// meanwhile. At the end operations wait once, until the last of them are done in the new file, but
// not for the disk. Syncs wait until the new file is durable and has the name (K3), and so does an
// operation that finds no room in one of the files, or in its log. If operations come faster than
// they can be done again in the new file, each of them waits for a moment.
//
// The items come from the hashes that the filter keeps ([Options.KeepHashes]), or from
// [RebuildOptions.Keys]. The seed, the normalisation, [Filter.DurableSeq] and [Filter.DurableOps]
// stay. A crash at any instant leaves the old file or the new one. If Rebuild fails or ctx is
// cancelled, everything stays as it was; unless the new file has got the name, and the disk fails
// then: that ends the filter ([ErrFailed]).
//
// Processes that have the old file open for reading get "maybe" from then on for keys that they do
// not find there, and [Filter.Err] says [ErrSuperseded] (K4). A [Follower] switches to the new
// file at its next look.
//
// Rebuild needs room on the disk for the new file, and 8 bytes for each item and for each operation
// that goes on meanwhile, beside the old one.
//
// The errors are [ErrNoHashes], an [*OptionError], [ErrReadOnly], [ErrClosed], [ErrFull] if the
// items have no room in the new file, and those of [Build].
func (f *Filter) Rebuild(ctx context.Context, opts *RebuildOptions) error {
	o, err := f.write()
	if err != nil {
		return err
	}
	if opts == nil {
		opts = new(RebuildOptions)
	}
	if err := f.rebuild(ctx, func() *RebuildOptions { return opts }); err != nil {
		return about("rebuild", o.path, err)
	}
	return nil
}

// rebuild is Rebuild. choose is called once no other rebuild is under way; it may return nil, for
// none.
func (f *Filter) rebuild(ctx context.Context, choose func() *RebuildOptions) error {
	f.growth.Lock()
	defer f.growth.Unlock()
	o, err := f.write()
	if err != nil {
		return err
	}
	opts := choose()
	if opts == nil {
		return nil
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(f.growth.life, func() { cancel(ErrClosed) })()
	r := &rebuild{filter: f, old: o, exact: opts.Keys == nil, capacityFor: opts.CapacityFor, to: recovery.RebuildPath(o.live.Files.Path())}
	if r.options, err = rebuilding(o.superblock, o.len(), opts); err != nil {
		return err
	}
	r.tap = engine.NewTap(func() (*recovery.Scratch, error) { return recovery.ScratchBeside(r.to) })
	defer r.tap.Close()
	if err := o.live.Files.Named(); err != nil {
		return err
	}
	if err := recovery.BeginRebuild(o.live.Files.Path()); err != nil {
		return err
	}
	err = r.build(ctx, opts.Keys, opts.Hashes)
	if err == nil {
		err = r.handOver(ctx)
	}
	if err != nil && f.open.Load() == o {
		o.live.Writer.Untap()
		if r.next != nil {
			err = errors.Join(err, r.next.live.Retire())
			r.next.release()
		}
		if o.live.Files.Named() != nil {
			return err // what is there belongs to another filter
		}
		return errors.Join(err, recovery.EndRebuild(o.live.Files.Path()))
	}
	err = errors.Join(err, o.live.Retire())
	o.release()
	return err
}

// rebuilding returns the options of the file that replaces one with so many items, with defaults.
func rebuilding(sb *layout.Superblock, items uint64, opts *RebuildOptions) (Options, error) {
	n := Options{
		Capacity: opts.Capacity, FalsePositiveRate: opts.FalsePositiveRate, Layout: opts.Layout,
		Seed: sb.Seed(), Normalisation: sb.Normalisation(), KeepHashes: sb.KeepsHashes(), AutoGrow: sb.Grows(),
		MemoryBudget: opts.MemoryBudget, Workers: opts.Workers, Progress: opts.Progress,
		shard: sb.Shard(), identity: sb.ShardIdentity(),
	}
	if n.Capacity == 0 {
		n.Capacity = max(sb.Capacity(), items)
	}
	if n.FalsePositiveRate == 0 {
		n.FalsePositiveRate = sb.TargetRate()
	}
	err := n.Validate()
	if opts.Layout == Auto && err == nil {
		n.Layout = sb.Kind()
		if n.Validate() != nil {
			n.Layout = Auto
		}
	}
	if err != nil {
		return n, err
	}
	n = n.withDefaults()
	n.Seed = sb.Seed() // also if it is 0
	return n, nil
}

// A rebuild is a new file in the making.
type rebuild struct {
	filter      *Filter
	old, next   *openFile
	to          string // path of the new file
	options     Options
	capacityFor func(items uint64) uint64
	exact       bool        // the new file has the same items, since it comes from their hashes
	tap         *engine.Tap // what is done in the old file

	// Operations that were taken from the tap and are not done yet.
	hashes []uint64
	kinds  []engine.Kind
	done   uint64
}

// build makes the new file with what the old one has at an instant, and opens it.
func (r *rebuild) build(ctx context.Context, keys func() (iter.Seq2[[]byte, error], error), more func() []uint64) error {
	c := r.options.building()
	if r.capacityFor != nil {
		plan := c.Plan
		c.Capacity, c.Plan = 0, func(items uint64) (builder.Plan, error) { return plan(max(r.capacityFor(items), 1)) }
	}
	c.Like = r.old.live.Files.Path()
	w := r.old.live.Writer
	var err error
	if keys == nil {
		err = w.Protocol().HashesErr()
		var kept builder.Kept
		if err == nil {
			err = r.old.live.Catch(func() (err error) {
				kept.File, kept.Counted, err = w.Tapped(r.tap)
				return err
			})
		}
		if err == nil {
			_, err = builder.BuildKept(ctx, r.to, c, []builder.Kept{kept})
		}
	} else {
		var seq iter.Seq2[[]byte, error]
		err = r.old.live.Catch(func() error {
			return w.Quiet(r.tap, func() (err error) {
				if seq, err = keys(); err == nil && more != nil {
					r.tap.Begin(r.filter.shard.OwnAll(more()))
				}
				return err
			})
		})
		if err == nil {
			_, err = builder.Build(ctx, r.to, c, seq)
		}
	}
	if err != nil {
		return err
	}
	r.next, err = openLive(r.to, &OpenOptions{
		CommitInterval: r.old.live.Interval, LogBytes: r.old.logBytes, Checked: r.old.checked, Residency: r.old.residency,
	})
	return err
}

// handOver does in the new file what has been done in the old one meanwhile, and puts it to use.
func (r *rebuild) handOver(ctx context.Context) error {
	var first time.Time // when a handover was tried first
	for {
		for before, n := r.tap.Len(), 1; r.tap.Len() > fewWait || len(r.hashes) > 0; n++ {
			if err := context.Cause(ctx); err != nil {
				return err
			}
			if err := r.replay(); err != nil {
				return err
			}
			r.options.Progress("catch up", r.done, r.done+uint64(r.tap.Len()))
			if n%slowEvery == 0 {
				r.pace(before)
				before = r.tap.Len()
			}
		}
		if err := context.Cause(ctx); err != nil {
			return err
		}
		if err := r.next.live.Catch(func() error { return r.next.live.Writer.Sync(false, 0) }); err != nil {
			return err
		}
		if first.IsZero() {
			first = time.Now()
		}
		wait := time.Since(first) >= patience
		err := r.old.live.Catch(func() error {
			return r.next.live.Catch(func() error {
				return r.old.live.Writer.Handover(r.next.live.Writer, r.exact, wait, r.replayTo, r.look, r.swap)
			})
		})
		if err != engine.ErrAgain {
			return divergedError(err)
		}
		time.Sleep(tryEvery)
	}
}

// fewWait is how many operations may wait in the tap when a handover begins. It does them
// again while others go on, but keeps checkpoints off meanwhile.
const fewWait = 1024

// A handover that would have to wait for a checkpoint is put off: for tryEvery, and again, until that
// has gone on for patience, which is as long as several checkpoints. Checkpoints may follow one
// another all the time. Tests change patience.
const tryEvery = 10 * time.Millisecond

var patience = 10 * time.Second

// While operations come nearly as fast as they are done again, each of them waits for a moment, and
// for a longer one after every slowEvery replays of which the tap has not become much shorter. The
// first wait is about as long as an operation takes; the longest lets 20,000 a second through.
const (
	slowEvery = 32
	slowFirst = 200    // nanoseconds
	slowMost  = 50_000 // likewise
)

// pace decides how long operations wait. before is the length of the tap some replays ago.
func (r *rebuild) pace(before int) {
	slow, now := r.tap.Slow.Load(), r.tap.Len()
	switch done := slowEvery * replayAtOnce / 4; {
	case now > before-done: // another one came for three out of four, or more
		slow = min(max(slow*3/2, slowFirst), slowMost)
	case now < before-2*done:
		slow = slow * 3 / 4
	}
	r.tap.Slow.Store(slow)
}

// replayAtOnce is how many operations are taken from the tap at a time.
const replayAtOnce = 4096

// replay does some of the operations in the tap.
func (r *rebuild) replay() (err error) {
	if len(r.hashes) == 0 {
		if r.hashes, r.kinds, err = r.tap.Take(r.hashes[:0], r.kinds[:0], replayAtOnce); err != nil {
			return err
		}
	}
	n := 0
	err = r.next.live.Catch(func() (err error) {
		n, err = r.next.live.Writer.Replay(r.hashes, r.kinds, r.exact)
		return err
	})
	r.hashes, r.kinds = r.hashes[n:], r.kinds[n:]
	r.done += uint64(n)
	return divergedError(err)
}

// divergedError makes an ErrDiverged an ErrNoHashes.
func divergedError(err error) error {
	if err == engine.ErrDiverged {
		return fmt.Errorf("%w: %w", ErrNoHashes, err)
	}
	return err
}

// replayTo does operations until at most few are left.
func (r *rebuild) replayTo(few int) error {
	for r.tap.Len() > few || len(r.hashes) > 0 {
		if err := r.replay(); err != nil {
			return err
		}
	}
	return nil
}

// look has lookups of single keys look in the new file, or in the old one again, while operations
// are done in both.
func (r *rebuild) look(new bool) {
	if new {
		r.filter.lookIn(r.next)
	} else {
		r.filter.lookIn(r.old)
	}
}

// swap puts the new file to use, while no operation is under way.
func (r *rebuild) swap() {
	n := r.next
	n.path, n.warning, n.progress = r.old.path, r.old.warning, r.old.progress
	n.found = r.old.found
	n.rebuilds = r.old.rebuilds + 1
	r.filter.use(n)
}
