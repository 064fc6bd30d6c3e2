package mmapfilter

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/bridge"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/build"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/poll"
	"github.com/mmapfilter/mmapfilter/recovery/osfile"
)

// A Follower looks keys up in the newest complete file at a path. It is safe for
// concurrent use by multiple goroutines.
//
// It has no lookups by hash. A hash depends on the seed of a file, and the follower might switch to a
// file with another seed after the hash was computed, so the answer could be a wrong "certainly not".
// For lookups by hash, use [Follower.Filter].
type Follower struct {
	path string // absolute: the working directory may change
	fsys fs.FS  // the file system of path; nil for the file system of the machine
	opts OpenOptions

	// filter is the newest filter. A lookup loads the pointer once. When another filter takes its place,
	// the follower does not close the old one, since lookups in progress would then answer only "maybe";
	// the old file is unmapped after the last of these lookups.
	filter atomic.Pointer[Filter]
	closed atomic.Bool

	swaps   atomic.Uint64
	refused atomic.Pointer[error] // the error of the last look; nil if it succeeded

	looking struct {
		sync.Mutex
		damaged bool // the last look found that the file in use was overwritten
	}

	poll *poll.Poller // looks at the path; nil if a set does that
	wake chan<- struct{}
	life context.Context                   // ends a verification
	fits func(sb *layout.Superblock) error // see bridge.ShardFile; nil unless a set follows
}

// waitingFilter returns the filter of a follower that has no file yet.
func waitingFilter() *Filter {
	f := &Filter{waiting: true}
	f.answer(maybe, maybe)
	return f
}

// Follow opens a filter for reading as [OpenReadOnly] does. Whenever another complete file appears
// at path, the follower switches to it. This may be a file that [Build] made, a file renamed to
// path, or the new target of a symbolic link. The follower takes the file at path for the newest,
// whatever its generation or time.
//
// The follower looks at path every [OpenOptions.FollowInterval], less often after a failure, and
// in [Follower.Refresh]. It looks at once when a lookup finds that the file in use is superseded (rule
// R6, [ErrSuperseded]). It opens a new file, checks it as OpenReadOnly does, loads it as
// [OpenOptions.Residency] asks, verifies it if [OpenOptions.VerifyBeforeSwitch] is set, and only then
// switches; so for a while both files take memory. Until the switch the old file answers; if it is
// superseded, the answer is "maybe" for every key that it does not have. After the switch the
// follower releases the memory of the old file. The garbage collector frees the old file's disk space
// after the last lookup.
//
// If a new file is refused, the old one keeps answering, [Follower.Err] says why, and every look
// tries again. Changes that a writer makes to the file in use are visible, as they are to any reader,
// except with [ResidencyHeap]: then the follower copies the file again once its writer has closed it,
// and until then Err is [ErrBusy]. If that writer dies, lookups still see what it had committed, and Err
// is [ErrNeedsRecovery] until the file has been recovered. The follower recovers a file when it opens
// it, as OpenReadOnly does, unless [OpenOptions.NoRecover] is set; it does not recover the file in use.
//
// Replace a file by renaming another one to its name. Windows cannot replace a mapped file
// ([ErrInUse]), so there a follower reads its file into memory, as with ResidencyHeap. While a mapped
// file is overwritten in place, answers are wrong and lookups may fault (see [OpenOptions.Checked]);
// the next look that finds the file complete opens it again.
//
// The errors are those of OpenReadOnly and, with VerifyBeforeSwitch, a [*CorruptError] if the file is
// damaged. Close the follower to stop its goroutine. That goroutine calls OpenOptions.Progress, which
// must call neither Close nor Refresh.
func Follow(path string, opts *OpenOptions) (*Follower, error) {
	return follow(path, opts, time.After)
}

// follow is Follow with a clock.
func follow(path string, opts *OpenOptions, after func(time.Duration) <-chan time.Time) (*Follower, error) {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return nil, about("open", path, err)
	}
	p := poll.New()
	f := &Follower{path: path, opts: following(opts), poll: p, wake: p.Wake(), life: p.Life}
	err = f.begin() // the error names the path as given
	f.path = absolute
	if err != nil && !(f.opts.WaitForFile && errors.Is(err, fs.ErrNotExist)) {
		p.End(err)
		return nil, err
	}
	p.Start(f.opts.FollowInterval, after, func() (awaits bool, err error) {
		_, err = f.Refresh()
		return f.filter.Load().awaits(), err
	})
	return f, nil
}

// following returns the options with which a follower opens files. On Windows, a file that is
// mapped cannot be replaced.
func following(opts *OpenOptions) OpenOptions {
	o := *opts.withDefaults()
	if !osfile.Replaces && o.Residency < ResidencyHeap {
		o.Residency = ResidencyHeap
	}
	return o
}

