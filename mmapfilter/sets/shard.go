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

// ErrOtherSet is returned for a shard of a set if the file is not the file that the manifest
// names: it is another shard, was built by another plan, or is a later or earlier build.
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

// A setState is a manifest and its shards.
type setState struct {
	manifest *manifest
	info     fs.FileInfo // of the manifest
	hash     layout.Hasher
	shards   []*setShard
	lookups  *layout.Shards
	apart    atomic.Bool // a batch looks up the keys of some shards apart from others: see containsApart
}

// findLate makes each lookup in a shard first ask the shard for its filter. This is needed until the
// shard is open, and while it is open for writing, since the file may then change at any time.
func (st *setState) findLate(i int) {
	sh := st.shards[i]
	st.lookups.Set(i, layout.NewDirect(nil, nil, &st.hash, func(own uint64) bool {
		f := sh.get()
		sh.findNow(st)
		return bridge.Of(f).Direct().ContainsHash(own)
	}))
}

// A setShard is a file of a set, open or not.
type setShard struct {
	set    *Set
	number int
	path   string
	want   shardHead

	// reader is nil until a key of the shard is looked up. writer is nil unless the file is open for
	// writing.
	reader atomic.Pointer[mmapfilter.Follower]
	writer atomic.Pointer[mmapfilter.Filter]

	mu struct {
		sync.Mutex      // held to change reader, its filter, writer, and the shard's Direct in the set
		gone       bool // the set no longer has the shard
	}
}

// A shardHead is what a superblock says about a shard.
type shardHead struct {
	shard          layout.Shard
	seed, identity uint64
}

// fits returns an error if a file is not the shard.
func (sh *setShard) fits(sb *layout.Superblock) error {
	is := shardHead{sb.Shard(), sb.Seed(), sb.ShardIdentity()}
	if is == sh.want {
		return nil
	}
	return &OtherSetError{sh.path, fmt.Sprintf("shard %d of %d with identity %016x, not shard %d of %d with identity %016x",
		is.shard.Number, is.shard.Count, is.identity, sh.want.shard.Number, sh.want.shard.Count, sh.want.identity)}
}

// get returns the filter. It opens the file if nobody has opened it. If the file cannot be opened, the
// filter answers "maybe".
func (sh *setShard) get() *mmapfilter.Filter {
	if f := sh.filter(); f != nil {
		return f
	}
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if f := sh.filter(); f != nil {
		return f
	}
	opts := sh.set.opts
	opts.WaitForFile = false // a set that waits for a manifest does not wait for shards
	follower := bridge.Follow(bridge.ShardFile{FS: sh.set.fsys, Path: sh.path, Opts: &opts, Wake: sh.set.poll.Wake(), Life: sh.set.poll.Life, Fits: sh.fits})
	sh.reader.Store(follower.(*mmapfilter.Follower))
	return sh.filter()
}

// filter returns the filter, or nil if the file has not been opened.
func (sh *setShard) filter() *mmapfilter.Filter {
	if r := sh.reader.Load(); r != nil { // look at reader first: openForWriting stores the writer before it removes the reader
		return r.Filter()
	}
	return sh.writer.Load()
}

// opened returns the filter if the file is open, or nil.
func (sh *setShard) opened() *mmapfilter.Filter {
	if f := sh.filter(); f != nil && !bridge.Of(f).Waits() {
		return f
	}
	return nil
}

// findNow lets the set look keys up in the file without asking the shard first, unless the shard is
// open for writing.
func (sh *setShard) findNow(st *setState) {
	if sh.writer.Load() != nil {
		return
	}
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.writer.Load() == nil {
		st.lookups.Set(sh.number, bridge.Of(sh.filter()).Direct())
	}
}

// refresh switches to a file that has taken the place of the file in use, or tries again to
// open the shard.
func (sh *setShard) refresh(st *setState) error {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	r := sh.reader.Load()
	if r == nil || sh.mu.gone {
		return nil
	}
	old := r.Filter()
	_, err := r.Refresh()
	if now := r.Filter(); now != old {
		st.lookups.Set(sh.number, bridge.Of(now).Direct())
	}
	return sh.failed(err)
}

// failed turns an error into a *ShardError of the shard.
func (sh *setShard) failed(err error) error {
	if err == nil {
		return nil
	}
	return &ShardError{sh.number, sh.path, err}
}

// failure returns the error that limits the shard, or nil.
func (sh *setShard) failure() error {
	if r := sh.reader.Load(); r != nil {
		return sh.failed(r.Err())
	}
	if f := sh.writer.Load(); f != nil {
		return sh.failed(f.Err())
	}
	return nil
}

// release gives back the memory of the file. Lookups in progress may still finish.
func release(f *mmapfilter.Filter) {
	if f != nil {
		bridge.Of(f).Release()
	}
}

// letGo lets go of the file, since the set no longer has the shard.
func (sh *setShard) letGo() {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.mu.gone = true
	release(sh.filter())
}

// close closes the file for good. Its filter stays, for Len.
func (sh *setShard) close() error {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.mu.gone = true
	if f := sh.writer.Load(); f != nil {
		return sh.failed(f.Close())
	}
	if r := sh.reader.Load(); r != nil {
		return sh.failed(r.Close())
	}
	return nil
}

// openForWriting opens the file for writing. If the file is open for reading, the writer takes the
// place of the reader. From then on the set asks the shard for its filter at each lookup: see
// findLate.
func (sh *setShard) openForWriting(st *setState) error {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.mu.gone {
		return mmapfilter.ErrClosed
	}
	if sh.writer.Load() != nil {
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
	old := sh.filter()
	sh.writer.Store(f)
	sh.reader.Store(nil)
	st.apart.Store(true)
	st.findLate(sh.number)
	release(old)
	return nil
}

// awaits reports whether the file in use has been superseded by a file that does not have
// the name yet.
func (sh *setShard) awaits() bool {
	f := sh.filter()
	return f != nil && bridge.Of(f).Awaits()
}

// warm does nothing if the file cannot be opened.
func (sh *setShard) warm(ctx context.Context) error {
	for {
		f, err := sh.get(), error(nil)
		if !bridge.Of(f).Waits() {
			err = f.Warm(ctx)
		}
		if sh.filter() == f {
			return sh.failed(err)
		}
	}
}
