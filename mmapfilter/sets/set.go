package sets

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/bridge"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/poll"
)

// A Set looks keys up in its shards, the files that a manifest, NAME.set, names (S1). Each key belongs
// to one shard, so a lookup reads one file, and the rate of the set is the rate of a shard. A Set is
// safe for concurrent use by multiple goroutines.
//
// A shard is opened when one of its keys is first looked up. If it cannot be opened, or is not the
// file that the manifest names, it answers "maybe", and [Set.Err] says so.
//
// Like a [mmapfilter.Follower], and for the same reason, a Set has no lookups by hash.
type Set struct {
	path    string // absolute: the working directory may change
	fsys    fs.FS  // the file system of the set, where path is a name; nil for the file system of the machine
	opts    mmapfilter.OpenOptions
	follows bool

	// state has the newest manifest, and direct looks single keys up in it. Each lookup loads one of
	// the two, once. While there is no manifest, and after Close, state is nil and direct answers
	// "maybe".
	state   atomic.Pointer[setState]
	direct  atomic.Pointer[layout.Direct]
	last    atomic.Pointer[setState] // for Len and Cap after Close; it has no lookups
	swaps   atomic.Uint64
	refused atomic.Pointer[error] // why the set refused the manifest when it last looked

	mu struct {
		sync.Mutex // held to change the state
		closed     bool
	}
	poll *poll.Poller // looks at the manifest and the shards, if the set follows
}

// Open opens the set that the manifest at path names. It reads only the manifest; a shard is opened
// with the options when it is needed. [Set.OpenShards] opens shards for writing.
//
// The errors are [mmapfilter.ErrCorrupt] if the file is damaged, cut short or no manifest;
// [mmapfilter.ErrVersion]; an [*mmapfilter.OptionError]; and errors of the file system.
func Open(path string, opts *mmapfilter.OpenOptions) (*Set, error) {
	s, err := newSet(path, opts)
	if err != nil {
		return nil, err
	}
	return s.open(path)
}

// open opens a set that does not follow. path is the name of the set in errors.
func (s *Set) open(path string) (*Set, error) {
	s.direct.Store(maybe)
	s.opts.VerifyBeforeSwitch = false
	st, err := s.read(nil)
	if err != nil {
		return nil, about("open", path, err)
	}
	s.use(st)
	return s, nil
}

// OpenFS is [Open] for a set in a file system such as an embed.FS or os.DirFS(dir): name is the name of
// the manifest. (Package mmapfilter has no function OpenSetFS, since it does not know package sets.) A
// shard that can be read at any offset is opened as by [mmapfilter.OpenReaderAt]; any other shard is
// read into memory. The set cannot be written to.
func OpenFS(fsys fs.FS, name string, opts ...*mmapfilter.OpenOptions) (*Set, error) {
	s := &Set{fsys: fsys, path: name, poll: poll.New()}
	for _, o := range opts {
		if err := o.Validate(); err != nil {
			return nil, err
		}
		if o != nil {
			s.opts = *o
		}
	}
	return s.open(name)
}

// Follow is [Open], but the set switches to another manifest that appears at path, and to a file that
// takes the place of a shard, as [mmapfilter.Follow] does for one file. Shards that both manifests name
// stay open. Lookups under way end with the old manifest. The set tries again to open a shard that
// could not be opened.
//
// The set looks for new files every [mmapfilter.OpenOptions.FollowInterval], in [Set.Refresh], and at
// once when a lookup finds that a shard in use is [mmapfilter.ErrSuperseded] (rule R6). If a new
// manifest is refused, the old one stays, and Err says why. With [mmapfilter.OpenOptions.WaitForFile],
// Follow succeeds even if there is no manifest yet; until there is one, every answer is "maybe". Close
// the set to stop its goroutine.
//
// With [mmapfilter.OpenOptions.VerifyBeforeSwitch], the set opens and verifies all shards of a
// manifest, except shards that are open already, before it switches to that manifest, and before Follow
// returns. If a shard cannot be opened or is damaged, the manifest is refused with a [*ShardError]. A
// file that takes the place of a shard is also verified before it is used.
func Follow(path string, opts *mmapfilter.OpenOptions) (*Set, error) {
	s, err := newSet(path, opts)
	if err != nil {
		return nil, err
	}
	s.follows = true
	st, err := s.read(nil)
	switch {
	case err == nil:
		s.use(st)
	case s.opts.WaitForFile && errors.Is(err, fs.ErrNotExist):
		s.refuse(err)
	default:
		return nil, about("open", path, err)
	}
	s.poll.Start(s.opts.FollowInterval, time.After, func() (awaits bool, err error) {
		_, err = s.Refresh()
		return s.awaits(), err
	})
	return s, nil
}