// followShard follows a file for a set, which calls Refresh. If the file cannot be opened, the
// follower waits for another one.
func followShard(s bridge.ShardFile) *Follower {
	f := &Follower{fsys: s.FS, path: s.Path, opts: following(s.Opts.(*OpenOptions)), wake: s.Wake, life: s.Life, fits: s.Fits}
	f.begin()
	return f
}

// begin opens the file at the path. If that fails, the follower waits for a file.
func (f *Follower) begin() error {
	filter, err := f.open()
	if err != nil {
		f.refused.Store(&err)
		filter = waitingFilter()
	}
	f.filter.Store(filter)
	return err
}

// awaits reports whether the file of the filter is superseded by a file that does not have the name
// yet. If the file is no longer superseded, awaits makes the follower look at once the next time that
// the file is superseded.
func (f *Filter) awaits() bool {
	o := f.open.Load()
	if o == nil || o.superseded() {
		return o != nil
	}
	o.told.Store(false)
	return false
}

// open opens the file at the path, and verifies it with OpenOptions.VerifyBeforeSwitch. If a set
// follows, open refuses a file that does not fit the set.
func (f *Follower) open() (*Filter, error) {
	for tries := 0; ; tries++ {
		if err := context.Cause(f.life); err != nil {
			return nil, err
		}
		next, err := openIn(f.fsys, f.path, &f.opts)
		if err != nil {
			return nil, err
		}
		o := next.open.Load()
		o.wake = f.wake
		if f.fits != nil {
			if err := f.fits(o.superblock); err != nil {
				next.Close()
				return nil, err
			}
		}
		if !f.opts.VerifyBeforeSwitch {
			return next, nil
		}
		if err = o.verify(f.life); err == nil {
			return next, nil
		}
		next.Close()
		if !errors.Is(err, ErrBusy) || tries == openTries {
			return nil, about("verify", f.path, err)
		}
	}
}

// verify verifies the file, unless the file has a writer or is served unrecovered. It returns ErrBusy if
// the file has changed since it was opened, or if another file is at its path now.
func (o *openFile) verify(ctx context.Context) error {
	if o.unrecovered {
		return nil
	}
	file, head, err := osfile.OpenFile(o.path)
	if err != nil {
		return err
	}
	defer file.Close()
	switch {
	case !os.SameFile(head.Info, o.info) || *head.Superblock != *o.superblock:
		return ErrBusy
	case head.Superblock.State() == layout.Live:
		return nil
	}
	_, err = verifyOpen(ctx, file, head, o.path, "", verifying)
	return err
}

// verifying lets a test stop a verification.
var verifying = func(done, total int64) {}

// Refresh looks at the path now. It reports whether the follower has switched to
// another file; if so, every lookup that begins after Refresh returns uses it. The
// error says why the file at the path was refused, or is [ErrNeedsRecovery] if the
// writer of the file in use has died; [Follower.Err] returns it too until the next
// look. After Close it is [ErrClosed].
func (f *Follower) Refresh() (swapped bool, err error) {
	f.looking.Lock()
	defer f.looking.Unlock()
	old := f.filter.Load()
	o := old.open.Load()
	if f.closed.Load() || o == nil && !old.waiting {
		return false, ErrClosed
	}
	next, err := f.look(o)
	if err != nil {
		f.refused.Store(&err)
		if o != nil && f.fits != nil && f.fits(o.newest()) != nil { // the file has been overwritten in place
			f.filter.Store(waitingFilter())
			o.release()
		}
		return false, err
	}
	f.looking.damaged = false
	if next != nil {
		f.filter.Store(next)
		if o != nil {
			o.release()
		}
		if f.closed.Load() { // closed meanwhile, and Close may have closed the old filter
			return false, errors.Join(ErrClosed, next.Close())
		}
		f.swaps.Add(1)
	}
	f.refused.Store(nil)
	return next != nil, nil
}

// look opens the file at the path unless it is the file of o. o is nil while the follower waits
// for a file. look returns ErrNeedsRecovery if the writer of the file has died.
func (f *Follower) look(o *openFile) (*Filter, error) {
	if o == nil {
		return f.open()
	}
	replaced, err := f.replaced(o)
	if err != nil {
		return nil, about("open", f.path, err)
	}
	if !replaced {
		o.heedWriter()
		if _, died := o.writer(); died {
			return nil, about("open", f.path, ErrNeedsRecovery)
		}
		if !o.unrecovered {
			return nil, nil
		}
	}
	next, err := f.open()
	if err == nil && !replaced && next.open.Load().unrecovered { // another process is about to recover it
		next.Close()
		return nil, about("open", f.path, ErrNeedsRecovery)
	}
	return next, err
}

