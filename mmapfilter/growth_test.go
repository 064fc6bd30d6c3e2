package mmapfilter

import (
	"context"
	"encoding/binary"
	"errors"
	"iter"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mmapfilter/mmapfilter/layout"
	page "github.com/mmapfilter/mmapfilter/layout/hashes"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/rebuild"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/writer"
	"github.com/mmapfilter/mmapfilter/recovery/osfile"
)

// createGrowing makes a filter that grows, on a file system in memory, because the syncs of many
// openings take long on a disk.
func createGrowing(tb testing.TB, capacity uint64, kind layout.Kind) (f *Filter, path string) {
	tb.Helper()
	path = filepath.Join(memoryDir(tb), "filter.mmf")
	f, err := Create(path, &Options{Capacity: capacity, Layout: kind, AutoGrow: true, Seed: DefaultSeed, CommitInterval: -1})
	must(tb, err)
	tb.Cleanup(func() { f.Close() })
	return f, path
}

// reporting is createGrowing with a function that gets errors. If it is nil, an error fails the test.
func reporting(tb testing.TB, capacity uint64, onError func(error)) (f *Filter, path string) {
	tb.Helper()
	if onError == nil {
		onError = func(err error) { tb.Errorf("reported: %v", err) }
	}
	f, path = createGrowing(tb, capacity, layout.Auto)
	f.Close()
	f, err := Open(path, &OpenOptions{CommitInterval: time.Millisecond, OnError: onError})
	must(tb, err)
	tb.Cleanup(func() { f.Close() })
	return f, path
}

// opened opens the filter at path, calls do with it, and closes it.
func opened(tb testing.TB, path string, do func(f *Filter)) {
	tb.Helper()
	f, err := Open(path, &OpenOptions{CommitInterval: -1})
	must(tb, err)
	do(f)
	must(tb, f.Close())
}

// awaitGrowth waits for the growth that is under way.
func awaitGrowth(f *Filter) {
	a := &f.growth.auto
	a.Lock()
	done := a.done
	a.Unlock()
	if done != nil {
		<-done
	}
}

func sizeOf(tb testing.TB, path string) int64 {
	tb.Helper()
	info, err := os.Stat(path)
	must(tb, err)
	return info.Size()
}

// mustBeShort checks that NAME.hashes is not longer than K5 says.
func mustBeShort(tb testing.TB, path string, items uint64) {
	tb.Helper()
	need := int64(items/page.BaseItems+4) * 4096
	if size := sizeOf(tb, path+".hashes"); size > 3*need+1<<20 {
		tb.Fatalf("%d bytes of hashes for %d items", size, items)
	}
}

// mustBeSmall checks that a filter has shrunk to the least capacity, and has the first keys.
func mustBeSmall(tb testing.TB, f *Filter, items uint64) {
	tb.Helper()
	if mustHave(tb, f, 0, items); f.Cap() != rebuild.LeastShrunk || f.Len() != items {
		tb.Errorf("a capacity of %d for %d items", f.Cap(), f.Len())
	}
}

// first returns the first key of numbers(n, n+1).
func first(n uint64) (key []byte) {
	for key = range numbers(n, n+1) {
	}
	return key
}

