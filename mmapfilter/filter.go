package mmapfilter

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/background"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/rebuild"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/verify"
	"github.com/mmapfilter/mmapfilter/recovery"
)

// A Filter is an open filter file. It is safe for concurrent use by multiple
// goroutines. [Build], [Create], [Open] and [OpenReadOnly] return one; the zero value
// is not usable.
type Filter struct {
	hash  layout.Hasher // never changes
	shard layout.Shard  // likewise

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
	waiting bool // has had no file: the filter of a Follower that waits for one
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

	live     *background.Work // nil if the filter was opened for reading; then so are the fields up to grows
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

// OpenReadOnly opens a filter for lookups. It needs only permission to read the file. It reads
// and checks the superblocks, 16 KiB; lookups read the rest page by page as they need it, and
// only [Verify] checks it. Another process may write to the file meanwhile: lookups see what it
// has committed (rule R1).
//
// OpenReadOnly writes in one case: if the writer of the file has died and this process may write
// to the file, it recovers the file first (rule R3). With [OpenOptions.NoRecover] it never
// writes.
//
// The errors are [ErrCorrupt]; [ErrVersion]; [ErrNeedsRecovery] if the writer has died and the
// file is not recovered; [ErrBusy] if ResidencyHeap is requested and the file has a writer or
// changed while it was copied; an [*OptionError]; and those of the file system, such as
// fs.ErrNotExist and fs.ErrPermission, or an error that says that path is not a regular file.
func OpenReadOnly(path string, opts *OpenOptions) (*Filter, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	opts = opts.withDefaults()
	o, err := openReadOnly(path, opts)
	for tries := 0; errors.Is(err, ErrNeedsRecovery) && tries < openTries; tries++ {
		failed := makeServable(path, opts)
		if errors.Is(failed, ErrLocked) && !errors.As(failed, new(*recovery.ReadLockError)) { // another process recovers the file, or already writes to it
			time.Sleep(time.Millisecond << tries)
			failed = nil
		}
		// Try again even after a failure: a writer may have closed the file between the
		// look at the superblock and the look at the lock.
		if o, err = openReadOnly(path, opts); failed != nil {
			if err != nil && !errors.Is(failed, ErrNeedsRecovery) {
				err = errors.Join(err, failed)
			}
			break
		}
	}
	if errors.Is(err, ErrNeedsRecovery) && opts.ServeUnrecovered {
		o, err = openUnrecovered(path, opts)
	}
	if err != nil {
		return nil, about("open", path, err)
	}
	return newFilter(o), nil
}

// makeServable recovers the file at path. With NoRecover it only finds out whether another
// process has locked the file and may be about to recover it; the error is then ErrLocked.
func makeServable(path string, opts *OpenOptions) error {
	if !opts.NoRecover {
		_, err := recoverFile(path, replayLog)
		return err
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	switch locked, err := recovery.Locked(f); {
	case err != nil:
		return err
	case locked:
		return ErrLocked
	}
	return ErrNeedsRecovery
}

// openUnrecovered opens a file whose writer has died, as it is. No lookup reads the file: it may
// lack operations that are in the log and, after a power loss, any of its words may be old.
func openUnrecovered(path string, opts *OpenOptions) (*openFile, error) {
	f, head, err := recovery.OpenFile(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if head.Superblock.State() != layout.Live { // recovered or closed meanwhile
		return openHead(f, head, opts)
	}
	o := newOpenFile(path, head, new(OpenOptions))
	o.unrecovered = true
	m, err := recovery.Map(f, layout.OffRegion+head.Geometry.RegionBytes, false)
	if err != nil {
		return nil, err
	}
	if err := o.adopt(m, f, new(OpenOptions)); err != nil {
		return nil, errors.Join(err, m.Unmap())
	}
	return o, nil
}

// openTries bounds how often a file is opened again because its writer seems to have died:
// another process may be recovering it. The waits start at a millisecond, double, and add up to
// a second.
const openTries = 10

// maybe answers for a filter that has no file to look in (C1).
var maybe = layout.NewDirect(nil, nil, new(layout.Hasher), func(uint64) bool { return true })

func newFilter(o *openFile) *Filter {
	filter := &Filter{hash: layout.NewHasher(o.superblock.Seed()), shard: o.superblock.Shard()}
	filter.growth.life, filter.growth.end = context.WithCancel(context.Background())
	filter.use(o)
	return filter
}

// use puts a file to use.
func (f *Filter) use(o *openFile) {
	f.open.Store(o)
	f.lookIn(o)
}

// lookIn makes lookups of single keys look in a file.
func (f *Filter) lookIn(o *openFile) {
	if o.unrecovered {
		f.answer(maybe, maybe)
		return
	}
	table := o.table
	if o.live != nil || o.checked {
		table = nil
	}
	own := layout.NewDirect(table, &o.view, &f.hash, o.contains)
	if f.shard.Count == 0 {
		f.answer(own, own)
		return
	}
	f.answer(layout.NewDirect(nil, nil, &f.hash, func(hash uint64) bool { return f.containsIn(o, hash) }), own)
}

func (f *Filter) answer(direct, own *layout.Direct) {
	f.direct.Store(direct)
	f.own.Store(own)
}

func openReadOnly(path string, opts *OpenOptions) (*openFile, error) {
	f, head, err := recovery.OpenFile(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return openHead(f, head, opts)
}

func openHead(f *os.File, head *recovery.Head, opts *OpenOptions) (*openFile, error) {
	if head.Superblock.State() == layout.Live {
		if served, err := recovery.Served(f); err != nil || !served {
			return nil, errors.Join(ErrNeedsRecovery, err)
		}
		if opts.Residency == ResidencyHeap {
			return nil, ErrBusy // R5: a copy would mix several instants
		}
	}
	o := newOpenFile(f.Name(), head, opts)
	if opts.Residency == ResidencyHeap {
		words, err := recovery.ReadWords(f, head, opts.Progress)
		if err != nil {
			return nil, err
		}
		o.view = layout.NewView(words, head.Geometry)
		return o, nil
	}
	m, err := recovery.Map(f, layout.OffRegion+head.Geometry.RegionBytes, false)
	if err != nil {
		return nil, err
	}
	if err := o.adopt(m, f, opts); err != nil {
		return nil, errors.Join(err, m.Unmap())
	}
	return o, nil
}

func newOpenFile(path string, head *recovery.Head, opts *OpenOptions) *openFile {
	if absolute, err := filepath.Abs(path); err == nil {
		path = absolute
	}
	table := layout.NewTable(head.Geometry)
	return &openFile{
		path:       path,
		table:      table,
		looks:      table,
		checked:    opts.Checked,
		residency:  opts.Residency,
		superblock: head.Superblock,
		info:       head.Info,
		geometry:   head.Geometry,
		fileBytes:  head.Size,
	}
}

// adopt makes lookups read a mapping of f, and unmaps it once o is garbage. f is nil if o has a writer,
// whose work unmaps it.
func (o *openFile) adopt(m *recovery.Mapping, f *os.File, opts *OpenOptions) error {
	sealed := o.live == nil && o.superblock.State() == layout.Sealed
	if err := o.makeResident(m, f, opts, sealed); err != nil {
		if fault := new(recovery.FaultError); errors.As(err, &fault) {
			err = verify.Fault(o.geometry, fault)
		}
		return err
	}
	o.mapping = m
	o.view = layout.NewView(recovery.Words(m.Data[layout.OffRuntime:layout.OffRegion+o.geometry.RegionBytes]), o.geometry)
	if o.live == nil {
		// Unmap only after the last lookup that may use the memory has let go of o.
		runtime.AddCleanup(o, func(m *recovery.Mapping) { m.Unmap() }, m)
	}
	return nil
}

// memoryLimit is replaced by tests.
var memoryLimit = recovery.MemoryLimit

// crowdsOut reports whether a mapping does not fit in memory with some room for the rest of the
// process. Read-ahead would then drop pages that are needed for ones that are not.
func crowdsOut(m *recovery.Mapping) bool {
	const small, room = 16 << 20, 8 // bytes that fit anywhere; one part in room
	size := int64(len(m.Data))
	return size > small && size+size/room > memoryLimit()
}

// makeResident applies the Residency. A file that a writer may open is always mapped for random
// access: read-ahead fills the page cache with large pages, and each store would write a whole
// one back. Any other is in large pages, if it is to be in memory.
func (o *openFile) makeResident(m *recovery.Mapping, f *os.File, opts *OpenOptions, sealed bool) error {
	o.progress = opts.Progress
	small := opts.Residency == ResidencyRandom || !sealed || opts.Residency == ResidencyDefault && crowdsOut(m)
	if o.small.Store(small); !small {
		m.ForgetHead(f)
		m.AdviseLarge()
	} else if err := m.AdviseRandom(); err != nil {
		return err
	}
	progress := func(done, total int64) bool {
		if opts.Progress != nil {
			opts.Progress(done, total)
		}
		return true
	}
	switch opts.Residency {
	case ResidencyWillNeed:
		// The system's own advice of this name reads ahead only once, which covers a small part of
		// a large file.
		go func() {
			o.populate(m, func(int64, int64) bool { return true })
		}()
	case ResidencyPopulate:
		return m.Populate(small, progress)
	case ResidencyLock:
		if err := m.Populate(small, progress); err != nil {
			return err
		}
		if err := m.Data.Lock(); err != nil {
			return fmt.Errorf("lock %d bytes in memory (see ulimit -l for the limit): %w", len(m.Data), err)
		}
	}
	return nil
}

// populate is Populate until the file is released, and gives back what has been read since.
func (o *openFile) populate(m *recovery.Mapping, more func(done, total int64) bool) error {
	err := m.Populate(o.small.Load(), func(done, total int64) bool { return more(done, total) && !o.released.Load() })
	if o.released.Load() {
		m.Release()
	}
	runtime.KeepAlive(o) // keeps it mapped until here
	return err
}

// heedWriter has lookups read small pages from now on if the file was sealed when it was opened, and no
// longer is (R4).
func (o *openFile) heedWriter() {
	if o.mapping != nil && !o.small.Load() && o.newest().State() != layout.Sealed {
		o.mapping.AdviseSmall()
		o.small.Store(true)
	}
	runtime.KeepAlive(o) // keeps it mapped until here
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
	if o.live != nil {
		err = o.live.Close()
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

func (o *openFile) err() error {
	if o.live != nil {
		if err := o.live.Writer.Err(); err != nil {
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
	if o.live == nil && o.mapping != nil {
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
	if o.live != nil {
		return o.live.Writer.Len()
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
	if o.live == nil {
		file, err := recovery.OpenHashesOf(o.path, o.newest())
		if err == nil {
			file.Close()
		}
		return err
	}
	if err := o.live.Writer.Protocol().HashesErr(); err != nil {
		return err
	}
	f.growth.auto.Lock()
	defer f.growth.auto.Unlock()
	return f.growth.auto.failed
}
