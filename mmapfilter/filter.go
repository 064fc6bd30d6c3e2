package mmapfilter

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/recovery"
)

// A Filter is an open filter file. Any number of goroutines may use it. [Build], [Create],
// [Open] and [OpenReadOnly] make one; its zero value is of no use.
type Filter struct {
	hash layout.Hasher // never changes

	// direct answers for keys that come one by one, with no more instructions around
	// it than there must be: out of the cache, they cost a lookup as much as the look.
	direct atomic.Pointer[layout.Direct]
	// open is nil once the filter is closed. A lookup loads one of them once and works
	// on what it got; Close never takes memory away from such a lookup.
	open atomic.Pointer[openFile]

	// Len and Cap once open is nil. Close stores them.
	lastLen, lastCap atomic.Uint64

	closed  atomic.Bool
	waiting bool // has had no file: the filter of a Follower that waits for one
}

// An openFile is what a filter needs of its file to answer. Nothing in it
// changes, apart from fault, and from what the writer changes.
type openFile struct {
	path       string // absolute: the working directory may change
	table      layout.Table
	view       layout.View
	checked    bool
	mapping    *recovery.Mapping // nil where the filter is a copy in the heap
	residency  Residency
	superblock *layout.Superblock // when it was opened
	info       fs.FileInfo        // likewise; nil where the filter was opened for writing
	geometry   layout.Geometry
	fileBytes  int64
	live       *live  // nil where the filter was opened for reading
	warning    string // see Stats.Warning

	// unrecovered: its writer died, nobody has recovered it, and it is served all the
	// same, see OpenOptions.ServeUnrecovered. Every answer is "maybe".
	unrecovered bool

	fault    atomic.Pointer[CorruptError] // the first that a checked lookup met
	released atomic.Bool
}

