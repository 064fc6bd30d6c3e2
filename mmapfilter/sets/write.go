package sets

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/bridge"
)

// OpenShards opens shards of a set for writing, as [mmapfilter.Open] does, with the options of the set;
// without arguments it opens all shards. Different processes may have different shards open for
// writing, but only one process at a time may have a given shard open. A shard that is open for writing
// has a log of its own, and is recovered on its own.
//
// The manifest is not written again. It still names the files, and if a set has not opened a shard,
// [Set.Len] still counts the items that the shard had when the manifest was written. If the set
// follows, or is from [OpenFS], the error is [mmapfilter.ErrReadOnly]. Other errors are those of
// [mmapfilter.Open], as a [*ShardError]; then the shards before the failed one are open.
func (s *Set) OpenShards(shards ...int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.state.Load()
	if st == nil {
		return mmapfilter.ErrClosed
	}
	if s.follows || s.fsys != nil {
		return mmapfilter.ErrReadOnly
	}
	if len(shards) == 0 {
		for i := range st.shards {
			shards = append(shards, i)
		}
	}
	for _, i := range shards {
		if i < 0 || i >= len(st.shards) {
			return &mmapfilter.OptionError{Field: "shards", Reason: fmt.Sprintf("%d is not between 0 and %d", i, len(st.shards)-1)}
		}
		if err := st.shards[i].openForWriting(st); err != nil {
			return &ShardError{i, st.shards[i].path, err}
		}
	}
	return nil
}

// home returns the filter of the shard that a key belongs to. A write to the filter fails with
// ErrReadOnly if this process has not opened the shard for writing.
func (s *Set) home(key []byte) (*mmapfilter.Filter, error) {
	st := s.state.Load()
	if st == nil {
		return nil, mmapfilter.ErrClosed
	}
	return st.shards[ShardOf(st.hash.Hash(key), len(st.shards))].get(), nil
}

// Insert is [mmapfilter.Filter.Insert] into the shard that the key belongs to. If this process has
// not opened the shard for writing (see [Set.OpenShards]), the error is [mmapfilter.ErrReadOnly].
func (s *Set) Insert(key []byte) error {
	f, err := s.home(key)
	if err != nil {
		return err
	}
	return f.Insert(key)
}

// InsertUnique is [mmapfilter.Filter.InsertUnique]; the errors are those of [Set.Insert].
func (s *Set) InsertUnique(key []byte) (added bool, err error) {
	f, err := s.home(key)
	if err != nil {
		return false, err
	}
	return f.InsertUnique(key)
}

// Delete is [mmapfilter.Filter.Delete]; the errors are those of [Set.Insert] except ErrFull.
func (s *Set) Delete(key []byte) (deleted bool, err error) {
	f, err := s.home(key)
	if err != nil {
		return false, err
	}
	return f.Delete(key)
}

// InsertBatch inserts keys, and is faster than single calls of Insert. After an error, which is a
// [*ShardError], it goes on with the keys of the other shards. It returns how many keys it has
// inserted. If these are not all keys, nobody knows which are missing.
func (s *Set) InsertBatch(keys [][]byte) (n int, err error) {
	return s.insertParts(keys, nil, func(f *mmapfilter.Filter, hashes []uint64, _ []bool) (int, error) {
		return bridge.Of(f).InsertHashes(hashes)
	})
}

// InsertUniqueBatch is [mmapfilter.Filter.InsertUniqueBatch], but after an error, which is a
// [*ShardError], it goes on with the keys of other shards. It returns how many keys it has done; for
// all other keys, added is false.
func (s *Set) InsertUniqueBatch(keys [][]byte, added []bool) (n int, err error) {
	clear(added[:len(keys)])
	return s.insertParts(keys, added, (*mmapfilter.Filter).InsertUniqueHashBatch)
}

// insertParts calls insert for the keys of each shard, and stores its answers in added, unless added
// is nil.
func (s *Set) insertParts(keys [][]byte, added []bool, insert func(f *mmapfilter.Filter, hashes []uint64, added []bool) (int, error)) (n int, err error) {
	st := s.state.Load()
	if st == nil {
		return 0, mmapfilter.ErrClosed
	}
	p := parts.Get().(*part)
	defer parts.Put(p)
	var failed map[int]error
	for len(keys) > 0 {
		some := keys[:min(len(keys), mostKeys)]
		keys = keys[len(some):]
		p.clear()
		for i, key := range some {
			h := st.hash.Hash(key)
			p.add(ShardOf(h, len(st.shards)), h, i)
		}
		for g := range p.sort(len(st.shards)) {
			number, hashes, answers := p.group(g)
			clear(answers)
			if failed[number] != nil {
				continue
			}
			sh := st.shards[number]
			done, err := insert(sh.get(), hashes, answers)
			if n += done; err != nil {
				if failed == nil {
					failed = make(map[int]error)
				}
				failed[number] = sh.failed(err)
			}
		}
		if added != nil {
			p.answer(added)
			added = added[len(some):]
		}
	}
	return n, errors.Join(slices.Collect(maps.Values(failed))...)
}

var parts = sync.Pool{New: func() any { return new(part) }}

// Sync is [mmapfilter.Filter.Sync] for all shards that are open for writing.
func (s *Set) Sync() error {
	return s.eachWriter(func(f *mmapfilter.Filter) error { return f.Sync() })
}

// Checkpoint is [mmapfilter.Filter.Checkpoint] for all shards that are open for writing.
func (s *Set) Checkpoint(ctx context.Context) error {
	return s.eachWriter(func(f *mmapfilter.Filter) error { return f.Checkpoint(ctx) })
}

// Seal is [mmapfilter.Filter.Seal] for all shards that are open for writing.
func (s *Set) Seal(ctx context.Context) error {
	return s.eachWriter(func(f *mmapfilter.Filter) error { return f.Seal(ctx) })
}

func (s *Set) eachWriter(do func(f *mmapfilter.Filter) error) error {
	st := s.state.Load()
	if st == nil {
		return mmapfilter.ErrClosed
	}
	var errs []error
	for _, sh := range st.shards {
		if f := sh.writer.Load(); f != nil {
			errs = append(errs, sh.failed(do(f)))
		}
	}
	return errors.Join(errs...)
}