// TestAutoGrow covers K5: a filter that was made for 1,000 keys takes any number of keys, and keeps its
// rate. It shrinks when most keys are deleted.
func TestAutoGrow(t *testing.T) {
	const n = 1 << 18
	f, path := createGrowing(t, 1000, layout.Auto)
	for size := uint64(1024); size <= n; size *= 2 {
		mustInsert(t, f, size/2*min(size/1024-1, 1), size)
		if s := f.Stats(); s.Len != size || s.GrowthErr != "" || !s.Grows {
			t.Fatalf("%+v", s)
		}
		awaitGrowth(f) // until then the rate may be 1.5 times the one asked for
		if wrong, asked := countFound(f, numbers(1<<40, 1<<40+20_000)); float64(wrong) > 0.0125*float64(asked) {
			t.Errorf("%d items: %d of %d are found", size, wrong, asked)
		}
	}
	mustHave(t, f, 0, n)
	mustDelete(t, f, 0, n-n/16)
	awaitGrowth(f)
	if f.Cap() > max(n/2, rebuild.LeastShrunk) {
		t.Errorf("%d items, and a capacity of %d", f.Len(), f.Cap())
	}
	mustHave(t, f, n-n/16, n)
	must(t, f.Close())
	if r, err := Verify(context.Background(), path); err != nil || r.Items != n/16 || r.Hashes != r.Items {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestInsertInKeys covers K5: an insert that finds no room during a Rebuild from Keys waits for the
// Rebuild. The insert fails if the context of the Rebuild is cancelled or the filter is closed. Close
// ends the Rebuild, too.
func TestInsertInKeys(t *testing.T) {
	for name, want := range map[string]error{"cancel": context.Canceled, "close": ErrClosed} {
		f, _ := mustCreate(t, &Options{Capacity: 1000, AutoGrow: true})
		mustInsert(t, f, 0, 800)
		ctx, cancel := context.WithCancel(t.Context())
		closed := make(chan error, 1)
		var failed error
		err := f.Rebuild(ctx, &RebuildOptions{Capacity: 100_000, Keys: func() (iter.Seq2[[]byte, error], error) {
			return func(yield func([]byte, error) bool) {
				if name == "cancel" {
					cancel()
					closed <- nil
				} else {
					go func() { closed <- f.Close() }()
				}
				for key := range numbers(1000, 1<<20) {
					if failed = f.Insert(key); failed != nil {
						break
					}
				}
				for yield([]byte("the same for ever"), nil) {
				}
			}, nil
		}})
		if !errors.Is(failed, want) || name == "cancel" && !errors.Is(failed, ErrFull) || !errors.Is(err, want) {
			t.Errorf("%s: the insert: %v; Rebuild: %v", name, failed, err)
		}
		cancel()
		if err := <-closed; err != nil {
			t.Error(err)
		}
	}
}

// TestInsertAtClose covers K5: Close ends a growth that an insert waits for. The insert returns
// ErrClosed, and OnError gets no error.
func TestInsertAtClose(t *testing.T) {
	f, _ := reporting(t, 50, nil)
	f.growth.Lock() // the growth waits
	failed, closed := make(chan error), make(chan error)
	go func() {
		for key := range numbers(0, 1<<20) {
			if err := f.Insert(key); err != nil {
				failed <- err
				return
			}
		}
	}()
	for full := false; !full; runtime.Gosched() {
		f.growth.auto.Lock()
		full = f.growth.auto.done != nil
		f.growth.auto.Unlock()
	}
	go func() { closed <- f.Close() }()
	if err := <-failed; !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	f.growth.Unlock()
	if err := <-closed; err != nil {
		t.Error(err)
	}
}

// TestGrowsAfterShrinking covers K5: if a filter with many copies could not shrink, it still grows when
// an insert needs room.
func TestGrowsAfterShrinking(t *testing.T) {
	f, _ := mustCreate(t, &Options{Capacity: 1000, AutoGrow: true})
	a := &f.growth.auto
	a.failed, a.failedAt, a.failedTime, a.took = errCopies, 0, time.Now(), time.Hour
	for n := uint64(0); f.Cap() == 1000; n++ {
		if a.failedAt = f.Len(); a.failed == nil { // the filter began to grow before it was full
			a.failed = errCopies
		}
		mustInsert(t, f, n, n+1)
	}
}

// TestInsertWaits covers K5 for an insert that waits for a rebuild. If this rebuild had another reason,
// or was to make room in an earlier file, the insert then makes this file grow. If a Rebuild makes room,
// the insert goes on at once, even if the growth that it waits for has not ended.
func TestInsertWaits(t *testing.T) {
	for name, full := range map[string]*openFile{"another reason": nil, "an earlier file": new(openFile), "this file": nil} {
		f, _ := mustCreate(t, &Options{Capacity: 1000, AutoGrow: true})
		for n := 0; writerOf(f).Insert(spread(n)) == nil; n++ {
		}
		a, growth, done := &f.growth.auto, make(chan struct{}), make(chan error)
		if a.done, a.full = growth, full; name == "this file" {
			a.full = f.open.Load()
		}
		go func() { done <- f.Insert(first(1)) }()
		for range 10_000 { // until the insert waits
			runtime.Gosched()
		}
		var err error
		if name == "this file" {
			err = errors.Join(f.Rebuild(t.Context(), &RebuildOptions{Capacity: 10_000}), <-done)
		}
		a.Lock()
		a.done = nil
		a.Unlock()
		if close(growth); name != "this file" {
			err = <-done
		}
		if err != nil || f.Cap() == 1000 {
			t.Errorf("%s: capacity %d, %v", name, f.Cap(), err)
		}
	}
}

// TestNoRoomBesideRebuild covers K5: an insert that found no room in a file is tried again if a Rebuild
// has put another file in its place, even if the other file then fails to get the name. It is not
// refused if the file has lost its writer meanwhile.
func TestNoRoomBesideRebuild(t *testing.T) {
	f, _ := mustCreate(t, &Options{Capacity: 1000, AutoGrow: true})
	g, _ := mustCreate(t, &Options{Capacity: 1000, AutoGrow: true})
	o := f.open.Load()
	f.use(g.open.Load())
	if ends, elsewhere := f.resize(o, true); ends != nil || !elsewhere {
		t.Errorf("a growth begins: %t; another file is in use: %t", ends != nil, elsewhere)
	}
	if err := f.awaitRoom(o); err != writer.ErrMoved {
		t.Error(err)
	}
	f.use(o)
	if err := f.waitForRoom(o, 0); !errors.Is(err, ErrFull) {
		t.Error(err)
	}
	must(t, o.work.Writer.Clean())
	if err := f.waitForRoom(o, 0); err != nil {
		t.Error(err)
	}
}

// TestShortOpenings covers K5: NAME.hashes stays short, however few operations each opening has, and
// however it ends.
func TestShortOpenings(t *testing.T) {
	const operations = 300
	f, path := createGrowing(t, 60_000, layout.Auto)
	mustInsert(t, f, 0, 100)
	f.Close()
	before := sizeOf(t, path+".hashes")
	for i := range uint64(operations / 2) {
		opened(t, path, func(f *Filter) { mustInsert(t, f, 1000+i, 1001+i) })
		opened(t, path, func(f *Filter) { mustDelete(t, f, 1000+i, 1001+i) })
	}
	opened(t, path, func(f *Filter) {
		for i := range uint64(operations) {
			mustInsert(t, f, 2000+i, 2001+i)
			must(t, f.Checkpoint(context.Background()))
		}
	})
	if more := sizeOf(t, path+".hashes") - before; more > 9*2*operations+4*4096 {
		t.Errorf("with an opening or a checkpoint after each of %d operations, NAME.hashes became %d bytes longer", 2*operations, more)
	}
	for _, killed := range []bool{false, true} {
		f, path := createGrowing(t, 60_000, layout.Auto)
		mustInsert(t, f, 0, 5000)
		for i := range uint64(10) {
			if killed {
				awaitGrowth(f)
				path = abandon(t, f, path)
			}
			f.Close()
			mustBeShort(t, path, 5000)
			f = openQuiet(t, path)
			mustInsert(t, f, 1<<20*(i+1), 1<<20*(i+1)+10_000)
			mustDelete(t, f, 1<<20*(i+1), 1<<20*(i+1)+10_000)
		}
		if mustHave(t, f, 0, 5000); f.Len() != 5000 {
			t.Errorf("killed %t: %d items", killed, f.Len())
		}
		f.Close()
	}
}

// TestGetsSmall covers K5: a filter becomes small, and its NAME.hashes short, when most keys are deleted
// over several openings, or expire.
func TestGetsSmall(t *testing.T) {
	now := uint64(1000e9)
	defer osfile.SetClock(func() uint64 { return now })()
	f, path := createGrowing(t, 100_000, layout.Auto)
	mustInsert(t, f, 1000, 100_000)
	f.Close()
	now = 2000e9
	opened(t, path, func(f *Filter) { mustInsert(t, f, 0, 1000) })
	killed := abandon(t, f, path)
	for left := uint64(100_000); left > 1000; left -= 9900 {
		opened(t, path, func(f *Filter) { mustDelete(t, f, left-9900, left) })
		mustBeShort(t, path, left-9900)
	}
	opened(t, path, func(f *Filter) { mustBeSmall(t, f, 1000) })
	opened(t, killed, func(f *Filter) {
		if n, err := f.ExpireBefore(context.Background(), time.Unix(1500, 0)); n != 99_000 || err != nil {
			t.Errorf("%d keys expired, %v", n, err)
		}
	})
	mustBeShort(t, killed, 1000)
	opened(t, killed, func(f *Filter) { mustBeSmall(t, f, 1000) })
}

// TestLargeBeforeALoad covers K5: a filter that was rebuilt larger does not shrink before its keys have
// come.
func TestLargeBeforeALoad(t *testing.T) {
	f, path := createGrowing(t, 160_000, layout.Auto)
	mustInsert(t, f, 0, 15_000)
	must(t, f.Rebuild(t.Context(), &RebuildOptions{Capacity: 160_008}))
	mustDelete(t, f, 0, 1)
	if awaitGrowth(f); f.Cap() != 160_008 {
		t.Errorf("a capacity of %d before the keys have come", f.Cap())
	}
	f.Close()
	opened(t, path, func(f *Filter) {
		mustDelete(t, f, 1, 2)
		if awaitGrowth(f); f.Cap() != 160_008 {
			t.Errorf("opened again: a capacity of %d before the keys have come", f.Cap())
		}
	})
}

// TestShortUnderLoad covers K5: NAME.hashes stays short even if operations go on as fast as they can
// during each rebuild. Close refuses further operations, and returns, however long the history is.
func TestShortUnderLoad(t *testing.T) {
	f, path := reporting(t, 1000, nil)
	closed, closing := make(chan error, 1), false
	var err error
	for n := uint64(0); err == nil; n++ {
		key := first(n % 128)
		if err = f.Insert(key); err == nil {
			_, err = f.Delete(key)
		}
		if n%2048 != 0 {
			continue
		}
		if mustBeShort(t, path, 128); f.Stats().Rebuilds >= small(uint64(8), 3) && !closing {
			closing = true
			go func() { closed <- f.Close() }()
		}
	}
	if err2 := <-closed; !errors.Is(err, ErrClosed) || err2 != nil {
		t.Error(err, err2)
	}
	if r, err := Verify(t.Context(), path); err != nil || r.HashesErr != nil {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestCloseAndRebuilds covers K5: Close waits for a rebuild that makes the filter smaller or its history
// shorter. It ends a rebuild that makes the filter larger, and does not report this as an error.
func TestCloseAndRebuilds(t *testing.T) {
	for name, c := range map[string]struct {
		capacity uint64
		do       func(f *Filter)
		after    uint64 // capacity after Close
		short    bool   // the history is then short
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
			f, path := reporting(t, c.capacity, nil)
			f.growth.Lock() // the rebuild waits
			c.do(f)
			items := f.Len()
			closed := make(chan error)
			go func() { closed <- f.Close() }()
			if name == "larger" {
				<-f.growth.life.Done()
			}
			f.growth.Unlock()
			if err := <-closed; err != nil || f.Cap() != c.after {
				t.Fatalf("a capacity of %d; %v", f.Cap(), err)
			}
			if size := sizeOf(t, path+".hashes"); c.short && size > int64(items/page.BaseItems+4)*4096 {
				t.Errorf("%d bytes of hashes for %d items", size, items)
			}
			mustListed(t, filepath.Dir(path), "filter.mmf", "filter.mmf.hashes")
			if r, err := Verify(context.Background(), path); err != nil || r.Items != items || r.Hashes != items {
				t.Errorf("%+v, %v", r, err)
			}
		})
	}
}

// TestOnError: OnError gets the error of a growth and of a commit in the background. It may call the
// filter, even if the call waits for a growth.
func TestOnError(t *testing.T) {
	reported, refused := make(chan error, 1000), make(chan error, 1)
	var f *Filter
	var asked atomic.Bool
	f, path := reporting(t, 1000, func(err error) {
		if !asked.Swap(true) {
			refused <- func() (err error) {
				for n := uint64(1 << 20); err == nil; n++ {
					err = f.Insert(first(n))
				}
				return err
			}()
		}
		reported <- err
	})
	if err := os.Mkdir(osfile.RebuildPath(path), 0o700); err != nil { // so that the filter cannot grow
		t.Fatal(err)
	}
	var err error
	n := uint64(0)
	for ; err == nil; n++ {
		err = f.Insert(first(n))
	}
	if err2 := <-refused; !errors.Is(err, ErrFull) || !errors.Is(err2, ErrFull) || f.Err() != nil {
		t.Errorf("%v, %v, %v", err, err2, f.Err())
	}
	if err := <-reported; err == nil || errors.Is(err, ErrFailed) {
		t.Errorf("a growth: %v", err)
	}
	mustHave(t, f, 0, n-1)
	must(t, os.Rename(path, path+".moved"))
	mustDelete(t, f, 0, 1)
	for err = range reported {
		if errors.Is(err, ErrFailed) {
			break
		}
	}
	if !errors.Is(err, ErrReplaced) {
		t.Errorf("a commit: %v", err)
	}
}

// TestCopiesError covers K5: if copies of keys fill their lines and the stash, a larger file would have
// no room for one more copy either, so the filter does not grow.
func TestCopiesError(t *testing.T) {
	for _, kind := range []layout.Kind{layout.Compact, layout.Packed} {
		// With one seed in ten the filter grows more often, because copies of several keys share lines.
		f, _ := mustCreate(t, &Options{Capacity: 200_000, AutoGrow: true, Layout: kind, Seed: 1})
		var key []byte
		var err error
		for n := uint64(0); err == nil; n++ {
			key = first(n / 80)
			err = f.Insert(key)
		}
		refused := new(CopiesError)
		if !errors.As(err, &refused) || !errors.Is(err, ErrFull) || refused.Copies != f.Count(key) || refused.Copies < 8 {
			t.Fatalf("%v: %v; the count is %d", kind, err, f.Count(key))
		}
		if f.Cap() > 1_600_000 || f.Stats().GrowthErr != "" { // copies of other keys may make it grow
			t.Errorf("%v: a capacity of %d, %q", kind, f.Cap(), f.Stats().GrowthErr)
		}
		if err := f.Insert([]byte("another key")); err != nil {
			t.Errorf("%v: %v", kind, err)
		}
	}
}

// TestCopiesShrinkOnce covers K5: a filter that has grown because of copies does not shrink and grow in
// turns.
func TestCopiesShrinkOnce(t *testing.T) {
	f, _ := createGrowing(t, 2000, layout.Packed)
	for n := range uint64(9 * 3000) {
		if err := f.Insert(first(n % 3000)); err != nil && !errors.As(err, new(*CopiesError)) {
			t.Fatal(n, err)
		}
	}
	awaitGrowth(f)
	mustDelete(t, f, 0, 3000)
	awaitGrowth(f)
	before := f.Stats().Rebuilds
	for n := range uint64(3 * 2000) {
		mustDelete(t, f, n%2000, n%2000+1)
		mustInsert(t, f, n%2000, n%2000+1)
	}
	awaitGrowth(f)
	if n := f.Stats().Rebuilds - before; n > 2 {
		t.Errorf("%d rebuilds for 12,000 operations", n)
	}
}

// TestRepeats covers K5 and K7 for keys that are passed to InsertUnique ten times each, while the filter
// grows. The filter finds each key, NAME.hashes stays short, and a rebuild gives each key an item. The
// calls for a key are close together, or anywhere.
func TestRepeats(t *testing.T) {
	const n = 40_000
	for _, window := range []uint64{2000, 10 * n} {
		f, path := createGrowing(t, 1000, layout.Auto)
		rng := rand.New(rand.NewPCG(1, 0))
		for from := uint64(0); from < 10*n; from += window {
			for i, at := range rng.Perm(int(window)) {
				key := binary.LittleEndian.AppendUint64(nil, from/10+uint64(at)%(window/10))
				if _, err := f.InsertUnique(key); err != nil || !f.Contains(key) {
					t.Fatalf("%x: %v", key, err)
				}
				if i%5000 == 0 {
					awaitGrowth(f) // until then, NAME.hashes also has what came meanwhile
					mustBeShort(t, path, f.Len())
				}
			}
		}
		mustHave(t, f, 0, n)
		if items := int(f.Len()); items > n || items < n-n/50 { // one key in 100 looks like another
			t.Errorf("%d items of %d keys", items, n)
		}
		if err := f.Rebuild(context.Background(), nil); err != nil || f.Len() != n {
			t.Errorf("%d items of %d keys after a rebuild, %v", f.Len(), n, err)
		}
		mustHave(t, f, 0, n)
		must(t, f.Close())
		mustBeShort(t, path, n)
	}
}
