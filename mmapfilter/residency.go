package mmapfilter

import (
	"fmt"
	"os"
	"runtime"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/recovery/osfile"
)

// memoryLimit is replaced by tests.
var memoryLimit = osfile.MemoryLimit

// crowdsOut reports whether a mapping does not fit in memory with some room for the rest of the
// process. Read-ahead would then drop pages that are needed for ones that are not.
func crowdsOut(m *osfile.Mapping) bool {
	const small, room = 16 << 20, 8 // bytes that fit anywhere; one part in room
	size := int64(len(m.Data))
	return size > small && size+size/room > memoryLimit()
}

// makeResident applies the Residency. A file that a writer may open is always mapped for random
// access: read-ahead fills the page cache with large pages, and each store would write a whole
// one back. Any other is in large pages, if it is to be in memory.
func (o *openFile) makeResident(m *osfile.Mapping, f *os.File, opts *OpenOptions, sealed bool) error {
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

// populate is Populate until the file is released. Then it gives back what it has read since.
func (o *openFile) populate(m *osfile.Mapping, more func(done, total int64) bool) error {
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
