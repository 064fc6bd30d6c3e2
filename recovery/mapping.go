package recovery

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"

	"github.com/edsrzf/mmap-go"
)

// A Mapping is a file, or its first bytes, in memory, shared with every other
// process that maps it.
type Mapping struct {
	Data mmap.MMap

	around mmap.MMap // Data and what is reserved before and behind it; nil where nothing is
}

// Map maps the first size bytes of f. The file must be that long: a load past
// its end is a fault.
func Map(f *os.File, size int64, writable bool) (*Mapping, error) {
	m, err := mapFile(f, size, writable)
	if err != nil {
		return nil, fmt.Errorf("map %s: %w", f.Name(), err)
	}
	return m, nil
}

// mapAnywhere is mapFile where the system finds the best place by itself.
func mapAnywhere(f *os.File, size int64, writable bool) (*Mapping, error) {
	prot := mmap.RDONLY
	if writable {
		prot = mmap.RDWR
	}
	data, err := mmap.MapRegion(f, int(size), prot, 0, 0)
	return &Mapping{Data: data}, err
}

// Unmap ends the mapping, if there is one. Any use of its memory afterwards is a
// fault.
func (m *Mapping) Unmap() error {
	switch {
	case m.around != nil:
		m.Data = nil
		return m.around.Unmap()
	case m.Data != nil:
		return m.Data.Unmap()
	}
	return nil
}

// A FaultError says that a load from a mapping, or a store, had nothing behind it: the
// file has been cut short, or its disk failed.
type FaultError struct {
	Offset int64 // in the mapping; -1 where that is the one of a log
}

func (e *FaultError) Error() string {
	if e.Offset < 0 {
		return "fault in the mapped log: it was cut short or its disk failed"
	}
	return fmt.Sprintf("fault at offset %d of the mapped file: it was cut short or its disk failed", e.Offset)
}

// Guard runs f, and turns a fault in memory that f touches into a
// [*FaultError]. data is the mapping that f works on. It works for the calling
// goroutine alone, not for others that f starts.
func Guard(data []byte, f func()) (fault *FaultError) {
	defer func(old bool) {
		debug.SetPanicOnFault(old)
		if r := recover(); r != nil {
			if fault = faultOf(r, data); fault == nil || fault.Offset < 0 {
				panic(r) // a bug, or memory of someone else
			}
		}
	}(debug.SetPanicOnFault(true))
	f()
	return nil
}

// faultOf makes an error of what recover gave; nil where that was no fault. (The
// use of a nil pointer is none.) mappings are those of the filter.
func faultOf(r any, mappings ...[]byte) *FaultError {
	var fault interface {
		runtime.Error
		Addr() uintptr
	}
	if err, ok := r.(error); !ok || !errors.As(err, &fault) {
		return nil
	}
	for _, data := range mappings {
		if offset := int64(fault.Addr()) - int64(address(data)); offset >= 0 && offset < int64(len(data)) {
			return &FaultError{offset}
		}
	}
	return &FaultError{-1}
}
