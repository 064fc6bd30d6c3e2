package main

import (
	"errors"
	"io/fs"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/mmapfilter/mmapfilter/mmapfilter/sets"
)

// A writable is a filter or a set whose keys are changed. An error of a batch is about the first key
// that was not processed; the keys before it were processed. A filter also says how many operations
// are durable.
type writable interface {
	answering
	InsertBatch(keys [][]byte) (n int, err error)
	InsertUniqueBatch(keys [][]byte, added []bool) (n int, err error)
	Delete(key []byte) (deleted bool, err error)
	SyncAt(seq uint64) error
	DurableSeq() uint64
	DurableOps() uint64
	Len() uint64
	Cap() uint64
	Close() error
}

// isSet reports whether the file at a path is the manifest of a set.
func isSet(path string) bool {
	set, _ := sets.IsSet(path)
	return set
}

// openWritable opens a filter or a set for writing. If there is no filter and create is not nil, it
// creates the filter first.
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
	filter, err := openOrCreate(path, opts, create)
	if err != nil { // not a nil filter in the interface
		return nil, err
	}
	return filter, nil
}

// openOrCreate opens a filter for writing. If there is none and create is not nil, it creates the
// filter first. An existing filter must not contradict the flags in create.
func openOrCreate(path string, opts *mmapfilter.OpenOptions, create *createFlags) (*mmapfilter.Filter, error) {
	filter, err := mmapfilter.Open(path, opts)
	if create == nil {
		return filter, err
	}
	if errors.Is(err, fs.ErrNotExist) {
		if err := checkNote(create.opts.Normalisation); err != nil {
			return nil, err
		}
		filter, err = mmapfilter.OpenOrCreate(path, &create.opts, opts)
	}
	if err != nil {
		return nil, err
	}
	if err := contradicted(path, filter, create.flags, create.opts, create.seeded); err != nil {
		return nil, errors.Join(err, filter.Close())
	}
	return filter, nil
}

// An inOrder is a set that processes the keys of a batch in their order. A sets.Set does not, so
// after an error nobody knows which keys of a batch are in it. An inOrder does not know how many
// operations are durable, since each shard has its own log.
type inOrder struct{ *sets.Set }

func (s inOrder) SyncAt(uint64) error { return s.Sync() }
func (s inOrder) DurableSeq() uint64  { return 0 }
func (s inOrder) DurableOps() uint64  { return 0 }

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
