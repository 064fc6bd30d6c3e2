package sets

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"sync/atomic"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/bridge"
)

// ErrOtherSet is returned for a shard of a set if the file is not the one that the manifest names:
// another shard, one of another plan, or one of another time.
var ErrOtherSet = errors.New("the file is not the one that the set names")

// An OtherSetError says which shard a file is instead. It matches [ErrOtherSet].
type OtherSetError struct {
	Path string
	Is   string
}

func (e *OtherSetError) Error() string { return fmt.Sprintf("%v: %s is %s", ErrOtherSet, e.Path, e.Is) }

func (e *OtherSetError) Unwrap() error { return ErrOtherSet }

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
	manifest *manifest
	info     fs.FileInfo // of the manifest
	hash     layout.Hasher
	shards   []*setShard
	lookups  *layout.Shards
	written  atomic.Bool // a shard is open for writing
}

// findLate has each lookup in a shard ask the shard for its file first: until it is open, and while it
// is open for writing, since the file may then change at any time.
func (st *setState) findLate(i int) {
	sh := st.shards[i]
	st.lookups.Set(i, layout.NewDirect(nil, nil, &st.hash, func(own uint64) bool {
		f := sh.get()
		if !f.writes {
			sh.settle(st)
		}
		return f.direct().ContainsHash(own)
	}))
}

// A setShard is a file of a set, open or not.
type setShard struct {
	set    *Set
	number int
	path   string
	want   shardHead

	// file is nil until a key of the shard is looked up.
	file atomic.Pointer[shardFile]
	err  atomic.Pointer[ShardError] // why it could not be opened, or another file not be taken

	mu struct {
		sync.Mutex                      // held to change file, and the shard's Direct in the set
		follower   *mmapfilter.Follower // has the filter of file; nil if that has none, or writes
		gone       bool                 // the set no longer has the shard
	}
}

// A shardFile is the open file of a shard.
type shardFile struct {
	filter *mmapfilter.Filter // nil if it could not be opened, and when the set no longer has the shard
	writes bool               // the filter is open for writing
}

// unknown answers "maybe" to everything.
var unknown, maybe = new(shardFile), layout.NewDirect(nil, nil, new(layout.Hasher), func(uint64) bool { return true })

// direct looks keys up, by what stands for them in the shard.
func (f *shardFile) direct() *layout.Direct {
	if f.filter == nil {
		return maybe
	}
	return bridge.Of(f.filter).Direct()
}

