//go:build !linux

package osfile

import (
	"context"
	"os"
)

func allocate(_ context.Context, f *os.File, size int64) error { return writeZeros(f, size, zeroStep) }

// allocateAgain extends a file with content to size. Holes stay, since the system does not
// say where they are.
func allocateAgain(f *os.File, size int64) error {
	info, err := f.Stat()
	if err != nil || info.Size() >= size {
		return err
	}
	return rewrite(f, size)
}
