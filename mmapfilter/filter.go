package mmapfilter

import (
	"context"
	"io/fs"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/background"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/rebuild"
	"github.com/mmapfilter/mmapfilter/recovery"
)

// A Filter is an open filter file. It is safe for concurrent use by multiple
// goroutines. [Build], [Create], [Open] and [OpenReadOnly] return one; the zero value
// is not usable.
type Filter struct {
	// These never change.
	hash  layout.Hasher
	shard layout.Shard

	// direct answers lookups of single keys. It adds as few instructions as possible: out of the
	// cache, they cost as much as the lookup itself.
	direct atomic.Pointer[layout.Direct]
	// own is direct for hashes that stand for keys in this file (see layout.Shard). It is the same
	// unless the file is a shard.
	own atomic.Pointer[layout.Direct]
	// open is nil once the filter is closed. A lookup loads it once and uses the openFile that it
	// got; Close never takes memory away from such a lookup.
	open atomic.Pointer[openFile]

	// Len and Cap for when open is nil. Close stores them.
	lastLen, lastCap atomic.Uint64

	growth growth

	closed  atomic.Bool
	waiting bool // the filter of a Follower that waits for a file
}

// growth is what a filter needs to be rebuilt.
type growth struct {
	sync.Mutex                 // held by a rebuild or an expiry, and by Close
	life       context.Context // ends when the filter is closed
	end        context.CancelFunc
	auto       autoGrowth
}

// autoGrowth is the state of a filter that grows by itself.
type autoGrowth struct {
	sync.Mutex
	done     chan struct{} // closed when the growth that is under way ends; nil if there is none
	failed   error         // of the last one, or nil
	failedAt uint64        // items then

	failedTime time.Time
}

// An openFile holds what a filter needs of its file to answer. Its fields do not change, except
// fault, released, small and the writer's state.
type openFile struct {
	path       string // absolute: the working directory may change
	table      layout.Table
	looks      layout.Looks // the table
	view       layout.View
	checked    bool
	mapping    *recovery.Mapping // nil if the filter is a copy in the heap
	residency  Residency
	progress   func(done, total int64) // OpenOptions.Progress
	superblock *layout.Superblock      // as of opening
	info       fs.FileInfo             // as of opening; nil if the filter was opened for writing
	geometry   layout.Geometry
	fileBytes  int64
	warning    string // see Stats.Warning

	work     *background.Work // nil if opened for reading; then the fields up to grows are zero
	found    Recovery
	logBytes int64  // OpenOptions.LogBytes
	rebuilds uint64 // since the filter was opened
	grows    rebuild.Growth

	// unrecovered means that the writer died, nobody has recovered the file, and it is served all
	// the same (see OpenOptions.ServeUnrecovered). Every answer is "maybe".
	unrecovered bool

	fault    atomic.Pointer[CorruptError] // the first fault that a checked lookup met
	released atomic.Bool
	small    atomic.Bool // the mapping is for random access, in small pages
}

// maybe answers for a filter that has no file to look in (C1).
var maybe = layout.NewDirect(nil, nil, new(layout.Hasher), func(uint64) bool { return true })

// answer sets what answers lookups of single keys.
func (f *Filter) answer(direct, own *layout.Direct) {
	f.direct.Store(direct)
	f.own.Store(own)
}

// Close closes the filter. Lookups and batches in progress finish; later ones report true, which
// means "maybe" (C1). Close releases the memory at once; the garbage collector releases the
// address space, and with it the hold on the file, after the last lookup. Closing a filter again
// does nothing and returns nil.
//
// If the filter is open for writing, Close commits and checkpoints, which leaves one complete
// file, and removes the log. The error is that of these steps, or else the one that [Filter.Err]
// returned before.
func (f *Filter) Close() error {
	if f.closed.Swap(true) {
		return nil
	}
	if f.growth.end != nil {
		f.growth.end()
	}
	f.growth.Lock() // until a rebuild has ended
	defer f.growth.Unlock()
	o := f.open.Load()
	if o == nil {
		return nil
	}
	f.answer(maybe, maybe)
	f.lastLen.Store(o.len()) // before open is nil: then Len needs them
	f.lastCap.Store(o.superblock.Capacity())
	f.open.Store(nil)
	var err error
	if o.work != nil {
		err = o.work.Close()
	}
	f.lastLen.Store(o.len()) // operations may have been in progress
	if err == nil {
		err = o.err()
	}
	o.release() // last: what reads the file would map a page of it again
	return err
}

// release gives back the memory of the file at once. The mapping stays until the lookups in
// progress are done.
func (o *openFile) release() {
	o.released.Store(true)
	if o.mapping != nil {
		o.mapping.Release()
	}
	runtime.KeepAlive(o)
}

// Err returns the error that limits the filter, or nil: [ErrFailed], with its cause,
// once a write has failed; the first fault met by a lookup with [OpenOptions.Checked],
// as a [*CorruptError]; or [ErrNeedsRecovery] if the file is served unrecovered (see
// [OpenOptions.ServeUnrecovered]). After Close it is [ErrClosed].
func (f *Filter) Err() error {
	switch o := f.open.Load(); {
	case o != nil:
		return o.err()
	case f.waiting && !f.closed.Load():
		return fs.ErrNotExist
	}
	return ErrClosed
}

// writable returns the open file, or why nothing can be written to it.
func (f *Filter) writable() (*openFile, error) {
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
	if o.work == nil && o.mapping != nil {
		recovery.Catch(o.mapping.Data, func() { epoch = o.view.At(layout.WordRuntime + layout.RuntimeEpoch) })
	}
	runtime.KeepAlive(o) // keeps it mapped until here
	return epoch == layout.Superseded
}

// Len returns the number of items: keys in the filter, with each equal key counted. If another
// process writes to the file, Len is the number at the last checkpoint. After Close it is the
// number at Close.
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

// newest returns the newest superblock of the file, or the one read at opening if the file
// cannot be read.
func (o *openFile) newest() *layout.Superblock {
	newest := o.superblock
	if o.mapping != nil {
		recovery.Catch(o.mapping.Data, func() {
			if _, sb, _, err := layout.Newest(slices.Clone(o.mapping.Data[:layout.OffRuntime])); err == nil {
				newest = sb
			}
		})
	}
	runtime.KeepAlive(o) // keeps it mapped until here
	return newest
}

// Cap returns the number of keys that the filter was sized for, also after Close.
func (f *Filter) Cap() uint64 {
	if o := f.open.Load(); o != nil {
		return o.superblock.Capacity()
	}
	return f.lastCap.Load()
}

// TargetRate returns the false-positive rate that the filter was made for, or 0 after Close.
func (f *Filter) TargetRate() float64 {
	if o := f.open.Load(); o != nil {
		return o.superblock.TargetRate()
	}
	return 0
}

// Normalisation returns the note on how the keys were made (see
// [Options.Normalisation]), or "" after Close.
func (f *Filter) Normalisation() string {
	if o := f.open.Load(); o != nil {
		return o.superblock.Normalisation()
	}
	return ""
}

// growthErr returns why the filter cannot grow, or nil.
func (f *Filter) growthErr(o *openFile) error {
	if !o.superblock.KeepsHashes() {
		return nil
	}
	if o.work == nil {
		file, err := recovery.OpenHashesOf(o.path, o.newest())
		if err == nil {
			file.Close()
		}
		return err
	}
	if err := o.work.Writer.Protocol().HashesErr(); err != nil {
		return err
	}
	f.growth.auto.Lock()
	defer f.growth.auto.Unlock()
	return f.growth.auto.failed
}