// release lets lookups in progress end. The mapping goes with the last of them.
func (f *shardFile) release() {
	if f != nil && f.filter != nil {
		bridge.Of(f.filter).Release()
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

// fits returns an error if a file is not the shard.
func (sh *setShard) fits(sb *layout.Superblock) error {
	is := headOf(sb)
	if is == sh.want {
		return nil
	}
	return &OtherSetError{sh.path, fmt.Sprintf("shard %d of %d with identity %016x, not shard %d of %d with identity %016x",
		is.shard.Number, is.shard.Count, is.identity, sh.want.shard.Number, sh.want.shard.Count, sh.want.identity)}
}

// get returns the file, and opens it if it has not been.
func (sh *setShard) get() *shardFile {
	if f := sh.file.Load(); f != nil {
		return f
	}
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if f := sh.file.Load(); f != nil {
		return f
	}
	sh.open()
	return sh.file.Load()
}

// open opens the file for reading. REQUIRES: sh.mu.
func (sh *setShard) open() error {
	opts := sh.set.opts
	opts.WaitForFile = false // what waits for a manifest does not wait for its shards
	follower, err := bridge.Follow(bridge.ShardFile{Path: sh.path, Opts: &opts, Wake: sh.set.poll.Wake(), Life: sh.set.poll.Life, Fits: sh.fits})
	if err != nil {
		return sh.refuse(err)
	}
	sh.mu.follower = follower.(*mmapfilter.Follower)
	sh.file.Store(&shardFile{filter: sh.mu.follower.Filter()})
	sh.err.Store(nil)
	return nil
}

// refuse notes why a file cannot be used. REQUIRES: sh.mu.
func (sh *setShard) refuse(err error) error {
	failed := &ShardError{sh.number, sh.path, err}
	sh.err.Store(failed)
	if sh.mu.follower == nil {
		sh.file.Store(unknown)
	}
	return failed
}

// settle has the set look keys up in the file without asking the shard first.
func (sh *setShard) settle(st *setState) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if f := sh.file.Load(); !f.writes {
		st.lookups.Set(sh.number, f.direct())
	}
}

// refresh takes a file that has taken the place of the one in use, or tries again what failed.
func (sh *setShard) refresh(st *setState) error {
	if sh.file.Load() == nil {
		return nil
	}
	sh.mu.Lock()
	defer sh.mu.Unlock()
	old := sh.file.Load()
	if sh.mu.gone || old.writes {
		return nil
	}
	err := sh.look()
	if now := sh.file.Load(); now != old {
		st.lookups.Set(sh.number, now.direct())
	}
	return err
}

// look opens the file at the path, unless it is the one in use. REQUIRES: sh.mu.
func (sh *setShard) look() error {
	follower := sh.mu.follower
	if follower == nil {
		return sh.open()
	}
	swapped, err := follower.Refresh()
	switch used := bridge.Of(follower.Filter()).Superblock(); {
	case err != nil && used != nil && headOf(used) != sh.want: // the file in use has been overwritten in place
		sh.file.Load().release()
		sh.mu.follower = nil
		return sh.refuse(err)
	case err != nil:
		return sh.refuse(err)
	case swapped:
		sh.file.Store(&shardFile{filter: follower.Filter()})
	}
	sh.err.Store(nil)
	return nil
}

// opened returns the filter if the file is open, or nil.
func (sh *setShard) opened() *mmapfilter.Filter {
	if f := sh.file.Load(); f != nil {
		return f.filter
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

// letGo lets go of the file, for the set no longer has the shard.
func (sh *setShard) letGo() {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.mu.gone, sh.mu.follower = true, nil
	sh.file.Swap(unknown).release()
}

// close closes the file for good. Its filter stays, for Len.
func (sh *setShard) close() error {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.mu.gone = true
	switch f := sh.file.Load(); {
	case f == nil:
		sh.file.Store(unknown)
	case sh.mu.follower != nil:
		return sh.mu.follower.Close()
	case f.filter != nil:
		return f.filter.Close()
	}
	return nil
}

// openForWriting opens the file for writing, in the place of one that is open for reading. From then on
// the set asks the shard for its file at each lookup: see findLate.
func (sh *setShard) openForWriting(st *setState) error {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	old := sh.file.Load()
	if sh.mu.gone {
		return mmapfilter.ErrClosed
	}
	if old != nil && old.writes {
		return nil
	}
	if _, err := os.Stat(sh.path); err != nil {
		return err
	}
	f, err := mmapfilter.Open(sh.path, &sh.set.opts)
	if err != nil {
		return err
	}
	if err := sh.fits(bridge.Of(f).Superblock()); err != nil {
		return errors.Join(err, f.Close())
	}
	sh.file.Store(&shardFile{filter: f, writes: true})
	sh.mu.follower = nil
	sh.err.Store(nil)
	st.written.Store(true)
	st.findLate(sh.number)
	old.release()
	return nil
}

// awaits reports whether the file in use awaits the one that is to take its place.
func (sh *setShard) awaits() bool {
	f := sh.opened()
	return f != nil && bridge.Of(f).Awaits()
}

// warm does nothing if the file cannot be opened.
func (sh *setShard) warm(ctx context.Context) (err error) {
	for {
		f := sh.get()
		if f.filter != nil {
			err = f.filter.Warm(ctx)
		}
		if sh.file.Load() == f {
			return err
		}
		err = nil
	}
}
