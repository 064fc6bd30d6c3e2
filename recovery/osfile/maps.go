package osfile

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"

	"github.com/mmapfilter/mmapfilter/recovery"
)

// Maps reports whether files are mapped. WebAssembly has no mappings. On 32-bit machines, an int
// cannot hold the length of a large mapping, and some lack atomic words of 64 bits, which the counters
// of a writer need. Where files are not mapped, they are read into memory, and cannot be written to.
const Maps = math.MaxInt > math.MaxInt32 && runtime.GOARCH != "wasm"

// canMake returns errors.ErrUnsupported on systems where no files can be created.
func canMake() error {
	if !Maps {
		return fmt.Errorf("writing on %s/%s: %w", runtime.GOOS, runtime.GOARCH, errors.ErrUnsupported)
	}
	return nil
}

// CanWrite returns errors.ErrUnsupported on systems where no file can be opened for writing.
func CanWrite() error {
	if err := canMake(); err != nil || !noWriters {
		return err
	}
	return fmt.Errorf("writing on %s: %w", runtime.GOOS, errors.ErrUnsupported)
}

// noWriters is set on systems where a mapping may show other bytes than read and write (OpenBSD)
// or where a mapped file cannot be renamed (Windows).
const noWriters = runtime.GOOS == "openbsd" || runtime.GOOS == "windows"

// Replaces reports whether a file can be replaced while it is mapped.
const Replaces = runtime.GOOS != "windows"

// mostInMemory is how many bytes a slice can have where files are not mapped.
const mostInMemory = math.MaxInt32

// Fits returns errors.ErrUnsupported if so many bytes cannot be read into memory.
func Fits(bytes int64) error {
	if !Maps && bytes > mostInMemory {
		return fmt.Errorf("%d bytes, but this system can read at most %d: %w", bytes, mostInMemory, errors.ErrUnsupported)
	}
	return nil
}

// Bytes maps the first size bytes of a file that nobody changes, or reads them where files are not
// mapped. Call release at the end.
func Bytes(f *os.File, size int64) (data []byte, release func() error, err error) {
	if Maps {
		m, err := Map(f, size, false)
		if err != nil {
			return nil, nil, err
		}
		return m.Data, m.Unmap, nil
	}
	if err := Fits(size); err != nil {
		return nil, nil, err
	}
	data = recovery.Bytes(make([]uint64, (size+7)/8))[:size]
	if _, err := io.ReadFull(io.NewSectionReader(f, 0, size), data); err != nil {
		return nil, nil, readError(f, 0, err)
	}
	return data, func() error { return nil }, nil
}