// OpenReadOnly opens a filter for lookups; the right to read the file is enough. It
// reads the superblocks, 16 KiB, and checks them. Lookups read the rest, a page at a
// time, and [Verify] checks it. Another process may write to the file meanwhile:
// lookups see what it has committed (rule R1).
//
// OpenReadOnly writes in one case. Where a writer died, it recovers the file first, if
// this process may write to it (rule R3). With [OpenOptions.NoRecover] it never writes.
//
// The errors are [ErrCorrupt], [ErrVersion], [ErrNeedsRecovery] where a writer
// died and the file cannot be recovered or is not to be, [ErrBusy] where the file
// changed while it was copied into the heap, an [*OptionError], and those of the
// file system (fs.ErrNotExist, fs.ErrPermission and so on), among them one for a
// path that is no regular file.
func OpenReadOnly(path string, opts *OpenOptions) (*Filter, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	opts = opts.withDefaults()
	o, err := openReadOnly(path, opts)
	for tries := 0; errors.Is(err, ErrNeedsRecovery) && tries < openTries; tries++ {
		failed := makeServable(path, opts)
		if errors.Is(failed, ErrLocked) && !errors.As(failed, new(*recovery.ReadLockError)) { // another process recovers it, or writes by now
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

// makeServable recovers the file under path, or with NoRecover finds out whether
// another process is about to. The error is ErrLocked where one has the file.
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

// openUnrecovered opens a file whose writer died, as it is. What it holds may lack
// operations that are in the log, and after a power loss any of its words may be an old
// one; so no lookup reads it.
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
	if err := o.adopt(m, new(OpenOptions)); err != nil {
		return nil, errors.Join(err, m.Unmap())
	}
	return o, nil
}

// openTries bounds how often a file is opened again because its writer seemed to
// have died. Someone may be recovering it; the waits double, from a millisecond
// to a second in all.
const openTries = 10

// maybe answers for a filter that has no file to ask (C1).
var maybe = layout.NewDirect(nil, nil, new(layout.Hasher), func(uint64) bool { return true })

func newFilter(o *openFile) *Filter {
	filter := &Filter{hash: layout.NewHasher(o.superblock.Seed())}
	filter.open.Store(o)
	if o.unrecovered {
		filter.direct.Store(maybe)
		return filter
	}
	table := o.table
	if o.live != nil || o.checked {
		table = nil
	}
	filter.direct.Store(layout.NewDirect(table, &o.view, &filter.hash, o.contains))
	return filter
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
			return nil, ErrBusy // R5: a copy would be of several instants
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
	if err := o.adopt(m, opts); err != nil {
		return nil, errors.Join(err, m.Unmap())
	}
	return o, nil
}

func newOpenFile(path string, head *recovery.Head, opts *OpenOptions) *openFile {
	if absolute, err := filepath.Abs(path); err == nil {
		path = absolute
	}
	return &openFile{
		path:       path,
		table:      layout.NewTable(head.Geometry),
		checked:    opts.Checked,
		residency:  opts.Residency,
		superblock: head.Superblock,
		info:       head.Info,
		geometry:   head.Geometry,
		fileBytes:  head.Size,
	}
}

// adopt makes lookups read a mapping, which is unmapped when o is garbage.
func (o *openFile) adopt(m *recovery.Mapping, opts *OpenOptions) error {
	sealed := o.live == nil && o.superblock.State() == layout.Sealed
	if err := o.makeResident(m, opts, sealed); err != nil {
		if fault := new(recovery.FaultError); errors.As(err, &fault) {
			err = corruption(o.geometry, fault)
		}
		return err
	}
	o.mapping = m
	o.view = layout.NewView(recovery.Words(m.Data[layout.OffRuntime:layout.OffRegion+o.geometry.RegionBytes]), o.geometry)
	// Not before the last lookup that may use the memory has let go of o.
	runtime.AddCleanup(o, func(m *recovery.Mapping) { m.Unmap() }, m)
	return nil
}

// makeResident does what the options ask for. A file that a writer may open is
// always mapped for random access: reading ahead fills the page cache with
// large pages, and every store of the writer would write back one of those.
func (o *openFile) makeResident(m *recovery.Mapping, opts *OpenOptions, sealed bool) error {
	if opts.Residency == ResidencyRandom || !sealed {
		if err := m.AdviseRandom(); err != nil {
			return err
		}
	}
	progress := func(done, total int64) bool {
		if opts.Progress != nil {
			opts.Progress(done, total)
		}
		return true
	}
	switch opts.Residency {
	case ResidencyWillNeed:
		// The system's own advice of this name does no more than to read ahead once: 8 MiB
		// of a file of 400 MiB.
		go func() {
			m.Populate(!sealed, func(int64, int64) bool { return !o.released.Load() })
			runtime.KeepAlive(o) // until then it is mapped
		}()
	case ResidencyPopulate:
		return m.Populate(!sealed, progress)
	case ResidencyLock:
		if err := m.Populate(!sealed, progress); err != nil {
			return err
		}
		if err := m.Data.Lock(); err != nil {
			return fmt.Errorf("lock %d bytes in memory (does the limit of locked memory allow it?): %w", len(m.Data), err)
		}
	}
	return nil
}

// Close ends the use of the filter. Lookups that are under way finish, batches as a
// whole; later ones answer true, which is "maybe" (C1). The memory is given back at once, its
// addresses, and with them the hold on the file, at a garbage collection after
// the last lookup. Closing a second time does nothing.
//
// A filter that is open for writing commits first, and leaves one file that is
// complete, without a log. The error is that of the last commit, or that of
// [Filter.Err].
func (f *Filter) Close() error {
	o := f.open.Load()
	if f.closed.Swap(true) || o == nil {
		return nil
	}
	f.direct.Store(maybe)
	f.lastLen.Store(o.len()) // before Len needs them
	f.lastCap.Store(o.superblock.Capacity())
	f.open.Store(nil)
	var err error
	if o.live != nil {
		err = o.live.close()
	}
	f.lastLen.Store(o.len()) // operations may have been under way
	o.release()
	if err == nil {
		err = o.err()
	}
	return err
}

// release gives the memory of the file back. Unmapping waits for the lookups
// under way; the memory need not.
func (o *openFile) release() {
	o.released.Store(true)
	if o.mapping != nil {
		o.mapping.Release()
	}
	runtime.KeepAlive(o)
}

// Err gives the error that has ended writing to the filter, as [ErrFailed], or
// the first fault that a lookup of one opened with [OpenOptions.Checked] met, as
// a [*CorruptError], or [ErrNeedsRecovery] where it is served unrecovered, see
// [OpenOptions.ServeUnrecovered], or nil. After Close it is [ErrClosed].
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
		if err := o.live.writer.log.Err(); err != nil {
			return err
		}
	}
	if e := o.fault.Load(); e != nil {
		return e
	}
	if o.unrecovered {
		return about("open", o.path, ErrNeedsRecovery)
	}
	return nil
}

// Len gives the number of keys in the filter, equal ones counted each. Of a file that
// another process writes to, it is the number at the last checkpoint. After Close it is
// what it was when the filter was closed.
func (f *Filter) Len() uint64 {
	if o := f.open.Load(); o != nil {
		return o.len()
	}
	return f.lastLen.Load()
}

func (o *openFile) len() uint64 {
	if o.live != nil {
		return o.live.writer.length.Load()
	}
	return o.newest().Length()
}

// newest is the newest superblock of the file, or the one it was opened with
// where that cannot be read.
func (o *openFile) newest() *layout.Superblock {
	newest := o.superblock
	if o.mapping != nil {
		recovery.Guard(o.mapping.Data, func() {
			if _, sb, _, err := layout.Newest(slices.Clone(o.mapping.Data[:layout.OffRuntime])); err == nil {
				newest = sb
			}
		})
	}
	runtime.KeepAlive(o) // until then it is mapped
	return newest
}

// Cap gives the number of keys the filter was sized for, also after Close.
func (f *Filter) Cap() uint64 {
	if o := f.open.Load(); o != nil {
		return o.superblock.Capacity()
	}
	return f.lastCap.Load()
}

// Normalisation gives the note on how the keys were made that is kept in the
// file, see [Options.Normalisation]; none after Close.
func (f *Filter) Normalisation() string {
	if o := f.open.Load(); o != nil {
		return o.superblock.Normalisation()
	}
	return ""
}
