package mmapfilter

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/rebuild"
	"github.com/mmapfilter/mmapfilter/recovery"
	"github.com/mmapfilter/mmapfilter/recovery/osfile"
)

// mustBeShort checks that NAME.hashes is not longer than K5 says.
func mustBeShort(tb testing.TB, path string, items uint64) {
	tb.Helper()
	need := int64(items/recovery.ItemsInPage+4) * 4096
	if size := sizeOf(tb, path+".hashes"); size > 3*need+1<<20 {
		tb.Fatalf("%d bytes of hashes for %d items", size, items)
	}
}

// createGrowing makes a filter in memory that grows: with many openings, the syncs of a disk take long.
func createGrowing(tb testing.TB, capacity uint64) (f *Filter, path string) {
	tb.Helper()
	path = filepath.Join(memoryDir(tb), "filter.mmf")
	f, err := Create(path, &Options{Capacity: capacity, AutoGrow: true, CommitInterval: -1})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { f.Close() })
	return f, path
}

func sizeOf(tb testing.TB, path string) int64 {
	tb.Helper()
	info, err := os.Stat(path)
	if err != nil {
		tb.Fatal(err)
	}
	return info.Size()
}

// opened opens the filter at path, has do use it, and closes it.
func opened(tb testing.TB, path string, do func(f *Filter)) {
	tb.Helper()
	f, err := Open(path, &OpenOptions{CommitInterval: -1})
	if err != nil {
		tb.Fatal(err)
	}
	do(f)
	if err := f.Close(); err != nil {
		tb.Fatal(err)
	}
}

// TestShortOpenings covers K5: however few operations come in each opening, and however it ends,
// NAME.hashes stays short, and a filter that has lost most keys gets smaller.
func TestShortOpenings(t *testing.T) {
	come := func(f *Filter, from, n uint64) {
		mustInsert(t, f, from, from+n)
		mustDelete(t, f, from, from+n)
	}
	t.Run("one operation each", func(t *testing.T) {
		f, path := createGrowing(t, 60_000)
		mustInsert(t, f, 0, 100)
		f.Close()
		const openings = 300
		before := sizeOf(t, path+".hashes")
		for i := range uint64(openings / 2) {
			opened(t, path, func(f *Filter) { mustInsert(t, f, 1000+i, 1001+i) })
			opened(t, path, func(f *Filter) { mustDelete(t, f, 1000+i, 1001+i) })
		}
		if more := sizeOf(t, path+".hashes") - before; more > 9*openings+4096 {
			t.Errorf("%d operations have made NAME.hashes %d bytes longer", openings, more)
		}
	})
	for name, end := range map[string]func(f *Filter, path string) string{
		"close": func(f *Filter, path string) string { f.Close(); return path },
		"kill":  func(f *Filter, path string) string { awaitGrowth(f); return abandon(t, f, path) },
	} {
		t.Run(name, func(t *testing.T) {
			f, path := createGrowing(t, 60_000)
			mustInsert(t, f, 0, 5000)
			for i := range uint64(10) {
				path = end(f, path)
				mustBeShort(t, path, 5000)
				var err error
				if f, err = Open(path, &OpenOptions{CommitInterval: -1}); err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { f.Close() })
				come(f, 1<<20*(i+1), 10_000)
			}
			mustHave(t, f, 0, 5000)
			if f.Len() != 5000 {
				t.Errorf("%d items", f.Len())
			}
		})
	}
	t.Run("checkpoints", func(t *testing.T) {
		f, path := createGrowing(t, 60_000)
		for i := range uint64(1000) {
			mustInsert(t, f, i, i+1)
			if err := f.Checkpoint(context.Background()); err != nil {
				t.Fatal(err)
			}
		}
		if size := sizeOf(t, path+".hashes"); size > 9*1000+4*4096 {
			t.Errorf("1,000 inserts, each with a checkpoint, take %d bytes", size)
		}
	})
	t.Run("deletes", func(t *testing.T) {
		f, path := createGrowing(t, 200_000)
		mustInsert(t, f, 0, 200_000)
		f.Close()
		for left := uint64(200_000); left > 1000; left -= 19_900 {
			opened(t, path, func(f *Filter) { mustDelete(t, f, left-19_900, left) })
			mustBeShort(t, path, left-19_900)
		}
		opened(t, path, func(f *Filter) {
			if mustHave(t, f, 0, 1000); f.Cap() != rebuild.LeastShrunk || f.Len() != 1000 {
				t.Errorf("a capacity of %d for %d items", f.Cap(), f.Len())
			}
		})
	})
	t.Run("expire", func(t *testing.T) {
		now := uint64(1000e9)
		defer osfile.SetClock(func() uint64 { return now })()
		f, path := createGrowing(t, 200_000)
		mustInsert(t, f, 1000, 100_000)
		f.Close()
		now = 2000e9
		opened(t, path, func(f *Filter) { mustInsert(t, f, 0, 1000) })
		opened(t, path, func(f *Filter) {
			if n, err := f.ExpireBefore(context.Background(), time.Unix(1500, 0)); n != 99_000 || err != nil {
				t.Errorf("%d expired, %v", n, err)
			}
		})
		mustBeShort(t, path, 1000)
		opened(t, path, func(f *Filter) {
			if mustHave(t, f, 0, 1000); f.Cap() != rebuild.LeastShrunk || f.Len() != 1000 {
				t.Errorf("a capacity of %d for %d items", f.Cap(), f.Len())
			}
		})
	})
}

