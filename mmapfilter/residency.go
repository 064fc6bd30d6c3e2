package mmapfilter

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"github.com/mmapfilter/mmapfilter/recovery"
)

// memoryLimit is replaced by tests.
var memoryLimit = recovery.MemoryLimit

// crowdsOut reports whether a mapping does not fit in memory with some room for the rest of the process.
// Read-ahead would then drop pages that are needed for ones that are not.
func crowdsOut(m *recovery.Mapping) bool {
	const small, room = 16 << 20, 8 // bytes that fit anywhere; one part in room
	size := int64(len(m.Data))
	return size > small && size+size/room > memoryLimit()
}

// makeResident applies the Residency. A file that a writer may open is always mapped for random
// access: read-ahead fills the page cache with large pages, and each store would write a whole
// one back. Any other is in large pages, if it is to be in memory.
func (o *openFile) makeResident(m *recovery.Mapping, opts *OpenOptions, sealed bool) error {
	o.progress = opts.Progress
	o.small = opts.Residency == ResidencyRandom || !sealed || opts.Residency == ResidencyDefault && crowdsOut(m)
	if !o.small {
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
			m.Populate(o.small, func(int64, int64) bool { return !o.released.Load() })
			runtime.KeepAlive(o) // keeps it mapped until here
		}()
	case ResidencyPopulate:
		return m.Populate(o.small, progress)
	case ResidencyLock:
		if err := m.Populate(o.small, progress); err != nil {
			return err
		}
		if err := m.Data.Lock(); err != nil {
			return fmt.Errorf("lock %d bytes in memory (see ulimit -l for the limit): %w", len(m.Data), err)
		}
	}
	return nil
}

// Warm reads the whole file into memory and into the page table of this process, as far as it is not
// there, and returns when no lookup has to wait for the disk. Lookups go on meanwhile. It is for
// readiness probes; [OpenOptions.Progress] is called with the progress. A file that is larger than the
// memory does not stay there.
//
// The errors are that of the context, [ErrClosed], and [ErrCorrupt] if the file cannot be read.
func (f *Filter) Warm(ctx context.Context) error {
	o := f.open.Load()
	if o == nil {
		return f.Err()
	}
	if o.mapping == nil { // ResidencyHeap
		return ctx.Err()
	}
	err := o.mapping.Populate(o.small, func(done, total int64) bool {
		if o.progress != nil {
			o.progress(done, total)
		}
		return ctx.Err() == nil && !o.released.Load()
	})
	fault := new(recovery.FaultError)
	switch {
	case errors.As(err, &fault):
		err = about("read", o.path, corruption(o.geometry, fault))
	case err == nil && o.released.Load():
		err = ErrClosed
	case err == nil:
		err = ctx.Err()
	}
	runtime.KeepAlive(o) // keeps it mapped until here
	return err
}

// Warm is [Filter.Warm] of the file in use.
func (f *Follower) Warm(ctx context.Context) error { return f.filter.Load().Warm(ctx) }

// Warm opens all shards, and is [Filter.Warm] for each. It goes on after an error, and returns the
// first, as a [*ShardError].
func (s *Set) Warm(ctx context.Context) error {
	first := s.OpenAll()
	st := s.state.Load()
	if st == nil {
		return s.Err()
	}
	for _, sh := range st.shards {
		if f := sh.opened(); f != nil {
			if err := f.Warm(ctx); err != nil && first == nil {
				first = &ShardError{sh.number, sh.path, err}
			}
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return first
}
