// Package guarded is the seam between package guard and the filter that it keeps: the crash explorer
// of a guarded store puts a filter on a simulated disk in its place.
package guarded

import (
	"context"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
)

// A Filter is what a guard needs of a *mmapfilter.Filter.
type Filter interface {
	Keys
	Changes
	Syncs

	Rebuild(ctx context.Context, opts *mmapfilter.RebuildOptions) error
	Seal(ctx context.Context) error
	Close() error
}

// Keys are those of the filter: how they become hashes, which it has, and how many.
type Keys interface {
	Hash(key []byte) uint64
	Normalisation() string
	ContainsHash(hash uint64) bool
	Len() uint64
	Cap() uint64
	TargetRate() float64
}

// Changes are those that a transaction makes.
type Changes interface {
	InsertHash(hash uint64) error
	InsertUniqueHashes(hashes []uint64) (n, added int, err error)
	DeleteHash(hash uint64) (deleted bool, err error)
}

// Syncs make the filter durable, and say how far it is.
type Syncs interface {
	Sync() error
	SyncAtFunc(seq func(operations uint64) uint64) error
	DurableSeq() uint64
	DurableOps() uint64
}

// Hooks replace what a guard has of the system.
type Hooks struct {
	// Create and Open are mmapfilter.Create and mmapfilter.Open.
	Create func(path string, o *mmapfilter.Options) (Filter, error)
	Open   func(path string) (Filter, error)
	// Random returns a random number.
	Random func() uint64
	// Manual starts no background. Open sets Tick to what that does once an interval.
	Manual bool
	Tick   func()
}
