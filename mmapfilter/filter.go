package mmapfilter

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"io/fs"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/rebuild"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/writer"
	"github.com/mmapfilter/mmapfilter/recovery/osfile"
)

// A Filter is an open filter file. It is safe for concurrent use by multiple
// goroutines. [Build], [Create], [Open] and [OpenReadOnly] return one; the zero value
// is not usable.
type Filter struct {
	// These never change.
	hash  layout.Hasher
	shard layout.Shard

	// direct answers lookups of single keys. It adds as few instructions as possible to a lookup: if the
	// line is in the cache, the instructions around the lookup cost as much as the lookup itself.
	direct atomic.Pointer[layout.Direct]
	// own is like direct, but takes hashes in the form that this file uses (see layout.Shard). Unless
	// the file is a shard, own and direct are the same.
	own atomic.Pointer[layout.Direct]
	// open is nil once the filter is closed. A lookup loads it once and uses the openFile that it
	// got; Close never takes memory away from such a lookup.
	open atomic.Pointer[openFile]

	// Close stores Len and Cap here, for calls after open is nil.
	lastLen, lastCap atomic.Uint64

	growth growth

	closed  atomic.Bool
	waiting bool // the filter of a Follower that waits for a file
}

// growth is the state of rebuilds, of growth and of expiry.
type growth struct {
	sync.Mutex                 // held by a rebuild, an expiry, Apply and Close; see take
	life       context.Context // ends, with the cause ErrClosed, when the filter is closed
	end        func()
	calls      context.Context // ends before life, when Close begins; see call
	endCalls   context.CancelFunc
	auto       autoGrowth
	expiry     expiry
}

