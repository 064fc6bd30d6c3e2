package pebbleguard

import (
	"context"
	"errors"
	"flag"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/mmapfilter/mmapfilter/mmapfilter/guard"
)

var fileRounds = flag.Int("filerounds", 1, "rounds of TestFiles")

const fileKeys = 1000

func fileOptions(deletes guard.DeleteMode) *guard.Options {
	return &guard.Options{Capacity: 2 * fileKeys, Deletes: deletes, CommitInterval: 2 * time.Millisecond}
}

// churn deletes and sets keys from many goroutines.
func churn(t *testing.T, d *DB, seed uint64) {
	var group sync.WaitGroup
	for w := range 4 {
		group.Add(1)
		go func() {
			defer group.Done()
			rng := rand.New(rand.NewPCG(seed, uint64(w)))
			for range 300 {
				b := d.NewBatch()
				for range 4 {
					k := number(rng.IntN(fileKeys))
					err := error(nil)
					if rng.IntN(2) == 0 {
						err = b.Set(k, nil, nil)
					} else {
						err = b.Delete(k, nil)
					}
					if err != nil {
						t.Error(err)
					}
				}
				if err := b.Commit(pebble.NoSync); err != nil {
					t.Error(err)
				}
				b.Close()
			}
		}()
	}
	group.Wait()
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	data, err := os.ReadFile(from)
	must(t, err)
	must(t, os.WriteFile(to, data, 0o600))
}

// copyStore copies a store without its filter.
func copyStore(t *testing.T, from, to string) {
	t.Helper()
	must(t, tryCopyStore(t, from, to))
}

// tryCopyStore is copyStore of an open store, whose files may go meanwhile: the error is fs.ErrNotExist
// then.
func tryCopyStore(t *testing.T, from, to string) error {
	t.Helper()
	err := filepath.WalkDir(from, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() || e.Name() == FilterName {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(from, path)
		must(t, err)
		must(t, os.MkdirAll(filepath.Dir(filepath.Join(to, name)), 0o700))
		return os.WriteFile(filepath.Join(to, name), data, 0o600)
	})
	if !errors.Is(err, fs.ErrNotExist) {
		must(t, err)
	}
	return err
}

// fileCases change the filter or the store of a closed store. Before, early was called with the store
// open, and between with it closed, and more was written.
var fileCases = []struct {
	name    string
	rebuilt bool // whatever comes, the filter is rebuilt
	do      func(t *testing.T, f *files)
}{
	{"untouched", false, func(t *testing.T, f *files) {}},
	{"missing", true, func(t *testing.T, f *files) { must(t, os.Remove(f.filter())) }},
	{"empty", true, func(t *testing.T, f *files) { must(t, os.WriteFile(f.filter(), nil, 0o600)) }},
	{"text", true, func(t *testing.T, f *files) { must(t, os.WriteFile(f.filter(), []byte("text"), 0o600)) }},
	{"cut", true, func(t *testing.T, f *files) {
		s, err := os.Stat(f.filter())
		must(t, err)
		must(t, os.Truncate(f.filter(), f.rng.Int64N(s.Size())/4096*4096))
	}},
	{"damaged", false, func(t *testing.T, f *files) {
		data, err := os.ReadFile(f.filter())
		must(t, err)
		for range 1 + f.rng.IntN(50) {
			data[f.rng.IntN(len(data))] ^= byte(1 + f.rng.IntN(255))
		}
		must(t, os.WriteFile(f.filter(), data, 0o600))
	}},
	{"zeroed", true, func(t *testing.T, f *files) {
		s, err := os.Stat(f.filter())
		must(t, err)
		must(t, os.WriteFile(f.filter(), make([]byte, s.Size()), 0o600))
	}},
	{"of another store", true, func(t *testing.T, f *files) {
		other := t.TempDir()
		d := mustOpen(t, other, newest(), fileOptions(f.deletes))
		must(t, d.Set(key("other"), nil, nil))
		must(t, d.Close())
		copyFile(t, filepath.Join(other, FilterName), f.filter())
	}},
	{"older, of a closed store", false, func(t *testing.T, f *files) { copyFile(t, f.closed+".f", f.filter()) }},
	{"older, of a live store", false, func(t *testing.T, f *files) { copyFile(t, f.live, f.filter()) }},
	{"of an older store", false, func(t *testing.T, f *files) {
		must(t, os.Rename(f.filter(), f.closed+".new"))
		must(t, os.RemoveAll(f.dir))
		copyStore(t, f.closed, f.dir)
		must(t, os.Rename(f.closed+".new", f.filter()))
	}},
	{"of a checkpoint", false, func(t *testing.T, f *files) {
		must(t, os.Rename(f.filter(), f.closed+".new"))
		must(t, os.RemoveAll(f.dir))
		copyStore(t, f.checkpoint, f.dir)
		must(t, os.Rename(f.closed+".new", f.filter()))
	}},
	{"of a checkpoint, both", false, func(t *testing.T, f *files) {
		must(t, os.RemoveAll(f.dir))
		copyStore(t, f.checkpoint, f.dir)
		copyFile(t, f.live, f.filter())
	}},
}

