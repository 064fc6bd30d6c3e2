// Package bridge gives packages sets, guard and replica access to parts of package mmapfilter that are
// not in its API. Package mmapfilter sets the variables when a program begins. It imports this package,
// so this package cannot name the types of mmapfilter: filter is a *mmapfilter.Filter, and opts points
// to one of its option structs.
package bridge

import (
	"context"
	"io/fs"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/build"
)

// A Filter is the inside of a *mmapfilter.Filter.
type Filter interface {
	// Direct answers for hashes in the form that the file of a shard uses (see layout.Shard). A rebuild
	// and Close change the Direct.
	Direct() *layout.Direct
	// Superblock returns the newest superblock, or nil after Close.
	Superblock() *layout.Superblock
	// Path returns the path of the file, or "" if the filter is closed or was not opened from a path.
	Path() string
	// Position returns the position in the filter's own history, the one that Changes uses, even if the
	// filter is a replica with hashes.
	Position() (descent uint64, at layout.Position)
	// Waits reports whether the filter has no file yet: see Follow.
	Waits() bool
	// Awaits reports whether the file is superseded by a file that does not have the name yet.
	Awaits() bool
	// Release gives back the memory of the file. Lookups go on and read the file again, while Close
	// would make them answer "maybe".
	Release()

	// InsertHashes is InsertBatch for hashes.
	InsertHashes(hashes []uint64) (n int, err error)
	// SyncAtFunc is SyncAt with the number that seq returns. It calls seq at the instant between the
	// operations that this sync covers and later ones, with the number of operations since the last
	// SyncAt. So several goroutines may insert, and DurableOps still counts from a known operation.
	// Operations wait for seq, which must not call the filter.
	SyncAtFunc(seq func(operations uint64) uint64) error
	// Rebuild is Rebuild with a *RebuildOptions and two functions that a guard adds. capacity returns
	// the capacity for a number of items, once they are counted. hashes is called right after Keys,
	// before any operation, and returns the hashes of further items.
	Rebuild(ctx context.Context, opts any, capacity func(items uint64) uint64, hashes func() []uint64) error
}

// Of returns the inside of a filter.
var Of func(filter any) Filter

// A ShardFile is a file that a set follows.
type ShardFile struct {
	FS   fs.FS // the file system of the file; nil for the file system of the machine
	Path string
	Opts any                               // *mmapfilter.OpenOptions
	Wake chan<- struct{}                   // lookups send to it to ask for a look (R6)
	Life context.Context                   // ends a verification
	Fits func(sb *layout.Superblock) error // returns why the set cannot use a file with this superblock, or nil
}

// Follow returns a *mmapfilter.Follower that looks at its path when Refresh is called. Until a file
// can be opened and fits, the filter of the follower answers "maybe" for every key.
var Follow func(f ShardFile) (follower any)

// Shard returns the configuration for building a shard of a set with the options.
var Shard func(opts any, shard layout.Shard) (build.Config, error)