// TestLargeBeforeALoad covers K5: a filter that was made large does not shrink before it is filled,
// however it is opened, nor does one that was rebuilt larger; once it has been filled, it does.
func TestLargeBeforeALoad(t *testing.T) {
	const eighth = 20_000
	f, path := createGrowing(t, 8*eighth)
	mustInsert(t, f, 0, 10)
	mustDelete(t, f, 0, 1)
	f.Close()
	opened(t, path, func(f *Filter) {
		mustDelete(t, f, 1, 2)
		if awaitGrowth(f); f.Cap() != 8*eighth {
			t.Fatalf("a capacity of %d before the load", f.Cap())
		}
		if err := f.Rebuild(context.Background(), &RebuildOptions{Capacity: 8*eighth + 8}); err != nil {
			t.Fatal(err)
		}
		mustDelete(t, f, 2, 3)
		if awaitGrowth(f); f.Cap() != 8*eighth+8 {
			t.Fatalf("a capacity of %d after a rebuild for the load", f.Cap())
		}
	})
	opened(t, path, func(f *Filter) { mustInsert(t, f, 10, eighth+10) })
	for from := uint64(10); from < eighth+10; from += eighth / 4 {
		opened(t, path, func(f *Filter) { mustDelete(t, f, from, from+eighth/4) })
	}
	opened(t, path, func(f *Filter) {
		if mustHave(t, f, 3, 10); f.Cap() != rebuild.LeastShrunk || f.Len() != 7 {
			t.Errorf("a capacity of %d for %d items after the load", f.Cap(), f.Len())
		}
	})
}

// TestShortUnderLoad covers K5: NAME.hashes stays short also while operations come as fast as they can
// during each rebuild.
func TestShortUnderLoad(t *testing.T) {
	f, path := mustCreate(t, &Options{Capacity: 1000, AutoGrow: true})
	f.Close()
	f, err := Open(path, &OpenOptions{CommitInterval: time.Millisecond, OnError: func(err error) { t.Errorf("reported: %v", err) }})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for round := 0; f.Stats().Rebuilds < 8; round++ {
		mustInsert(t, f, 0, 128)
		mustDelete(t, f, 0, 128)
		if round%16 == 0 {
			mustBeShort(t, path, 128)
		}
	}
}

