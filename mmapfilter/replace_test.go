package mmapfilter

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// TestBuildThroughLink replaces a file through a symbolic link in another directory: Build
// replaces the target of the link, and leaves nothing beside either.
func TestBuildThroughLink(t *testing.T) {
	_, path := mustBuild(t, nil, numbers(0, 10))
	link := filepath.Join(t.TempDir(), "link.mmf")
	if err := os.Symlink(path, link); err != nil {
		t.Skipf("NOT TESTED: %v", err)
	}
	f, err := Build(context.Background(), link, nil, numbers(0, 500))
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	if f, err = OpenReadOnly(path, nil); err != nil || f.Len() != 500 {
		t.Fatalf("%v, %v", f, err)
	}
	f.Close()
	for _, dir := range []string{filepath.Dir(link), filepath.Dir(path)} {
		if list, _ := os.ReadDir(dir); len(list) != 1 {
			t.Errorf("%s has %v", dir, list)
		}
	}
	if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link is %v, %v", info, err)
	}
}

// TestBuildOverDeadWriter: the readers of a file whose writer died are served while another one
// is built; a failed build leaves what they need.
func TestBuildOverDeadWriter(t *testing.T) {
	f, path := mustCreate(t, &Options{Capacity: 1000})
	insertAll(t, f, hashes(8, 100))
	dead := abandon(t, f, path)
	stop := errors.New("stop")
	_, err := Build(context.Background(), dead, nil, func(yield func([]byte, error) bool) {
		r, err := OpenReadOnly(dead, nil)
		if err != nil {
			t.Error(err)
		} else {
			mustContain(t, r, hashes(8, 100))
			r.Close()
		}
		yield(nil, stop)
	})
	if !errors.Is(err, stop) {
		t.Fatal(err)
	}
	if list, _ := filepath.Glob(dead + "*"); len(list) != 1 {
		t.Errorf("left %v", list)
	}
	r, err := OpenReadOnly(dead, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	mustContain(t, r, hashes(8, 100))
}

// TestMovedFileKeepsOthersLog covers W9: a writer whose file was moved does not touch the log of
// the file that now has the name.
func TestMovedFileKeepsOthersLog(t *testing.T) {
	a, path := mustCreate(t, &Options{Capacity: 1000})
	insertAll(t, a, hashes(9, 100))
	if err := a.Sync(); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path, path+".moved"); err != nil {
		t.Fatal(err)
	}
	b, err := Create(path, &Options{Capacity: 1000})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	insertAll(t, b, hashes(10, 100))
	if err := b.Sync(); err != nil {
		t.Fatal(err)
	}
	if err := a.Close(); !errors.Is(err, ErrReplaced) {
		t.Errorf("closing the one that was moved: %v", err)
	}
	r, err := Open(abandon(t, b, path), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	mustContain(t, r, hashes(10, 100))
}

// TestMovedFileBeginsNoLog covers W9 for a writer that begins a log after its file was moved: it
// would remove, and then replace, the log of the file that now has the name.
func TestMovedFileBeginsNoLog(t *testing.T) {
	for name, c := range map[string]struct {
		live bool
		do   func(*Filter) error
	}{
		"the first operation": {false, func(f *Filter) error { return f.InsertHash(1) }},
		"a checkpoint":        {true, func(f *Filter) error { return f.Checkpoint(context.Background()) }},
		"a larger log": {true, func(f *Filter) error {
			w := f.open.Load().work.Writer
			defer w.LockAll()()
			return w.Protocol().GrowLog(1 << 24)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			a, path := mustCreate(t, &Options{Capacity: 1000})
			if c.live {
				insertAll(t, a, hashes(9, 100))
				if err := a.Sync(); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.Rename(path, path+".moved"); err != nil {
				t.Fatal(err)
			}
			b, err := Create(path, &Options{Capacity: 1000})
			if err != nil {
				t.Fatal(err)
			}
			defer b.Close()
			insertAll(t, b, hashes(10, 100))
			if err := c.do(a); !errors.Is(err, ErrReplaced) || !errors.Is(err, ErrFailed) {
				t.Errorf("the one that was moved: %v", err)
			}
			insertAll(t, b, hashes(11, 100))
			r, err := Open(abandon(t, b, path), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			mustContain(t, r, hashes(10, 100))
			mustContain(t, r, hashes(11, 100))
		})
	}
}

// TestOpenBesideBeginningWriter: a reader that reads the superblock before a writer begins, and
// checks for the log afterwards, opens the file.
func TestOpenBesideBeginningWriter(t *testing.T) {
	f, path := mustCreate(t, &Options{Capacity: 1000})
	f.Close()
	stop := make(chan struct{})
	done := make(chan error)
	go func() {
		for {
			select {
			case <-stop:
				done <- nil
				return
			default:
			}
			w, err := Open(path, nil)
			if err == nil {
				err = errors.Join(w.InsertHash(1), w.Close())
			}
			if err != nil && !errors.Is(err, ErrLocked) {
				done <- err
				return
			}
		}
	}()
	for range 2000 {
		r, err := OpenReadOnly(path, nil)
		if errors.Is(err, ErrCorrupt) {
			t.Error(err)
			break
		}
		if err == nil {
			r.Close()
		}
	}
	close(stop)
	if err := <-done; err != nil {
		t.Error(err)
	}
}
