package mmapfilter

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync/atomic"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/recovery"
)

// A Filter is an open filter file. Any number of goroutines may use it.
type Filter struct {
	seed uint64 // of the hash; never changes

	// open is nil once the filter is closed. A lookup loads it once and works
	// on what it got; Close never takes memory away from such a lookup.
	open atomic.Pointer[openFile]
}

// An openFile is what a filter needs of its file to answer. Nothing in it
// changes, apart from fault.
type openFile struct {
	table      layout.Table
	view       layout.View
	checked    bool
	mapping    *recovery.Mapping // nil where the filter is a copy in the heap
	residency  Residency
	superblock *layout.Superblock
	geometry   layout.Geometry
	fileBytes  int64

	fault atomic.Pointer[CorruptError] // the first that a checked lookup met
}

// Open opens a filter for reading. It takes a constant time, whatever the size
// of the file, with every residency that does not read all of it.
//
// Errors are those of [OpenReadOnly].
func Open(path string, opts *OpenOptions) (*Filter, error) { return OpenReadOnly(path, opts) }

// OpenReadOnly opens a filter that it will never write to; the right to read
// the file is enough. Of the file it reads the superblocks, 16 KiB, and checks
// them; the rest is read by lookups, a page at a time, and checked by [Verify].
//
// The errors are [ErrCorrupt], [ErrVersion], [ErrNeedsRecovery] where a writer
// died, [ErrBusy] where the file changed while it was copied into the heap, an
// [*OptionError], and those of the file system (fs.ErrNotExist,
// fs.ErrPermission and so on), among them one for a path that is no regular
// file.
func OpenReadOnly(path string, opts *OpenOptions) (*Filter, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	if opts == nil {
		opts = new(OpenOptions)
	}
	f, head, err := recovery.OpenFile(path)
	if err != nil {
		return nil, about("open", path, err)
	}
	defer f.Close()
	o, err := openHead(f, head, opts)
	if err != nil {
		return nil, about("open", path, err)
	}
	filter := &Filter{seed: head.Superblock.Seed()}
	filter.open.Store(o)
	return filter, nil
}

func openHead(f *os.File, head *recovery.Head, opts *OpenOptions) (*openFile, error) {
	if head.Superblock.State() == layout.Live {
		return nil, ErrNeedsRecovery
	}
	o := &openFile{
		table:      layout.NewTable(head.Geometry),
		checked:    opts.Checked,
		residency:  opts.Residency,
		superblock: head.Superblock,
		geometry:   head.Geometry,
		fileBytes:  head.Size,
	}
	if opts.Residency == ResidencyHeap {
		words, err := recovery.ReadWords(f, head, opts.Progress)
		if err != nil {
			return nil, err
		}
		o.setView(words)
		return o, nil
	}
	m, err := recovery.Map(f, layout.OffRegion+head.Geometry.RegionBytes, false)
	if err != nil {
		return nil, err
	}
	if err := makeResident(m, f, opts, head.Superblock.State() == layout.Sealed); err != nil {
		if fault := new(recovery.FaultError); errors.As(err, &fault) {
			err = corruption(head.Geometry, fault)
		}
		return nil, errors.Join(err, m.Unmap())
	}
	o.mapping = m
	o.setView(recovery.Words(m.Data[layout.OffRuntime:]))
	// Not before the last lookup that may use the memory has let go of o.
	runtime.AddCleanup(o, func(m *recovery.Mapping) { m.Unmap() }, m)
	return o, nil
}

// setView cuts the words of a file from OffRuntime on into what lookups read.
func (o *openFile) setView(words []uint64) {
	o.view = layout.View{
		Stash:  words[layout.RuntimeBytes/8 : (layout.RuntimeBytes+layout.StashBytes)/8],
		Region: words[(layout.OffRegion-layout.OffRuntime)/8:],
	}
}

// makeResident does what the options ask for. A file that a writer may open is
// always mapped for random access: reading ahead fills the page cache with
// large pages, and every store of the writer would write back one of those.
func makeResident(m *recovery.Mapping, f *os.File, opts *OpenOptions, sealed bool) error {
	var through io.ReaderAt // nil, unless the mapping is random
	if opts.Residency == ResidencyRandom || !sealed {
		if err := m.AdviseRandom(); err != nil {
			return err
		}
		through = f
	}
	switch opts.Residency {
	case ResidencyWillNeed:
		return m.AdviseWillNeed()
	case ResidencyPopulate:
		return m.Populate(through, opts.Progress)
	case ResidencyLock:
		if err := m.Populate(through, opts.Progress); err != nil {
			return err
		}
		if err := m.Data.Lock(); err != nil {
			return fmt.Errorf("lock %d bytes in memory (does the limit of locked memory allow it?): %w", len(m.Data), err)
		}
	}
	return nil
}

// Close ends the use of the filter. Lookups that are under way finish, batches
// as a whole; later ones answer false. The memory is given back at once, its
// addresses, and with them the hold on the file, at a garbage collection after
// the last lookup. Closing a second time does nothing. The error is that of
// [Filter.Err].
func (f *Filter) Close() error {
	o := f.open.Swap(nil)
	if o == nil {
		return nil
	}
	if o.mapping != nil {
		// Unmapping waits for the lookups under way; the memory need not.
		o.mapping.Release()
	}
	return o.err()
}

// Err gives the first fault that a lookup of a filter opened with
// [OpenOptions.Checked] met, as a [*CorruptError], or nil. After Close it is
// [ErrClosed].
func (f *Filter) Err() error {
	o := f.open.Load()
	if o == nil {
		return ErrClosed
	}
	return o.err()
}

func (o *openFile) err() error {
	if e := o.fault.Load(); e != nil {
		return e
	}
	return nil
}

// Len gives the number of keys in the filter, equal ones counted each; 0 after
// Close.
func (f *Filter) Len() uint64 {
	if o := f.open.Load(); o != nil {
		return o.superblock.Length()
	}
	return 0
}

// Cap gives the number of keys the filter was sized for; 0 after Close.
func (f *Filter) Cap() uint64 {
	if o := f.open.Load(); o != nil {
		return o.superblock.Capacity()
	}
	return 0
}

// Normalisation gives the note on how the keys were made that is kept in the
// file, see [Options.Normalisation]; none after Close.
func (f *Filter) Normalisation() string {
	if o := f.open.Load(); o != nil {
		return o.superblock.Normalisation()
	}
	return ""
}