// TestCloseAndRebuilds covers K5: Close waits for a rebuild that makes the filter smaller or its history
// short, and ends one that makes it larger, which is no error to report.
func TestCloseAndRebuilds(t *testing.T) {
	for name, c := range map[string]struct {
		capacity uint64
		do       func(f *Filter)
		after    uint64 // capacity
		short    bool   // the history is
	}{
		"larger":  {1000, func(f *Filter) { mustInsert(t, f, 0, 900) }, 1000, false},
		"smaller": {1 << 17, func(f *Filter) { mustInsert(t, f, 0, 20_000); mustDelete(t, f, 1000, 20_000) }, rebuild.LeastShrunk, true},
		"shorter": {10_000, func(f *Filter) {
			for i := range uint64(40_000) {
				mustInsert(t, f, i, i+1)
				mustDelete(t, f, i, i+1)
			}
		}, 10_000, true},
	} {
		t.Run(name, func(t *testing.T) {
			f, path := mustCreate(t, &Options{Capacity: c.capacity, AutoGrow: true})
			f.Close()
			f, err := Open(path, &OpenOptions{CommitInterval: -1, OnError: func(err error) { t.Errorf("reported: %v", err) }})
			if err != nil {
				t.Fatal(err)
			}
			f.growth.Lock() // the rebuild waits
			c.do(f)
			items := f.Len()
			closed := make(chan error)
			go func() { closed <- f.Close() }()
			if name == "larger" {
				<-f.growth.life.Done()
			}
			f.growth.Unlock()
			if err := <-closed; err != nil {
				t.Fatal(err)
			}
			if f.Cap() != c.after {
				t.Errorf("a capacity of %d", f.Cap())
			}
			if size := sizeOf(t, path+".hashes"); c.short && size > int64(items/recovery.ItemsInPage+4)*4096 {
				t.Errorf("%d bytes of hashes for %d items", size, items)
			}
			if list, _ := filepath.Glob(path + "*"); len(list) != 2 {
				t.Errorf("left %v", list)
			}
			if r, err := Verify(context.Background(), path); err != nil || r.Items != items || r.Hashes != items {
				t.Errorf("%+v, %v", r, err)
			}
		})
	}
}

// TestOnError: a growth and a commit that fail by themselves are reported.
func TestOnError(t *testing.T) {
	reported := make(chan error, 1000)
	f, path := mustCreate(t, &Options{Capacity: 20_000, AutoGrow: true})
	mustInsert(t, f, 0, 10_000)
	f.Close()
	if err := flipByte(path+".hashes", 5*4096+9); err != nil {
		t.Fatal(err)
	}
	f, err := Open(path, &OpenOptions{CommitInterval: time.Millisecond, OnError: func(err error) { reported <- err }})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	mustInsert(t, f, 10_000, 18_000)
	if err := <-reported; !errors.Is(err, ErrNoHashes) || !errors.Is(err, ErrCorrupt) || f.Err() != nil {
		t.Errorf("a growth: %v, %v", err, f.Err())
	}
	awaitGrowth(f)
	mustHave(t, f, 0, 18_000)
	for len(reported) > 0 {
		<-reported
	}
	if err := os.Rename(path, path+".moved"); err != nil {
		t.Fatal(err)
	}
	if err := f.Insert([]byte("one more")); err != nil {
		t.Fatal(err)
	}
	for err = range reported {
		if errors.Is(err, ErrFailed) {
			break
		}
	}
	if !errors.Is(err, ErrReplaced) {
		t.Errorf("a commit: %v", err)
	}
}