func newSet(path string, opts *mmapfilter.OpenOptions) (*Set, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	absolute, err := filepath.Abs(path)
	if err != nil {
		return nil, about("open", path, err)
	}
	s := &Set{path: absolute, poll: poll.New()}
	if opts != nil {
		s.opts = *opts
	}
	s.direct.Store(maybe)
	return s, nil
}

// maybe answers "maybe" to everything.
var maybe = layout.NewDirect(nil, nil, new(layout.Hasher), func(uint64) bool { return true })

// about adds the operation and the file to an error unless the error names them already.
func about(op, path string, err error) error {
	if e := new(fs.PathError); errors.As(err, &e) && e.Path == path {
		return err
	}
	return &mmapfilter.OpError{Op: op, Path: path, Err: err}
}

// read reads the manifest. It takes over the shards that old has, too. With
// OpenOptions.VerifyBeforeSwitch, it opens and verifies all other shards.
func (s *Set) read(old *setState) (*setState, error) {
	info, data, err := s.readManifest()
	if err != nil {
		return nil, err
	}
	m, err := decodeManifest(data)
	if err != nil {
		return nil, err
	}
	st := &setState{manifest: m, info: info, hash: layout.NewHasher(uint64(m.Seed))}
	st.apart.Store(s.fsys != nil)
	st.lookups = layout.NewShards(len(m.Shards), &st.hash)
	for i := range m.Shards {
		sh := s.shard(old, m, i)
		st.shards = append(st.shards, sh)
		st.findLate(i)
	}
	if s.opts.VerifyBeforeSwitch {
		if err := st.verify(old); err != nil {
			st.drop(old)
			return nil, err
		}
	}
	return st, nil
}

// readManifest reads the manifest, and describes its file.
func (s *Set) readManifest() (info fs.FileInfo, data []byte, err error) {
	if s.fsys != nil {
		data, err = fs.ReadFile(s.fsys, s.path)
		return nil, data, err
	}
	if info, err = os.Stat(s.path); err != nil { // before it is opened: opening a pipe would wait for a writer
		return nil, nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, nil, &fs.PathError{Op: "open", Path: s.path, Err: errors.New("not a regular file")}
	}
	data, err = os.ReadFile(s.path)
	return info, data, err
}

// verify opens and verifies the shards that old does not have, so that later lookups need not open
// them.
func (st *setState) verify(old *setState) error {
	for i, sh := range st.shards {
		taken := old != nil && i < len(old.shards) && old.shards[i] == sh
		if bridge.Of(sh.get()).Waits() && !taken {
			return sh.failure()
		}
		sh.findNow(st)
	}
	return nil
}

// shard returns shard i of a manifest. It is the shard of old if both name the same file.
func (s *Set) shard(old *setState, m *manifest, i int) *setShard {
	if old != nil && len(old.shards) == len(m.Shards) && old.manifest.Seed == m.Seed &&
		old.manifest.Shards[i].File == m.Shards[i].File && old.manifest.Shards[i].Identity == m.Shards[i].Identity {
		return old.shards[i]
	}
	file := path.Join(path.Dir(s.path), m.Shards[i].File)
	if s.fsys == nil {
		file = filepath.Join(filepath.Dir(s.path), filepath.FromSlash(m.Shards[i].File))
	}
	return &setShard{
		set:    s,
		number: i,
		path:   file,
		want:   shardHead{layout.Shard{Number: uint32(i), Count: uint32(len(m.Shards))}, uint64(m.Seed), uint64(m.Shards[i].Identity)},
	}
}

// use makes lookups use the state st, and lets go of the shards that only the state before it has.
func (s *Set) use(st *setState) {
	old := s.state.Swap(st)
	s.direct.Store(&st.lookups.Direct)
	if old != nil {
		old.drop(st)
	}
}

// drop lets go of the shards of st, except shards that another state has, too: the parameter but, which
// may be nil.
func (st *setState) drop(but *setState) {
	kept := make(map[*setShard]bool)
	if but != nil {
		for _, sh := range but.shards {
			kept[sh] = true
		}
	}
	for _, sh := range st.shards {
		if !kept[sh] {
			sh.letGo()
		}
	}
}

// awaits reports whether a shard in use awaits the file that will take its place.
func (s *Set) awaits() (awaits bool) {
	if st := s.state.Load(); st != nil {
		for _, sh := range st.shards {
			awaits = sh.awaits() || awaits // ask every shard: a shard wakes the set again only after it was asked
		}
	}
	return awaits
}

func (s *Set) refuse(err error) {
	err = about("open", s.path, err)
	s.refused.Store(&err)
}

