package mmapfilter

import (
	"bytes"
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/mmapfilter/mmapfilter/recovery/osfile"
)

// TestUnmapped: where files cannot be mapped, a file is opened as a copy in the heap. Calls that write,
// and files that do not fit in memory, are refused with errors.ErrUnsupported, and nothing is left
// behind.
func TestUnmapped(t *testing.T) {
	if osfile.Maps {
		t.Skip("files are mapped here")
	}
	image := "../testdata/compact-q41.mmf"
	dir := t.TempDir()
	path := filepath.Join(dir, "f.mmf")
	must(t, os.WriteFile(path, readFile(t, image), 0o600))
	ctx, other := context.Background(), filepath.Join(dir, "other.mmf")
	_, create := Create(other, &Options{Capacity: 10})
	_, build := Build(ctx, other, nil, numbers(0, 10))
	_, open := Open(path, nil)
	_, recover := Recover(path)
	_, repair := Repair(ctx, path, nil)
	for i, err := range []error{create, build, open, recover, repair} {
		if !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%d: %v", i, err)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 || !bytes.Equal(readFile(t, path), readFile(t, image)) {
		t.Errorf("%v, %v", left, err)
	}
	f := mustOpenReadOnly(t, path, nil)
	if s := f.Stats(); s.Residency != "heap" || s.Len != 564 {
		t.Errorf("%+v", s)
	}
	if err := f.Insert(nil); !errors.Is(err, ErrReadOnly) {
		t.Error(err)
	}
	if err := osfile.Fits(math.MaxInt32 + 1); !errors.Is(err, errors.ErrUnsupported) {
		t.Error(err)
	}
	if _, err := VerifyReaderAt(ctx, bytes.NewReader(nil), 1<<40); !errors.Is(err, errors.ErrUnsupported) {
		t.Error(err)
	}
}