// TestExpireWithWrongClocks covers K6: whatever the clock has said, ExpireBefore deletes nothing that is
// younger, and what is older as soon as the clock has been right at a rebuild.
func TestExpireWithWrongClocks(t *testing.T) {
	const hour = uint64(3600e9)
	for name, wrong := range map[string]uint64{"back": 1000 * hour, "ahead for a moment": 2002 * hour, "ahead by years": 50_000 * hour} {
		t.Run(name, func(t *testing.T) {
			now := 2000 * hour
			defer osfile.SetClock(func() uint64 { return now })()
			f, _ := mustCreate(t, &Options{Capacity: 1000, KeepHashes: true})
			at := func(clock, from uint64) {
				now = clock
				mustInsert(t, f, from, from+100)
				if err := f.Sync(); err != nil {
					t.Fatal(err)
				}
			}
			expire := func(before, first, left uint64) {
				t.Helper()
				if _, err := f.ExpireBefore(context.Background(), time.Unix(0, int64(before))); err != nil {
					t.Fatal(err)
				}
				if mustHave(t, f, first, first+left); f.Len() != left {
					t.Errorf("%d are left, not %d", f.Len(), left)
				}
			}
			at(2000*hour, 0)
			at(wrong, 100) // an hour later, really
			at(2002*hour, 200)
			expire(2000*hour, 0, 300)
			if name != "back" { // otherwise the second hundred has the time of the first
				expire(2001*hour, 100, 200)
			}
			if err := f.Rebuild(context.Background(), nil); err != nil {
				t.Fatal(err)
			}
			at(2100*hour, 300)
			expire(2050*hour, 300, 100)
			expire(2101*hour, 0, 0)
		})
	}
}

// TestCopiesError covers K5: if copies of keys take the lines and the stash, so that a larger file
// would have no room either, the filter does not grow for one more copy. After deletes it does not
// shrink and grow in turns.
func TestCopiesError(t *testing.T) {
	for _, layout := range []layout.Kind{layout.Compact, layout.Packed} {
		f, _ := mustCreate(t, &Options{Capacity: 200_000, AutoGrow: true, Layout: layout})
		var key []byte
		var err error
		for keys := uint64(0); err == nil; keys++ {
			key = bytes.Clone(first(keys))
			for range 80 {
				if err = f.Insert(key); err != nil {
					break
				}
			}
		}
		refused := new(CopiesError)
		if !errors.As(err, &refused) || !errors.Is(err, ErrFull) || refused.Copies != f.Count(key) || refused.Copies < 8 {
			t.Fatalf("%v: %v; the count is %d", layout, err, f.Count(key))
		}
		if f.Cap() > 1_600_000 || f.Stats().GrowthErr != "" { // at first, copies of other keys may be in their lines
			t.Errorf("%v: a capacity of %d, %q", layout, f.Cap(), f.Stats().GrowthErr)
		}
		if err := f.Insert([]byte("another key")); err != nil {
			t.Errorf("%v: %v", layout, err)
		}
	}
}

// first returns the key of a number.
func first(n uint64) (key []byte) {
	for key = range numbers(n, n+1) {
	}
	return key
}

// TestCopiesShrinkOnce: a filter that copies have made large does not shrink and grow in turns.
func TestCopiesShrinkOnce(t *testing.T) {
	f, _ := mustCreate(t, &Options{Capacity: 2000, AutoGrow: true, Layout: layout.Packed})
	for round := range 9 {
		for key := range numbers(0, 3000) {
			if err := f.Insert(key); err != nil && !errors.As(err, new(*CopiesError)) {
				t.Fatal(round, err)
			}
		}
	}
	awaitGrowth(f)
	for key := range numbers(0, 3000) {
		if ok, err := f.Delete(key); !ok || err != nil {
			t.Fatal(ok, err)
		}
	}
	awaitGrowth(f)
	before := f.Stats().Rebuilds
	for range 3 {
		for key := range numbers(0, 2000) {
			if ok, err := f.Delete(key); !ok || err != nil {
				t.Fatal(ok, err)
			}
			if err := f.Insert(key); err != nil {
				t.Fatal(err)
			}
		}
	}
	awaitGrowth(f)
	if n := f.Stats().Rebuilds - before; n > 2 {
		t.Errorf("%d rebuilds for 12,000 operations", n)
	}
}