// call returns a context for a long call, such as Rebuild or Apply. It ends with the cause
// ErrClosed when Close begins.
func (g *growth) call(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(g.calls, func() { cancel(ErrClosed) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// autoGrowth is the state of a filter that grows by itself.
type autoGrowth struct {
	sync.Mutex
	done   chan struct{}   // closed when the growth that is under way ends; nil if there is none
	full   *openFile       // the file in which an insert found no room before this growth, or nil
	finish bool            // Close waits for the growth
	failed error           // why the last growth failed, or nil
	under  context.Context // context of the Rebuild from Keys that is under way; see comesFirst
	again  chan struct{}   // closed when inserts that wait for room should be tried again; or nil

	failedAt   uint64        // items when the last growth began
	failedTime time.Time     // when it ended
	took       time.Duration // how long it took
}

// goesOn notes the context of the Rebuild from Keys that is under way. If there is none, ctx is a
// context that never ends.
func (a *autoGrowth) goesOn(ctx context.Context) {
	a.Lock()
	a.under = ctx
	a.Unlock()
	a.tryAgain()
}

// tryAgain makes inserts that wait for room try again.
func (a *autoGrowth) tryAgain() {
	a.Lock()
	defer a.Unlock()
	if a.again != nil {
		close(a.again)
		a.again = nil
	}
}

// comesFirst returns the context of the Rebuild that a growth waits for, or a context that never ends if
// there is none. It also returns a channel that is closed when that Rebuild may have ended, or when
// the filter has switched to another file.
func (a *autoGrowth) comesFirst() (under context.Context, again <-chan struct{}) {
	a.Lock()
	defer a.Unlock()
	if a.under == nil {
		a.under = context.Background()
	}
	if a.again == nil {
		a.again = make(chan struct{})
	}
	return a.under, a.again
}

// An openFile holds what a filter needs in order to answer from its file. Its fields do not change,
// except fault, released, small, told and the writer's state.
type openFile struct {
	path       string // absolute: the working directory may change
	table      layout.Table
	looks      layout.Looks // table, as an interface with fewer methods
	view       layout.View
	checked    bool
	mapping    *osfile.Mapping // nil if the filter is a copy in the heap, or from bytes or a reader
	data       []byte          // the bytes of mapping or OpenBytes; nil in a copy in the heap, or from a reader
	lines      *lines          // where the lines are read, in a filter from a reader; otherwise nil
	file       io.Closer       // the file that lines reads, if the filter must close it; otherwise nil
	residency  Residency
	progress   func(done, total int64) // OpenOptions.Progress
	superblock *layout.Superblock      // as of opening
	info       fs.FileInfo             // as of opening; nil if the filter was opened for writing, or not from a path
	geometry   layout.Geometry
	fileBytes  int64
	warning    string // see Stats.Warning

	work     *writer.Work // nil if opened for reading; then the fields up to grows are zero
	found    Recovery
	logBytes int64  // OpenOptions.LogBytes
	rebuilds uint64 // since the filter was opened
	grows    rebuild.Growth

	// unrecovered means that the writer died, nobody has recovered the file, and
	// OpenOptions.ServeUnrecovered is set. Every answer is "maybe".
	unrecovered bool

	wake chan<- struct{} // wakes the follower that uses the file, or nil; see notice
	told atomic.Bool     // notice has woken the follower

	fault    atomic.Pointer[CorruptError] // the first fault that a checked lookup met
	released atomic.Bool
	small    atomic.Bool // the mapping is for random access, in small pages
}

// maybe answers "maybe" to every key, for a filter that has no file to look in (C1).
var maybe = layout.NewDirect(nil, nil, new(layout.Hasher), func(uint64) bool { return true })

// answer sets direct and own, which answer lookups of single keys.
func (f *Filter) answer(direct, own *layout.Direct) {
	f.direct.Store(direct)
	f.own.Store(own)
}

// release gives back the memory of the file at once. The mapping stays until the lookups in
// progress are done.
func (o *openFile) release() {
	o.released.Store(true)
	if o.mapping != nil {
		o.mapping.Release()
	}
	if o.file != nil {
		o.file.Close()
	}
	runtime.KeepAlive(o)
}

// Err returns the error that limits the filter, or nil: [ErrFailed], with its cause, once a write has
// failed; the first fault met by a lookup with [OpenOptions.Checked], as a [*CorruptError];
// [ErrSuperseded]; the first error of the reader of [OpenReaderAt]; or [ErrNeedsRecovery] if the file is
// served unrecovered (see [OpenOptions.ServeUnrecovered]). In a filter from OpenReaderAt, Err reads 64
// bytes. After Close it returns [ErrClosed].
func (f *Filter) Err() error {
	switch o := f.open.Load(); {
	case o != nil:
		if o.lines != nil {
			o.lines.check()
		}
		return o.err()
	case f.waiting && !f.closed.Load():
		return fs.ErrNotExist
	}
	return ErrClosed
}

// writable returns the open file, or an error that says why nothing can be written to it.
func (f *Filter) writable() (*openFile, error) {
	if f.closed.Load() {
		return nil, ErrClosed
	}
	return f.live()
}

// live is like writable, but also succeeds while Close finishes a rebuild.
func (f *Filter) live() (*openFile, error) {
	o := f.open.Load()
	switch {
	case o == nil && !(f.waiting && !f.closed.Load()):
		return nil, ErrClosed
	case o == nil || o.work == nil:
		return nil, ErrReadOnly
	}
	return o, nil
}

func (o *openFile) err() error {
	if o.work != nil {
		if err := o.work.Writer.Err(); err != nil {
			return err
		}
	}
	if e := o.fault.Load(); e != nil {
		return e
	}
	if o.lines != nil {
		if err := o.lines.err(); err != nil {
			return err
		}
	}
	if o.superseded() {
		return about("open", o.path, ErrSuperseded)
	}
	if o.unrecovered {
		return about("open", o.path, ErrNeedsRecovery)
	}
	return nil
}

// superseded reports whether another file has taken the place of this one.
func (o *openFile) superseded() bool {
	epoch := uint64(0)
	if o.work == nil {
		osfile.Catch(o.data, func() { epoch = o.view.At(layout.WordRuntime + layout.RuntimeEpoch) })
	}
	runtime.KeepAlive(o) // keeps the file mapped until here
	return epoch == layout.Superseded
}

// Len returns the number of items in the file: of keys, with each copy of equal keys counted. Until the
// next rebuild, Len does not count keys that [Filter.InsertUnique] has left out, and it still counts
// keys whose deletes wait (see [Filter.Delete]). If another process writes to the file, Len is the
// number at the last checkpoint. After Close it is the number at Close.
func (f *Filter) Len() uint64 {
	if o := f.open.Load(); o != nil {
		return o.len()
	}
	return f.lastLen.Load()
}

func (o *openFile) len() uint64 {
	if o.work != nil {
		return o.work.Writer.Len()
	}
	return o.newest().Length()
}

// newest returns the newest superblock of the file. If the file cannot be read, newest returns the
// superblock that was read at opening.
func (o *openFile) newest() *layout.Superblock {
	newest := o.superblock
	if o.data != nil {
		osfile.Catch(o.data, func() {
			if _, sb, _, err := layout.Newest(slices.Clone(o.data[:layout.OffRuntime])); err == nil {
				newest = sb
			}
		})
	}
	runtime.KeepAlive(o) // keeps the file mapped until here
	return newest
}

// Cap returns the number of keys that the filter was sized for, also after Close.
func (f *Filter) Cap() uint64 {
	if o := f.open.Load(); o != nil {
		return o.superblock.Capacity()
	}
	return f.lastCap.Load()
}

// Normalisation returns the note on how the keys were made (see
// [Options.Normalisation]), or "" after Close.
func (f *Filter) Normalisation() string {
	if o := f.open.Load(); o != nil {
		return o.superblock.Normalisation()
	}
	return ""
}

// growthErr returns why a filter that keeps hashes cannot grow, or nil.
func (f *Filter) growthErr(o *openFile) error {
	if !o.superblock.KeepsHashes() {
		return nil
	}
	if o.work == nil && o.info == nil {
		return fmt.Errorf("%w: hashes are beside a file, but the filter was not opened from a path", ErrNoHashes)
	}
	if o.work == nil {
		for sb := *o.newest(); ; {
			kept, err := osfile.OpenHashesOf(o.path, &sb)
			if err == nil {
				return kept.File.Close()
			}
			before := sb
			if sb = *o.newest(); sb == before {
				return err
			}
			// Otherwise a checkpoint has come in between, and the pages that counted may be gone.
		}
	}
	if err := cmp.Or(o.work.Writer.Protocol().HashesErr(), o.work.Writer.Protocol().Stuck()); err != nil {
		if now := f.open.Load(); now != o && now != nil { // a rebuild has replaced and closed it
			return f.growthErr(now)
		}
		return err
	}
	f.growth.auto.Lock()
	defer f.growth.auto.Unlock()
	return f.growth.auto.failed
}
