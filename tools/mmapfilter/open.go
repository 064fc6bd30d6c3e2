package main

import (
	"errors"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/mmapfilter/mmapfilter/mmapfilter/sets"
)

// A keyed is a filter or a set in which keys are looked up.
type keyed interface {
	ContainsBatch(keys [][]byte, found []bool)
	Len() uint64
	Cap() uint64
	Normalisation() string
	Err() error
	Close() error
}

// A writable is a filter or a set whose keys are changed. An error of a batch is about the first key
// that was not processed; those before it were.
type writable interface {
	keyed
	InsertBatch(keys [][]byte) (n int, err error)
	InsertUniqueBatch(keys [][]byte, added []bool) (n int, err error)
	Delete(key []byte) (deleted bool, err error)
	Sync() error
}

// A sequenced says how many operations are durable. A set is none: its shards each have a log.
type sequenced interface {
	SyncAt(seq uint64) error
	DurableSeq() uint64
	DurableOps() uint64
}

// isSet reports whether the file at a path is the manifest of a set.
func isSet(path string) bool {
	set, _ := sets.IsSet(path)
	return set
}

// openWritable opens a filter or a set for writing. A filter that is missing is created first if create
// says how.
func openWritable(path string, opts *mmapfilter.OpenOptions, create *createFlags) (writable, error) {
	if isSet(path) {
		set, err := sets.Open(path, opts)
		if err != nil {
			return nil, err
		}
		if err := set.OpenShards(); err != nil {
			return nil, errors.Join(err, set.Close())
		}
		return inOrder{set}, nil
	}
	if create == nil {
		filter, err := mmapfilter.Open(path, opts)
		if err != nil { // not a nil filter in the interface
			return nil, err
		}
		return filter, nil
	}
	filter, err := mmapfilter.OpenOrCreate(path, &create.opts, opts)
	if err != nil {
		return nil, err
	}
	if err := contradicted(path, filter, create.flags, create.opts, create.seeded); err != nil {
		return nil, errors.Join(err, filter.Close())
	}
	return filter, nil
}

// An inOrder is a set that processes the keys of a batch in their order. A Set does not: after an error
// nobody knows which keys of a batch are in it.
type inOrder struct{ *sets.Set }

func (s inOrder) InsertBatch(keys [][]byte) (n int, err error) {
	for i, key := range keys {
		if err := s.Insert(key); err != nil {
			return i, err
		}
	}
	return len(keys), nil
}

func (s inOrder) InsertUniqueBatch(keys [][]byte, added []bool) (n int, err error) {
	for i, key := range keys {
		if added[i], err = s.InsertUnique(key); err != nil {
			return i, err
		}
	}
	return len(keys), nil
}
