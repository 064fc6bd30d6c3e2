package osfile

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"

	"github.com/edsrzf/mmap-go"
	"github.com/mmapfilter/mmapfilter/recovery"
)

// A Mapping is a file, or its first bytes, in memory shared with every other process that
// maps the file.
type Mapping struct {
	Data mmap.MMap

	around mmap.MMap // Data and the addresses reserved around it, or nil
}

// Map maps the first size bytes of f. The file must be that long, since a load past its
// end is a fault.
func Map(f *os.File, size int64, writable bool) (*Mapping, error) {
	m, err := mapFile(f, size, writable)
	if err != nil {
		return nil, fmt.Errorf("map %s: %w", f.Name(), err)
	}
	return m, nil
}

// mapAnywhere maps a file at an address that the system chooses.
func mapAnywhere(f *os.File, size int64, writable bool) (*Mapping, error) {
	prot := mmap.RDONLY
	if writable {
		prot = mmap.RDWR
	}
	data, err := mmap.MapRegion(f, int(size), prot, 0, 0)
	return &Mapping{Data: data}, err
}

// Unmap removes the mapping, if there is one. Any later use of its memory is a fault.
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

// A FaultError is a load or store in a mapping that failed: the file was cut short, or
// its disk failed.
type FaultError struct {
	Offset int64 // in the mapping of the filter; -1 for a fault in the log
}

func (e *FaultError) Error() string {
	if e.Offset < 0 {
		return "fault in the mapped log: it was cut short or its disk failed"
	}
	return fmt.Sprintf("fault at offset %d of the mapped file: it was cut short or its disk failed", e.Offset)
}

// Catch runs f and returns a fault in data, the mapping that f works on, as a
// [*FaultError]. It covers only the calling goroutine, not goroutines that f starts.
func Catch(data []byte, f func()) (fault *FaultError) {
	defer func(old bool) {
		debug.SetPanicOnFault(old)
		if r := recover(); r != nil {
			if fault = faultOf(r, data); fault == nil || fault.Offset < 0 {
				panic(r) // a bug, or a fault in other memory
			}
		}
	}(debug.SetPanicOnFault(true))
	f()
	return nil
}

// catch is Files.Catch for some mappings.
func catch(f func(), failed func(error), mappings ...[]byte) (fault *FaultError) {
	defer func(old bool) {
		debug.SetPanicOnFault(old)
		if r := recover(); r != nil {
			fault = faultOf(r, mappings...)
			if fault == nil {
				failed(fmt.Errorf("panic: %v", r))
				panic(r)
			}
			failed(fault)
		}
	}(debug.SetPanicOnFault(true))
	f()
	return nil
}

// faultOf returns the error for a recovered value, or nil if the value is not a memory
// fault. (Dereferencing nil is not a memory fault.) mappings are the mappings of the
// filter.
func faultOf(r any, mappings ...[]byte) *FaultError {
	var fault interface {
		runtime.Error
		Addr() uintptr
	}
	if err, ok := r.(error); !ok || !errors.As(err, &fault) {
		return nil
	}
	for _, data := range mappings {
		if offset := int64(fault.Addr()) - int64(recovery.Address(data)); offset >= 0 && offset < int64(len(data)) {
			return &FaultError{offset}
		}
	}
	return &FaultError{-1}
}