// Refresh looks at the manifest and at the shards that are open now. It reports whether the set has
// switched to another manifest; if so, all lookups that begin after the call use this manifest. The
// error says why a new manifest was refused, or what is wrong with a shard. For a set of [Open], which
// does not follow, Refresh does nothing.
func (s *Set) Refresh() (swapped bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.closed {
		return false, mmapfilter.ErrClosed
	}
	if !s.follows {
		return false, nil
	}
	old := s.state.Load()
	info, err := os.Stat(s.path)
	if err == nil && (old == nil || !os.SameFile(info, old.info) || info.Size() != old.info.Size() || !info.ModTime().Equal(old.info.ModTime())) {
		var st *setState
		if st, err = s.read(old); err == nil {
			s.use(st)
			s.swaps.Add(1)
			swapped = true
		}
	}
	if err != nil {
		s.refuse(err)
		return false, *s.refused.Load()
	}
	s.refused.Store(nil)
	st := s.state.Load()
	for _, sh := range st.shards {
		if e := sh.refresh(st); e != nil && err == nil {
			err = e
		}
	}
	return swapped, err
}

// Contains is [mmapfilter.Filter.Contains] for the set.
func (s *Set) Contains(key []byte) bool { return s.direct.Load().Contains(key) }

// ContainsString is Contains for a key in a string.
func (s *Set) ContainsString(key string) bool {
	st := s.state.Load()
	return st == nil || st.lookups.ContainsHash(st.hash.HashString(key))
}

// Shards returns the number of shards, or 0 if there is no manifest.
func (s *Set) Shards() int {
	if st := s.state.Load(); st != nil {
		return len(st.shards)
	}
	return 0
}

// Len returns the number of items. For an open shard, it counts the items that the shard has now; for
// any other shard, the items that it had when the manifest was written.
func (s *Set) Len() (n uint64) {
	st := s.current()
	if st == nil {
		return 0
	}
	for i, sh := range st.shards {
		if f := sh.opened(); f != nil {
			n += f.Len()
		} else {
			n += st.manifest.Shards[i].Keys
		}
	}
	return n
}

// current returns the state, even after Close.
func (s *Set) current() *setState {
	if st := s.state.Load(); st != nil {
		return st
	}
	return s.last.Load()
}

// Cap returns the number of keys that the set was sized for.
func (s *Set) Cap() uint64 {
	if st := s.current(); st != nil {
		return st.manifest.Capacity
	}
	return 0
}

// Normalisation is [mmapfilter.Filter.Normalisation] of the set.
func (s *Set) Normalisation() string {
	if st := s.state.Load(); st != nil {
		return st.manifest.Normalisation
	}
	return ""
}

// Err returns the error that limits the set, or nil: why the set refused the manifest when it last
// looked, or a [*ShardError] for the first shard that cannot be opened, is not the file that the
// manifest names, or has a [mmapfilter.Filter.Err]. After Close it is [mmapfilter.ErrClosed].
func (s *Set) Err() error {
	st := s.state.Load()
	if refused := s.refused.Load(); refused != nil {
		return *refused
	}
	if st == nil {
		return mmapfilter.ErrClosed
	}
	for _, sh := range st.shards {
		if err := sh.failure(); err != nil {
			return err
		}
	}
	return nil
}

// OpenAll opens all shards, as lookups would, so that no later lookup waits for a shard to be
// opened. It returns the first error, which [Set.Err] returns too.
func (s *Set) OpenAll() error {
	st := s.state.Load()
	if st == nil {
		return s.Err()
	}
	for _, sh := range st.shards {
		sh.get()
		sh.findNow(st)
	}
	return s.Err()
}

// Close closes all shards. Lookups in progress finish; later ones report true. Closing a set again
// does nothing and returns nil.
func (s *Set) Close() error {
	s.poll.End(mmapfilter.ErrClosed) // first, since a Refresh that verifies shards holds the lock
	s.mu.Lock()
	if s.mu.closed {
		s.mu.Unlock()
		return nil
	}
	s.mu.closed = true
	st := s.state.Load()
	if st != nil { // before state is nil, since Len then needs last
		s.last.Store(&setState{manifest: st.manifest, info: st.info, shards: st.shards})
	}
	s.state.Store(nil)
	s.direct.Store(maybe)
	s.refused.Store(nil)
	s.mu.Unlock()
	if s.follows {
		s.poll.Wait()
	}
	if st == nil {
		return nil
	}
	var errs []error
	for _, sh := range st.shards {
		errs = append(errs, sh.close())
	}
	return errors.Join(errs...)
}

// Warm opens all shards, and is [mmapfilter.Filter.Warm] for each. It goes on after an error, and
// returns the first error, as a [*ShardError]. If the set switches to another manifest meanwhile,
// Warm goes on with the new one.
func (s *Set) Warm(ctx context.Context) error {
	for {
		first := s.OpenAll()
		st := s.state.Load()
		if st == nil {
			return s.Err()
		}
		for _, sh := range st.shards {
			if err := sh.warm(ctx); err != nil && first == nil {
				first = err
			}
			if err := context.Cause(ctx); err != nil {
				return err
			}
		}
		if s.state.Load() == st {
			return first
		}
	}
}