// replaced reports whether the file at the path is not the file of o and must be opened.
//
// The system reuses an inode number once its file is gone. A mapping keeps its file, and so the
// number, even after the descriptor is closed. A copy in the heap does not keep its file, so
// replaced also compares superblock and modification time.
func (f *Follower) replaced(o *openFile) (bool, error) {
	info, err := os.Stat(f.path)
	switch {
	case err != nil:
		return false, err
	case !os.SameFile(o.info, info):
		return true, nil
	case o.mapping == nil:
		file, head, err := osfile.OpenFile(f.path)
		if err != nil {
			return false, err
		}
		file.Close()
		return *head.Superblock != *o.superblock || !head.Info.ModTime().Equal(o.info.ModTime()), nil
	}
	other, err := o.overwritten(info.Size())
	if err != nil {
		f.looking.damaged = true
	}
	return err == nil && (other || f.looking.damaged), err
}

// overwritten reports whether the mapped file, now of the given size, has been overwritten with a file
// that o would misread. A writer never changes the geometry, the seed or the shard of a file.
func (o *openFile) overwritten(size int64) (other bool, err error) {
	fault := osfile.Catch(o.mapping.Data, func() {
		_, sb, geometry, newestErr := layout.Newest(slices.Clone(o.mapping.Data[:layout.OffRuntime]))
		if err = newestErr; err == nil {
			was := o.superblock
			other = geometry != o.geometry || sb.Seed() != was.Seed() || sb.Shard() != was.Shard() || sb.ShardIdentity() != was.ShardIdentity()
		}
	})
	runtime.KeepAlive(o) // keeps the file mapped until here
	switch {
	case fault != nil:
		return false, build.Damage(o.geometry, fault)
	case err == nil && !other && size < int64(len(o.mapping.Data)):
		return false, &CorruptError{Region: layout.RegionFile, Offset: size, Rule: "F6", What: "the file was cut short while it was open"}
	}
	return other, err
}

// Contains is [Filter.Contains] for the newest file.
func (f *Follower) Contains(key []byte) bool { return f.filter.Load().Contains(key) }

// ContainsString is Contains for a key in a string.
func (f *Follower) ContainsString(key string) bool { return f.filter.Load().ContainsString(key) }

// ContainsBatch is [Filter.ContainsBatch] for the newest file. One file answers the
// whole batch.
func (f *Follower) ContainsBatch(keys [][]byte, found []bool) {
	f.filter.Load().ContainsBatch(keys, found)
}

// Stats is [Filter.Stats] for the newest file. [Stats.Swaps] counts the files before it.
func (f *Follower) Stats() Stats {
	s := f.filter.Load().Stats()
	s.Swaps = f.swaps.Load()
	return s
}

// Filter returns the filter of the newest file, for several questions that must be about one file, such
// as how its keys were made and whether it has a given key. The filter keeps answering after the
// follower has switched to another file. It belongs to the follower: do not close it.
func (f *Follower) Filter() *Filter { return f.filter.Load() }

// Err returns the error that limits the follower, or nil: what [Filter.Err] returns for the file in
// use; or else why the last look refused the file at the path, or [ErrNeedsRecovery] if that look
// found that the writer of the file in use has died. A look that succeeds clears both of these. If
// the file in use is superseded and the new one is refused, Err returns both errors. While the
// follower waits for a file (see [OpenOptions.WaitForFile]), Err says why there is none. After
// Close it is [ErrClosed].
func (f *Follower) Err() error {
	if f.closed.Load() {
		return ErrClosed
	}
	if filter := f.filter.Load(); !filter.waiting {
		if err := filter.Err(); err != nil {
			if refused := f.refused.Load(); refused != nil && errors.Is(err, ErrSuperseded) {
				err = errors.Join(*refused, err)
			}
			return err
		}
	}
	if refused := f.refused.Load(); refused != nil {
		return *refused
	}
	return nil
}

// Close closes the follower. Lookups in progress finish; later ones report true, which means
// "maybe". Close waits for the goroutine that looks at the path, even if it is opening a file, but
// interrupts a verification. Closing a follower again does nothing and returns nil. The error is what
// [Filter.Err] returned for the file in use.
func (f *Follower) Close() error {
	if f.closed.Swap(true) {
		return nil
	}
	if f.poll == nil {
		return f.filter.Load().Close()
	}
	f.poll.End(ErrClosed)
	err := f.filter.Load().Close()
	f.poll.Wait()
	return err
}
