package mmapfilter

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"sync/atomic"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/manifest"
)

// ErrOtherSet is returned for a shard of a set if the file is not the one that the manifest names:
// another shard, one of another plan, or one of another time.
var ErrOtherSet = errors.New("the file is not the one that the set names")

// A ShardError says what is wrong with a shard of a set.
type ShardError struct {
	Shard int
	Path  string
	Err   error
}

func (e *ShardError) Error() string { return fmt.Sprintf("shard %d: %v", e.Shard, e.Err) }
func (e *ShardError) Unwrap() error { return e.Err }

// A setState is a manifest and what has been opened of it.
type setState struct {
	manifest *manifest.Manifest
	info     fs.FileInfo // of the manifest
	hash     layout.Hasher
	shards   []*setShard
	lookups  *layout.Shards
	written  atomic.Bool // a shard is open for writing
}

// findLate has each lookup in a shard ask the shard for its filter first: until its file is open, and
// while it is open for writing, since the file may then change at any time.
func (st *setState) findLate(i int) {
	sh := st.shards[i]
	st.lookups.Set(i, layout.NewDirect(nil, nil, &st.hash, func(own uint64) bool {
		f := sh.get()
		if !sh.writes.Load() {
			sh.settle(st)
		}
		return f.own.Load().ContainsHash(own)
	}))
}

// find has lookups in a shard go to a filter at once.
func (st *setState) find(i int, f *Filter) { st.lookups.Set(i, f.own.Load()) }

// A setShard is a file of a set, open or not.
type setShard struct {
	number int
	path   string
	want   shardHead
	opts   *OpenOptions
	wake   chan struct{}   // of the set
	life   context.Context // likewise

	// filter is nil until a key of the shard is looked up. It answers "maybe" if the file could not be
	// opened, and when the set no longer has the shard.
	filter atomic.Pointer[Filter]
	err    atomic.Pointer[ShardError] // why it could not be opened, or another file not be taken

	writes atomic.Bool // the file is open for writing

	mu struct {
		sync.Mutex      // held to change filter, writes, and the shard's Direct in the set
		gone       bool // the set no longer has the shard
	}
}

// A shardHead is what a superblock says of a shard.
type shardHead struct {
	shard          layout.Shard
	seed, identity uint64
}

func headOf(sb *layout.Superblock) shardHead {
	return shardHead{sb.Shard(), sb.Seed(), sb.ShardIdentity()}
}

// unknownFilter answers "maybe" to everything.
var unknownFilter = func() *Filter {
	f := new(Filter)
	f.answer(maybe, maybe)
	return f
}()

// get returns the filter, and opens the file if it has not been.
func (sh *setShard) get() *Filter {
	if f := sh.filter.Load(); f != nil {
		return f
	}
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if f := sh.filter.Load(); f != nil {
		return f
	}
	f, err := sh.check(sh.follower().open())
	if err != nil {
		f = unknownFilter
		sh.err.Store(&ShardError{sh.number, sh.path, err})
	}
	sh.filter.Store(f)
	return f
}

// check checks that a filter belongs to the shard, and closes it otherwise.
func (sh *setShard) check(f *Filter, err error) (*Filter, error) {
	if err != nil {
		return nil, err
	}
	is := headOf(f.open.Load().superblock)
	if is == sh.want {
		return f, nil
	}
	f.Close()
	return nil, fmt.Errorf("%w: %s is shard %d of %d with identity %016x, not shard %d of %d with identity %016x", ErrOtherSet, sh.path,
		is.shard.Number, is.shard.Count, is.identity, sh.want.shard.Number, sh.want.shard.Count, sh.want.identity)
}

// settle has the set look keys up in the file without asking the shard first.
func (sh *setShard) settle(st *setState) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if !sh.writes.Load() {
		st.find(sh.number, sh.filter.Load())
	}
}

// refresh takes a file that has taken the place of the one in use, or tries again what failed.
func (sh *setShard) refresh(st *setState) error {
	if sh.filter.Load() == nil {
		return nil
	}
	sh.mu.Lock()
	defer sh.mu.Unlock()
	old := sh.filter.Load()
	if sh.mu.gone || sh.writes.Load() {
		return nil
	}
	next, err := sh.look(old)
	if err == nil && next != nil {
		next, err = sh.check(next, nil)
	}
	if err != nil {
		failed := &ShardError{sh.number, sh.path, err}
		sh.err.Store(failed)
		if o := old.open.Load(); o == nil || headOf(o.newest()) == sh.want {
			return failed
		}
		next, err = unknownFilter, failed // the file in use has been overwritten in place
	} else {
		sh.err.Store(nil)
	}
	if next == nil {
		return nil
	}
	sh.filter.Store(next)
	st.find(sh.number, next)
	if o := old.open.Load(); o != nil {
		o.release() // not closed: lookups in progress would answer only "maybe"
	}
	return err
}

// look opens the file at the path, unless it is the one in use.
func (sh *setShard) look(old *Filter) (*Filter, error) {
	if old == unknownFilter {
		return sh.follower().open()
	}
	return sh.follower().look(old.open.Load())
}

// follower returns what opens a file at the path, and looks whether another one has its place.
func (sh *setShard) follower() *Follower {
	return &Follower{path: sh.path, opts: *sh.opts, wake: sh.wake, life: sh.life}
}

// opened returns the filter if the file is open, or nil.
func (sh *setShard) opened() *Filter {
	if f := sh.filter.Load(); f != unknownFilter {
		return f
	}
	return nil
}

func (sh *setShard) failure() error {
	if err := sh.err.Load(); err != nil {
		return err
	}
	if f := sh.opened(); f != nil {
		if err := f.Err(); err != nil {
			return &ShardError{sh.number, sh.path, err}
		}
	}
	return nil
}

// letGo lets lookups in progress end. The mapping goes with the last of them.
func (sh *setShard) letGo() {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.mu.gone = true
	if f := sh.filter.Swap(unknownFilter); f != nil && f != unknownFilter {
		f.open.Load().release()
	}
}

// close closes the file for good.
func (sh *setShard) close() error {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.mu.gone = true
	f := sh.filter.Swap(unknownFilter)
	if f == nil || f == unknownFilter {
		return nil
	}
	sh.filter.Store(f) // for Len
	return f.Close()
}

// openForWriting opens the file for writing, in the place of one that is open for reading. From then on
// the set asks the shard for its filter at each lookup: see findLate.
func (sh *setShard) openForWriting(st *setState) error {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.mu.gone {
		return ErrClosed
	}
	if sh.writes.Load() {
		return nil
	}
	if _, err := os.Stat(sh.path); err != nil {
		return err
	}
	f, err := sh.check(Open(sh.path, sh.opts))
	if err != nil {
		return err
	}
	old := sh.filter.Swap(f)
	sh.err.Store(nil)
	sh.writes.Store(true)
	st.written.Store(true)
	st.findLate(sh.number)
	if old != nil && old != unknownFilter {
		old.open.Load().release()
	}
	return nil
}