type files struct {
	rng                           *rand.Rand
	deletes                       guard.DeleteMode
	dir, closed, live, checkpoint string
}

func (f *files) filter() string { return filepath.Join(f.dir, FilterName) }

// newFiles makes a store with a history.
func newFiles(t *testing.T, deletes guard.DeleteMode, rng *rand.Rand) *files {
	base := t.TempDir()
	f := &files{rng, deletes, filepath.Join(base, "store"), filepath.Join(base, "closed"), filepath.Join(base, "live"), filepath.Join(base, "checkpoint")}
	d := mustOpen(t, f.dir, newest(), fileOptions(deletes))
	churn(t, d, rng.Uint64())
	must(t, d.Close())
	copyStore(t, f.dir, f.closed)
	copyFile(t, f.filter(), f.closed+".f")
	d = mustOpen(t, f.dir, newest(), fileOptions(deletes))
	if rng.IntN(2) == 0 {
		churn(t, d, rng.Uint64())
	}
	ended := make(chan struct{})
	go func() { churn(t, d, rng.Uint64()); close(ended) }()
	copyFile(t, f.filter(), f.live)
	must(t, d.Checkpoint(f.checkpoint))
	<-ended
	must(t, d.Close())
	return f
}

// TestFiles opens stores with filters that are not theirs, not now, or not whole: no key is hidden.
func TestFiles(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for i, c := range fileCases {
		for _, deletes := range bothModes {
			t.Run(c.name+"/"+deletes.String(), func(t *testing.T) {
				for round := range *fileRounds {
					f := newFiles(t, deletes, rand.New(rand.NewPCG(seed, uint64(round*len(fileCases)+i))))
					c.do(t, f)
					f.readOnly(t)
					d := mustOpen(t, f.dir, newest(), fileOptions(deletes))
					s := d.GuardStats()
					built := s.Err != "" || s.Rebuilds > 0
					if c.rebuilt && !built {
						t.Errorf("the filter is as it was: %+v", s)
					}
					if c.name == "untouched" && s.Err != "" {
						t.Errorf("%+v", s)
					}
					keys, err := hidden(d)
					must(t, err)
					churn(t, d, uint64(round))
					_, err = hidden(d)
					must(t, err)
					wait(t, "the filter serves", func() bool {
						s := d.GuardStats()
						return s.State == "serving" && (!built || s.Rebuilds > 0)
					})
					_, err = hidden(d)
					must(t, err)
					must(t, d.Guard().Rebuild(context.Background()))
					_, err = hidden(d)
					must(t, err)
					must(t, d.Close())
					d = mustOpen(t, f.dir, newest(), fileOptions(deletes))
					if s := d.GuardStats(); s.State != "serving" || s.Err != "" {
						t.Errorf("opened again: %+v", s)
					}
					_, err = hidden(d)
					must(t, err)
					must(t, d.Close())
					t.Logf("%d keys; rebuilt: %t", keys, built)
				}
			})
		}
	}
}

// readOnly opens a copy of the store and its filter for reading.
func (f *files) readOnly(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "copy")
	copyStore(t, f.dir, dir)
	if _, err := os.Stat(f.filter()); err == nil {
		copyFile(t, f.filter(), filepath.Join(dir, FilterName))
	}
	o := newest()
	o.ReadOnly = true
	d := mustOpen(t, dir, o, fileOptions(f.deletes))
	if _, err := hidden(d); err != nil {
		t.Errorf("read only: %v", err)
	}
	must(t, d.Close())
}

// wait waits for something.
func wait(t *testing.T, what string, is func() bool) {
	t.Helper()
	for begun := time.Now(); !is(); time.Sleep(time.Millisecond) {
		if time.Since(begun) > 2*time.Minute {
			t.Fatal("waited too long: " + what)
		}
	}
}
