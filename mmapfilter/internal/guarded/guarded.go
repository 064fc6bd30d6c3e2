// Package guarded is the interface through which package guard uses its filter. In tests, the crash
// explorer of a guarded store uses a filter on a simulated disk instead.
package guarded

import (
	"context"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/bridge"
)

// A Filter has the methods of a *mmapfilter.Filter that a guard needs. [Of] returns a Filter.
type Filter interface {
	// These compute hashes, look keys up, and say how many keys the filter has.
	Hash(key []byte) uint64
	Normalisation() string
	ContainsHash(hash uint64) bool
	ContainsHashes(hashes []uint64, found []bool)
	Len() uint64
	Cap() uint64
	TargetRate() float64

	// InsertHashes inserts hashes up to the first error, with InsertHash or, if unique is set,
	// with InsertUniqueHashBatch. n is the number of hashes before the error, and added is how
	// many of them were added.
	InsertHashes(hashes []uint64, unique bool) (n, added int, err error)
	DeleteHash(hash uint64) (deleted bool, err error)

	// These make operations durable, and say which operations are durable.
	Sync() error
	SyncAtFunc(seq func(operations uint64) uint64) error // see package bridge
	DurableSeq() uint64
	DurableOps() uint64

	Rebuild(ctx context.Context, opts *RebuildOptions) error
	Seal(ctx context.Context) error
	Close() error
}

// RebuildOptions are the options of mmapfilter and two functions that a guard adds.
type RebuildOptions struct {
	mmapfilter.RebuildOptions
	CapacityFor func(items uint64) uint64 // the capacity for a number of items, once they are counted
	Hashes      func() []uint64           // hashes of further items; called right after Keys, before any operation
}

// Expires reports whether keys leave a filter by themselves.
func Expires(f *mmapfilter.Filter) bool {
	sb := bridge.Of(f).Superblock()
	return sb != nil && sb.ExpireAfter() != 0
}

// Of returns a filter as a Filter.
func Of(f *mmapfilter.Filter) Filter { return filter{f} }

type filter struct{ *mmapfilter.Filter }

func (f filter) TargetRate() float64 {
	if sb := bridge.Of(f.Filter).Superblock(); sb != nil {
		return sb.TargetRate()
	}
	return 0
}

func (f filter) SyncAtFunc(seq func(operations uint64) uint64) error {
	return bridge.Of(f.Filter).SyncAtFunc(seq)
}

func (f filter) Rebuild(ctx context.Context, opts *RebuildOptions) error {
	return bridge.Of(f.Filter).Rebuild(ctx, &opts.RebuildOptions, opts.CapacityFor, opts.Hashes)
}

func (f filter) InsertHashes(hashes []uint64, unique bool) (n, added int, err error) {
	var are [256]bool
	for n < len(hashes) && err == nil {
		if !unique {
			if err = f.InsertHash(hashes[n]); err == nil {
				n, added = n+1, added+1
			}
			continue
		}
		var done int
		done, err = f.InsertUniqueHashBatch(hashes[n:min(n+len(are), len(hashes))], are[:])
		for _, is := range are[:done] {
			if is {
				added++
			}
		}
		n += done
	}
	return n, added, err
}

// Hooks replace what a guard uses of package mmapfilter and of the system.
type Hooks struct {
	// Create and Open are mmapfilter.Create and mmapfilter.Open, as Filters.
	Create func(path string, o *mmapfilter.Options) (Filter, error)
	Open   func(path string) (Filter, error)
	// Random returns a random number.
	Random func() uint64
	// If Manual is set, a guard does nothing in the background. Open then sets Tick to a function that
	// does what the background would do at each interval.
	Manual bool
	Tick   func()
}