// TestHashesBackAgain covers K2: whatever needs the hashes of a filter whose writer has died, and does
// not find them, fails and changes nothing. With NAME.hashes back, all is as before.
func TestHashesBackAgain(t *testing.T) {
	f, path := mustCreate(t, &Options{Capacity: 1000, AutoGrow: true})
	mustInsert(t, f, 0, 500)
	if err := f.Checkpoint(t.Context()); err != nil {
		t.Fatal(err)
	}
	mustInsert(t, f, 500, 700)
	path = abandon(t, f, path)
	if err := os.Rename(path+".hashes", path+".away"); err != nil {
		t.Fatal(err)
	}
	require := &OpenOptions{RequireHashes: true}
	for name, use := range map[string]func() error{
		"open":           func() error { _, err := Open(path, require); return err },
		"open or create": func() error { _, err := OpenOrCreate(path, &Options{Capacity: 9}, require); return err },
		"repair":         func() error { _, err := Repair(t.Context(), path, nil); return err },
		"merge":          func() error { return Merge(t.Context(), path+".other", nil, path) },
	} {
		if err := use(); !errors.Is(err, ErrNoHashes) || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := os.Rename(path+".away", path+".hashes"); err != nil {
		t.Fatal(err)
	}
	f, err := Open(path, require)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	mustInsert(t, f, 700, 5000)
	mustHave(t, f, 0, 5000)
}

// TestCloseUnderLoad covers K5: Close refuses further operations, and ends, however fast operations
// have made the history long.
func TestCloseUnderLoad(t *testing.T) {
	f, path := mustCreate(t, &Options{Capacity: 1000, AutoGrow: true})
	var group sync.WaitGroup
	begun := make(chan struct{}, 2)
	for i := range uint64(2) {
		group.Add(1)
		go func() {
			defer group.Done()
			for n := 0; ; n++ {
				for key := range numbers(100*i, 100*i+100) {
					err := f.Insert(key)
					if err == nil {
						_, err = f.Delete(key)
					}
					if err != nil {
						if !errors.Is(err, ErrClosed) {
							t.Error(err)
						}
						return
					}
				}
				if n == 400 { // its history is long
					begun <- struct{}{}
				}
			}
		}()
	}
	<-begun
	<-begun
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	group.Wait()
	if r, err := Verify(t.Context(), path); err != nil || r.HashesErr != nil {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestCloseEndsRebuilds: Close ends a Rebuild that the caller has begun, also if one is due by itself.
func TestCloseEndsRebuilds(t *testing.T) {
	f, _ := mustCreate(t, &Options{Capacity: 1000, AutoGrow: true})
	mustInsert(t, f, 0, 500)
	begun, ended := make(chan struct{}), make(chan error)
	go func() {
		ended <- f.Rebuild(t.Context(), &RebuildOptions{Keys: func() (iter.Seq2[[]byte, error], error) {
			return func(yield func([]byte, error) bool) {
				close(begun)
				for yield([]byte("the same for ever"), nil) {
				}
			}, nil
		}, Capacity: 1000})
	}()
	<-begun
	for range 700 {
		mustDelete(t, f, 0, 100)
		mustInsert(t, f, 0, 100)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	if err := <-ended; !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
}

// TestOnErrorUsesTheFilter: OnError may call the filter, even where that waits for a growth.
func TestOnErrorUsesTheFilter(t *testing.T) {
	f, path := mustCreate(t, &Options{Capacity: 1000, AutoGrow: true})
	f.Close()
	done := make(chan error, 100)
	var once sync.Once
	var err error
	f, err = Open(path, &OpenOptions{OnError: func(error) {
		once.Do(func() {
			for key := range numbers(10_000, 20_000) {
				if err := f.Insert(key); err != nil {
					done <- err
					return
				}
			}
		})
	}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(osfile.RebuildPath(path), 0o700); err != nil { // so that it cannot grow
		t.Fatal(err)
	}
	for key := range numbers(0, 5000) {
		if err = f.Insert(key); err != nil {
			break
		}
	}
	if err2 := <-done; !errors.Is(err, ErrFull) || !errors.Is(err2, ErrFull) {
		t.Errorf("%v, %v", err, err2)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}
