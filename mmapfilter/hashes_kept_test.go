package mmapfilter

import (
	"context"
	"errors"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mmapfilter/mmapfilter/recovery/osfile"
)

// TestHashesComeBack covers K2: a NAME.hashes that was away while the filter was written to lacks
// what was done, and does not count when it is back.
func TestHashesComeBack(t *testing.T) {
	f, path := mustCreate(t, &Options{Capacity: 5000, KeepHashes: true})
	mustInsert(t, f, 0, 1000)
	if err := errors.Join(f.Close(), os.Rename(path+".hashes", path+".away")); err != nil {
		t.Fatal(err)
	}
	f, err := Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	mustInsert(t, f, 1000, 1100)
	mustDelete(t, f, 0, 100) // as many items as before
	if err := errors.Join(f.Close(), os.Rename(path+".away", path+".hashes")); err != nil {
		t.Fatal(err)
	}
	if r, err := Verify(context.Background(), path); err != nil || !errors.Is(r.HashesErr, ErrNoHashes) {
		t.Errorf("Verify: %+v, %v", r, err)
	}
	if repaired, err := Repair(context.Background(), path, nil); repaired || err != nil {
		t.Errorf("Repair: %t, %v", repaired, err)
	}
	if err := Merge(context.Background(), path+".merged", nil, path); !errors.Is(err, ErrNoHashes) {
		t.Errorf("Merge: %v", err)
	}
	if f, err = Open(path, nil); err != nil {
		t.Fatal(err)
	}
	if err := f.Rebuild(context.Background(), nil); !errors.Is(err, ErrNoHashes) {
		t.Errorf("Rebuild: %v", err)
	}
	mustHave(t, f, 100, 1100)
}

// A countedContext is cancelled after some looks at it.
type countedContext struct {
	context.Context
	left atomic.Int64
}

func (c *countedContext) Err() error {
	if c.left.Add(-1) < 0 {
		return context.Canceled
	}
	return nil
}

// TestSealCancelledKeepsHashes: what is done after a Seal that was cut off is in the kept hashes.
func TestSealCancelledKeepsHashes(t *testing.T) {
	for n := range int64(8) {
		f, path := mustCreate(t, &Options{Capacity: 5000, KeepHashes: true})
		mustInsert(t, f, 0, 1000)
		ctx := &countedContext{Context: context.Background()}
		ctx.left.Store(n)
		sealed := f.Seal(ctx)
		mustInsert(t, f, 1000, 1100)
		mustDelete(t, f, 0, 100)
		if err := f.Rebuild(context.Background(), nil); err != nil {
			t.Errorf("after %v: %v", sealed, err)
		}
		mustHave(t, f, 100, 1100)
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		if r, err := Verify(context.Background(), path); err != nil || r.Hashes != 1000 {
			t.Errorf("after %v: %+v, %v", sealed, r, err)
		}
	}
}

