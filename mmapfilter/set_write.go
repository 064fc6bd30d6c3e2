package mmapfilter

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/byshard"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/engine"
)

// OpenShards opens shards of a set for writing, as [Open] does, with the options of the set; with no
// argument all of them. Several processes may each have some: one process at a time has each. A shard
// that is open for writing has a log of its own, and is recovered on its own.
//
// The manifest is not written again: it still names the files, and the [Set.Len] of a set that has not
// opened a shard still counts the items that the shard had at first. A set that follows cannot write:
// the error is [ErrReadOnly]. Other errors are those of [Open], as a [*ShardError]; the shards before
// that one are open then.
func (s *Set) OpenShards(shards ...int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.state.Load()
	if st == nil {
		return ErrClosed
	}
	if s.follows {
		return ErrReadOnly
	}
	if len(shards) == 0 {
		for i := range st.shards {
			shards = append(shards, i)
		}
	}
	for _, i := range shards {
		if i < 0 || i >= len(st.shards) {
			return optionError("shards", "%d is not between 0 and %d", i, len(st.shards)-1)
		}
		if err := st.shards[i].openForWriting(st); err != nil {
			return &ShardError{i, st.shards[i].path, err}
		}
	}
	return nil
}

// home returns the filter that has a hash, and what stands for the hash there. A write to it fails
// with ErrReadOnly if this process has not opened it for writing.
func (s *Set) home(hash func(*layout.Hasher) uint64) (f *Filter, own uint64, err error) {
	st := s.state.Load()
	if st == nil {
		return nil, 0, ErrClosed
	}
	number, own := layout.ShardOf(hash(&st.hash), uint32(len(st.shards)))
	f = st.shards[number].get()
	if f == unknownFilter {
		return nil, 0, ErrReadOnly
	}
	return f, own, nil
}

func hashOf(key []byte) func(*layout.Hasher) uint64 {
	return func(h *layout.Hasher) uint64 { return h.Hash(key) }
}

// Insert is [Filter.Insert] into the shard that the key belongs to. If this process has not opened it
// for writing (see [Set.OpenShards]), the error is [ErrReadOnly].
func (s *Set) Insert(key []byte) error {
	f, own, err := s.home(hashOf(key))
	if err != nil {
		return err
	}
	return f.insertOwn(own)
}

// InsertString is Insert for a key in a string.
func (s *Set) InsertString(key string) error {
	f, own, err := s.home(func(h *layout.Hasher) uint64 { return h.HashString(key) })
	if err != nil {
		return err
	}
	return f.insertOwn(own)
}

// InsertUnique is [Filter.InsertUnique]; the errors are those of [Set.Insert].
func (s *Set) InsertUnique(key []byte) (added bool, err error) {
	f, own, err := s.home(hashOf(key))
	if err != nil {
		return false, err
	}
	return f.insertUniqueOwn(own)
}

// Delete is [Filter.Delete]; the errors are those of [Set.Insert] except ErrFull.
func (s *Set) Delete(key []byte) (deleted bool, err error) {
	f, own, err := s.home(hashOf(key))
	if err != nil {
		return false, err
	}
	return f.deleteOwn(own)
}

// DeleteString is Delete for a key in a string.
func (s *Set) DeleteString(key string) (deleted bool, err error) {
	f, own, err := s.home(func(h *layout.Hasher) uint64 { return h.HashString(key) })
	if err != nil {
		return false, err
	}
	return f.deleteOwn(own)
}

// InsertBatch inserts keys, and is faster than single calls of Insert. After an error, which is a
// [*ShardError], it goes on with the keys of the other shards. It returns how many keys it has
// inserted. If that is not all of them, nobody knows which.
func (s *Set) InsertBatch(keys [][]byte) (n int, err error) {
	return s.insertParts(keys, nil, func(f *Filter, own []uint64, _ []bool) (int, error) { return f.insertOwnBatch(own) })
}

// InsertUniqueBatch is [Filter.InsertUniqueBatch], but goes on after an error, which is a
// [*ShardError], with the keys of other shards. It returns for how many keys it has done so; for the
// others, added is false.
func (s *Set) InsertUniqueBatch(keys [][]byte, added []bool) (n int, err error) {
	clear(added[:len(keys)])
	return s.insertParts(keys, added, (*Filter).insertUniqueOwnBatch)
}

// insertParts has insert do the keys of each shard, and stores what it answers, unless added is nil.
func (s *Set) insertParts(keys [][]byte, added []bool, insert func(f *Filter, own []uint64, added []bool) (int, error)) (n int, err error) {
	st := s.state.Load()
	if st == nil {
		return 0, ErrClosed
	}
	p := setParts.Get().(*byshard.Part)
	defer setParts.Put(p)
	var failed map[int]error
	for len(keys) > 0 {
		part := keys[:min(len(keys), byshard.Most)]
		keys = keys[len(part):]
		p.Clear()
		for i, key := range part {
			number, own := layout.ShardOf(st.hash.Hash(key), uint32(len(st.shards)))
			p.Add(int(number), own, i)
		}
		for g := range p.Sort(len(st.shards)) {
			number, own, answers := p.Group(g)
			clear(answers)
			if failed[number] != nil {
				continue
			}
			sh := st.shards[number]
			f, done, err := sh.get(), 0, ErrReadOnly
			if f != unknownFilter {
				done, err = insert(f, own, answers)
			}
			if n += done; err != nil {
				if failed == nil {
					failed = make(map[int]error)
				}
				failed[number] = &ShardError{sh.number, sh.path, err}
			}
		}
		if added != nil {
			p.Answer(added)
			added = added[len(part):]
		}
	}
	return n, errors.Join(slices.Collect(maps.Values(failed))...)
}

var setParts = sync.Pool{New: func() any { return new(byshard.Part) }}

// insertOwnBatch inserts hashes that stand for keys in this file.
func (f *Filter) insertOwnBatch(hashes []uint64) (n int, err error) {
	err = f.insertInto(func(o *openFile) error {
		for n < len(hashes) {
			next := min(n+engine.Batch, len(hashes))
			part, following := hashes[n:next], hashes[next:min(next+engine.Batch, len(hashes))]
			if err := o.work.Catch(func() error { return o.work.Writer.InsertAll(part, following, &n) }); err != nil {
				return err
			}
			f.inserted(o)
		}
		return nil
	})
	return n, err
}

// Sync is [Filter.Sync] for all shards that are open for writing.
func (s *Set) Sync() error {
	return s.eachWriter(func(f *Filter) error { return f.Sync() })
}

// Checkpoint is [Filter.Checkpoint] for all shards that are open for writing.
func (s *Set) Checkpoint(ctx context.Context) error {
	return s.eachWriter(func(f *Filter) error { return f.Checkpoint(ctx) })
}

// Seal is [Filter.Seal] for all shards that are open for writing.
func (s *Set) Seal(ctx context.Context) error {
	return s.eachWriter(func(f *Filter) error { return f.Seal(ctx) })
}

func (s *Set) eachWriter(do func(f *Filter) error) error {
	st := s.state.Load()
	if st == nil {
		return ErrClosed
	}
	var errs []error
	for _, sh := range st.shards {
		f := sh.opened()
		if f == nil {
			continue
		}
		if o := f.open.Load(); o == nil || o.work == nil {
			continue
		}
		if err := do(f); err != nil {
			errs = append(errs, &ShardError{sh.number, sh.path, err})
		}
	}
	return errors.Join(errs...)
}
