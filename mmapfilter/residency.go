package mmapfilter

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/build"
	"github.com/mmapfilter/mmapfilter/recovery/osfile"
)

// memoryLimit is replaced by tests.
var memoryLimit = osfile.MemoryLimit

// crowdsOut reports whether a mapping does not fit in memory with some room for the rest of the
// process. If it does not fit, read-ahead would drop pages that are needed, to make room
// for pages that are not.
func crowdsOut(m *osfile.Mapping) bool {
	const small, room = 16 << 20, 8 // bytes that fit anywhere; 1/room of the size is left for the process
	size := int64(len(m.Data))
	return size > small && size+size/room > memoryLimit()
}

// makeResident applies the Residency. A file that is open for writing or not sealed is always mapped for
// random access: read-ahead fills the page cache with large pages, and each store would write a whole
// large page back. A sealed file is mapped in large pages, except with ResidencyRandom, and with
// ResidencyDefault if it does not fit in memory.
func (o *openFile) makeResident(m *osfile.Mapping, f *os.File, opts *OpenOptions, sealed bool) error {
	o.progress = opts.Progress
	small := opts.Residency == ResidencyRandom || !sealed || opts.Residency == ResidencyDefault && crowdsOut(m)
	if o.small.Store(small); !small {
		m.ForgetHead(f)
		m.AdviseLarge()
	} else if err := m.AdviseRandom(); err != nil {
		return err
	}
	switch background := context.Background(); opts.Residency {
	case ResidencyWillNeed:
		// The system's WILLNEED advice reads only a small part of a large file.
		go o.populate(background, m, nil)
	case ResidencyPopulate:
		return o.populate(background, m, opts.Progress)
	case ResidencyLock:
		if err := o.populate(background, m, opts.Progress); err != nil {
			return err
		}
		if err := m.Data.Lock(); err != nil {
			return fmt.Errorf("lock %d bytes in memory (see ulimit -l for the limit): %w", len(m.Data), err)
		}
	}
	return nil
}

// populate calls Populate, and stops it when ctx ends or the file is released. After a release it gives
// the memory of the mapping back. progress may be nil.
func (o *openFile) populate(ctx context.Context, m *osfile.Mapping, progress func(done, total int64)) error {
	err := m.Populate(o.small.Load(), func(done, total int64) bool {
		if progress != nil {
			progress(done, total)
		}
		return ctx.Err() == nil && !o.released.Load()
	})
	if o.released.Load() {
		m.Release()
	}
	runtime.KeepAlive(o) // keeps the file mapped until here
	return err
}

// heedWriter makes lookups read small pages from now on, if the file was sealed when it was opened
// and no longer is (R4).
func (o *openFile) heedWriter() {
	if o.mapping != nil && !o.small.Load() && o.newest().State() != layout.Sealed {
		o.mapping.AdviseSmall()
		o.small.Store(true)
	}
	runtime.KeepAlive(o) // keeps the file mapped until here
}

// Warm reads the whole file into memory and enters it into the page table of this process. When Warm
// returns, no lookup has to wait for the disk. Lookups go on meanwhile. If another file comes into use
// meanwhile, Warm goes on with that one. Use Warm in readiness probes; [OpenOptions.Progress] is called
// with the progress. A file that is larger than the memory does not stay in memory.
//
// The errors are the cause of a cancelled context; errors.ErrUnsupported for a filter from
// [OpenReaderAt], which keeps nothing; [ErrClosed], also for the filter of a file that a [Follower] no
// longer uses; and [ErrCorrupt] if the file cannot be read.
func (f *Filter) Warm(ctx context.Context) error {
	for {
		o := f.open.Load()
		if o == nil {
			return f.Err()
		}
		if err := o.warm(ctx); f.open.Load() == o { // neither closed nor rebuilt
			return err
		}
	}
}

func (o *openFile) warm(ctx context.Context) error {
	if o.lines != nil {
		return about("warm", o.path, errors.ErrUnsupported) // nothing is kept
	}
	if err := context.Cause(ctx); err != nil || o.mapping == nil { // ResidencyHeap, or OpenBytes
		return err
	}
	if o.released.Load() {
		return ErrClosed
	}
	if o.heedWriter(); o.work != nil {
		o.work.Writer.DropLargePages() // a commit would drop what Warm has read
	}
	err := o.populate(ctx, o.mapping, o.progress)
	fault := new(osfile.FaultError)
	switch {
	case errors.As(err, &fault):
		return about("read", o.path, build.Damage(o.geometry, fault))
	case err == nil && o.released.Load():
		return ErrClosed
	case err == nil:
		return context.Cause(ctx)
	}
	return err
}

// Warm is [Filter.Warm] for the file in use. While the follower waits for a file (see
// [OpenOptions.WaitForFile]), the error is fs.ErrNotExist.
func (f *Follower) Warm(ctx context.Context) error {
	for {
		filter := f.filter.Load()
		if err := filter.Warm(ctx); f.filter.Load() == filter {
			return err
		}
	}
}
