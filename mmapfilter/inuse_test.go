package mmapfilter

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/mmapfilter/mmapfilter/recovery/osfile"
)

// TestInUse: where a mapped file cannot be replaced, calls that would replace it fail with ErrInUse and
// change nothing. They succeed once the file is closed.
func TestInUse(t *testing.T) {
	if osfile.Replaces {
		t.Skip("a mapped file can be replaced here")
	}
	replacements := replacements(t)
	replacements["snapshot"] = func(path string) error {
		f, _ := mustBuild(t, nil, numbers(0, 800))
		defer f.Close()
		_, err := f.Snapshot(context.Background(), path)
		return err
	}
	for name, replace := range replacements {
		t.Run(name, func(t *testing.T) {
			_, path := mustBuild(t, &Options{KeepHashes: true}, numbers(0, 800))
			before := readFile(t, path)
			r := mustOpenReadOnly(t, path, nil)
			err := replace(path)
			if !errors.Is(err, ErrInUse) || errors.Is(err, fs.ErrPermission) || errors.As(err, new(*CompleteError)) {
				t.Errorf("while it is mapped: %v", err)
			}
			mustListed(t, filepath.Dir(path), "filter.mmf", "filter.mmf.hashes")
			if !bytes.Equal(readFile(t, path), before) || r.Err() != nil {
				t.Errorf("the file has changed: %v", r.Err())
			}
			mustHave(t, r, 0, 800)
			must(t, r.Close())
			must(t, replace(path))
			mustHave(t, mustOpenReadOnly(t, path, nil), 0, 800)
		})
	}
}

// TestNoWriters: where no file can be opened for writing, each call that needs this fails with
// errors.ErrUnsupported, and leaves nothing behind.
func TestNoWriters(t *testing.T) {
	if osfile.CanWrite() == nil {
		t.Skip("files can be opened for writing here")
	}
	dir := t.TempDir()
	path, other := filepath.Join(dir, "f.mmf"), filepath.Join(dir, "other.mmf")
	image := readFile(t, "../testdata/compact-q41.mmf")
	must(t, os.WriteFile(path, image, 0o600))
	o := &Options{Capacity: 10}
	_, create := Create(other, o)
	_, orCreate := OpenOrCreate(other, o, nil)
	_, open := Open(path, nil)
	_, recover := Recover(path)
	_, discard := DiscardLog(path)
	_, repair := Repair(context.Background(), path, nil)
	for i, err := range []error{create, orCreate, open, recover, discard, repair} {
		if !errors.Is(err, errors.ErrUnsupported) || errors.As(err, new(*CompleteError)) {
			t.Errorf("%d: %v", i, err)
		}
	}
	mustListed(t, dir, "f.mmf")
	if !bytes.Equal(readFile(t, path), image) {
		t.Error("the file has changed")
	}
}