// TestRebuildSparesAnotherFilter covers W9: a rebuild takes the place of no other filter that has got
// the name meanwhile.
func TestRebuildSparesAnotherFilter(t *testing.T) {
	for _, keys := range []bool{true, false} {
		a, path := mustCreate(t, &Options{Capacity: 5000, KeepHashes: true})
		mustInsert(t, a, 0, 1000)
		var b *Filter
		var once sync.Once
		opts := &RebuildOptions{Progress: func(stage string, _, _ uint64) {
			if stage != "check" {
				return
			}
			once.Do(func() {
				for _, suffix := range []string{"", ".hashes", ".stash"} {
					if err := os.Rename(path+suffix, path+".moved"+suffix); err != nil {
						t.Error(err)
					}
				}
				var err error
				if b, err = Create(path, &Options{Capacity: 1000}); err != nil {
					t.Error(err)
					return
				}
				mustInsert(t, b, 5000, 5500)
			})
		}}
		if keys {
			opts.Keys = func() (iter.Seq2[[]byte, error], error) { return numbers(0, 1000), nil }
		}
		if err := a.Rebuild(context.Background(), opts); !errors.Is(err, ErrReplaced) {
			t.Errorf("Rebuild: %v", err)
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		r, err := OpenReadOnly(path, nil)
		if err != nil {
			t.Fatal(err)
		}
		mustHave(t, r, 5000, 5500)
		r.Close()
	}
}

// TestProgressAsks: Progress may ask the filter about itself at every stage of a rebuild.
func TestProgressAsks(t *testing.T) {
	f, _ := mustCreate(t, &Options{Capacity: 5000, KeepHashes: true})
	mustInsert(t, f, 0, 1000)
	var once sync.Once
	err := f.Rebuild(context.Background(), &RebuildOptions{Progress: func(stage string, _, _ uint64) {
		if stage == "check" { // one is left to be done again
			once.Do(func() { mustInsert(t, f, 1000, 1001) })
		}
		f.Stats()
	}})
	if err != nil {
		t.Fatal(err)
	}
	mustHave(t, f, 0, 1001)
}

// TestOperationsWhileGrowing covers K3: an insert that waits for a growth counts once.
func TestOperationsWhileGrowing(t *testing.T) {
	f, path := mustCreate(t, &Options{Capacity: 500, AutoGrow: true})
	if err := f.SyncAt(1); err != nil {
		t.Fatal(err)
	}
	mustInsert(t, f, 0, 50_000)
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	g, err := Open(abandon(t, f, path), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	for _, f := range []*Filter{f, g} {
		if seq, n := f.DurableSeq(), f.DurableOps(); seq != 1 || n != 50_000 {
			t.Errorf("%d durable operations after 50,000 inserts, sequence %d", n, seq)
		}
	}
}

// TestExpireOddTimes covers K6: whatever times come, ExpireBefore deletes nothing that is younger.
func TestExpireOddTimes(t *testing.T) {
	f, path := mustCreate(t, &Options{Capacity: 1000, KeepHashes: true})
	var now uint64
	defer osfile.SetClock(func() uint64 { return now })()
	mustInsert(t, f, 0, 100) // by a clock that says 1970
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	if g, err := Open(abandon(t, f, path), nil); err != nil {
		t.Error(err)
	} else {
		mustHave(t, g, 0, 100)
		g.Close()
	}
	expire := func(before time.Time, want uint64) {
		t.Helper()
		if n, err := f.ExpireBefore(context.Background(), before); n != want || err != nil {
			t.Errorf("%d expired, not %d: %v", n, want, err)
		}
	}
	for _, year := range []int{-1, 1, 500, 1000, 1400, 1969} {
		expire(time.Date(year, 1, 2, 0, 0, 0, 0, time.UTC), 0)
	}
	expire(time.Time{}, 0)
	for _, now = range []uint64{2000e9, 1000e9} { // the clock is set back: the second commit is no earlier than the first
		mustInsert(t, f, 500, 501)
		if err := f.Sync(); err != nil {
			t.Fatal(err)
		}
	}
	expire(time.Unix(1500, 0), 100)
	expire(time.Unix(1500, 0), 0)
	mustHave(t, f, 500, 501)
	expire(time.Date(3000, 1, 1, 0, 0, 0, 0, time.UTC), 2)
}

// TestCreateTogether: of several filters that are made at one path at once, one is there in the end,
// with its hashes.
func TestCreateTogether(t *testing.T) {
	paths := 100
	if testing.Short() {
		paths = 20
	}
	dir := t.TempDir()
	for i := range paths {
		path := filepath.Join(dir, "f"+string('0'+rune(i%10))+string('0'+rune(i/10)))
		var group sync.WaitGroup
		var made atomic.Int64
		for range 4 {
			group.Add(1)
			go func() {
				defer group.Done()
				f, err := Create(path, &Options{Capacity: 100, KeepHashes: true})
				switch {
				case err == nil:
					made.Add(1)
					f.Close()
				case !errors.Is(err, fs.ErrExist) && !errors.Is(err, ErrLocked):
					t.Error(err)
				}
			}()
		}
		group.Wait()
		f, err := Open(path, &OpenOptions{RequireHashes: true})
		if err != nil || made.Load() != 1 {
			t.Fatalf("%d filters were made; %v", made.Load(), err)
		}
		f.Close()
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*.*")); len(left) != paths {
		t.Errorf("there are %d other files, and not one of hashes for each filter", len(left))
	}
}
