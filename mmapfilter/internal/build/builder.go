package build

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/place"
	"github.com/mmapfilter/mmapfilter/recovery"
	"github.com/mmapfilter/mmapfilter/recovery/osfile"
)

// A Config says what to build, and how.
type Config struct {
	Seed         uint64
	Shard        layout.Shard // keys of other shards are left out
	Capacity     uint64       // 0: as many as there are keys
	Distinct     bool         // store each key once
	Workers      int
	MemoryBudget int64 // bytes
	// Keep also writes NAME.hashes. Identity is the identity of NAME.hashes, and Now the time of all
	// inserts, in nanoseconds since 1970.
	Keep     bool
	Identity uint64
	Now      uint64
	// ExpireAfter is how long items stay, in nanoseconds; 0 means for ever (see Window).
	ExpireAfter uint64
	// Check, if not nil, is called while no writer can open the file that the new one replaces: before
	// the keys are read or, with Name, just before the new file is published.
	Check func() error
	// Overwrite lets the new file replace any file at the path. Otherwise it replaces only a filter and
	// the files of this filter (see Draft.Guard).
	Overwrite bool
	// MinKeys is the fewest items that the new file may have. With fewer items, the error is ErrFewKeys.
	MinKeys uint64
	// Like, if not "", is a file whose owner, group and permissions the new file gets.
	Like string
	// Mode has the permissions of the new file if Like is ""; see osfile.DraftOptions.
	Mode fs.FileMode
	// First, unless it is zero, is the superblock of the file that the new file replaces. The new
	// file continues its generation and its sequence numbers.
	First layout.Superblock
	// Continues, if not nil, is the superblock of the only filter whose hashes the new file is built
	// from; the new file continues the history of this filter. LastTime is the time of the last commit
	// of all filters whose hashes the new file is built from.
	Continues *layout.Superblock
	LastTime  uint64
	// Replica, if not nil, is the superblock of the only filter whose hashes the new file is built from,
	// and which the new file does not replace. The new file is a replica of this filter, with or without
	// hashes, with the same position and sequence.
	Replica *layout.Superblock
	// Name, if not nil, returns the name of the finished file, in the directory of the path. If Name
	// returns "", the file is dropped. read is the number of keys that the file was built from.
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
	Limit      uint64            // most keys, as place.KeysOf counts them
	Beyond     string            // ends the error "more than Limit keys …"
}

// A FullError says that not all keys have room. It matches place.ErrFull.
type FullError struct{ Reason string }

func (e *FullError) Error() string { return fmt.Sprintf("%v: %s", place.ErrFull, e.Reason) }
func (e *FullError) Unwrap() error { return place.ErrFull }

// ErrFewKeys is returned if there are fewer items than MinKeys.
var ErrFewKeys = errors.New("too few keys")

// A builder is one Build in progress.
type builder struct {
	Config
	draft *osfile.Draft

	plan  Plan
	table layout.Table // nil until the capacity is known
	hosts layout.Hosts // the table, or nil
	view  layout.View  // of the draft

	homes    source // has the hash of every key
	inputs   []recovery.Kept
	base     *baseFile   // nil if the filter does not keep its hashes
	homeless *spool      // hashes of items that found no room in fill
	came     uint64      // keys from the sequence, counted before anything is done with them
	items    uint64      // hashes that go into the filter: all, or with Distinct one of each group of equal hashes
	stop     atomic.Bool // set by a cancelled context or a worker that failed

	progress struct {
		sync.Mutex
		stage string
		done  uint64
	}
}

// The spool homeless gets 1/homelessShare of the memory budget. In fill this part comes on top of the
// budget, which the spool homes still uses.
const homelessShare = 4

func (b *builder) close() {
	if b.homes != nil {
		b.homes.Close()
	}
	b.homeless.Close()
}

// catch runs f, which uses the draft, and returns a fault in the draft as an error.
func (b *builder) catch(f func()) error {
	if fault := osfile.Catch(b.draft.Data, f); fault != nil {
		return fault
	}
	return nil
}

// allocate fixes the geometry and gives the draft its size.
func (b *builder) allocate(ctx context.Context, capacity uint64) (err error) {
	if b.plan, err = b.Plan(capacity); err != nil {
		return err
	}
	g := b.plan.Geometry
	if err := b.draft.Allocate(ctx, g.SealedBytes); err != nil {
		return err
	}
	b.draft.AdviseLarge()
	b.table = layout.NewTable(g)
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

// full returns the error for a build with no free slot and no free stash entry.
func (b *builder) full() error {
	entries := 0
	if err := b.catch(func() { entries = layout.StashLen(b.view.Stash) }); err != nil {
		return err
	}
	return &FullError{fmt.Sprintf("%d keys (counting equal keys unless Distinct is set) for a capacity of %d, with %d slots and %d of %d stash entries in use",
		b.items, b.plan.Superblock.Capacity(), b.plan.Geometry.Slots(), entries, layout.StashEntries)}
}

// parallel is Parallel for the tasks of a stage. If homeless is not nil, it gets the items for which
// the tasks find no room.
func (b *builder) parallel(ctx context.Context, homeless *spool, n int, task func(ctx context.Context, w *worker, i int) error) error {
	workers := make([]worker, min(b.Workers, n))
	for i := range workers {
		workers[i].homeless = homeless.collector()
	}
	err := Parallel(ctx, len(workers), n, b.draft.Data, func(ctx context.Context, worker, i int) error {
		return task(ctx, &workers[worker], i)
	})
	for i := range workers {
		if err == nil {
			err = workers[i].homeless.flush()
		}
	}
	return err
}

// A worker is the state that one goroutine of a build keeps from task to task.
type worker struct {
	hashes, tmp []uint64
	read        int     // hashes that the last load read, counting equal hashes
	ages        []uint8 // ages of the hashes that the last load returned; empty if all have age 0
	merge       mergeBuffers
	left        []uint64 // hashes of items for which FillLines finds no room
	homeless    *collector
}

// manyHashes is how many hashes of a partition, 32 MiB of them, load gathers before it drops equal ones.
// Hashes are uniform, so a partition has so many only if there are many billions of keys, or very many
// copies of a few keys.
const manyHashes = 4 << 20

// load implements source. All items have age 0.
func (s *spool) load(w *worker, from, to int, drop, distinct bool) ([]uint64, error) {
	n, limit := s.size(from, to), manyHashes
	if distinct {
		n = min(n, limit)
	}
	w.hashes, w.ages, w.read = slices.Grow(w.hashes[:0], n), w.ages[:0], 0
	err := s.each(from, to, drop, func(chunk []uint64) {
		w.read += len(chunk)
		w.hashes = append(w.hashes, chunk...)
		if distinct && len(w.hashes) > limit {
			slices.Sort(w.hashes)
			w.hashes = slices.Compact(w.hashes)
			limit = max(limit, 2*len(w.hashes))
		}
	})
	if err != nil {
		return nil, err
	}
	w.tmp = slices.Grow(w.tmp[:0], len(w.hashes))
	sorted := sortHashes(w.hashes, w.tmp[:len(w.hashes)], s.prefixBits(to-from))
	if distinct {
		sorted = slices.Compact(sorted)
	}
	return sorted, nil
}
