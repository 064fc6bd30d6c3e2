package mmapfilter

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/bridge"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/rebuild"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/writer"
)

func mustDelete(tb testing.TB, f *Filter, from, to uint64) {
	tb.Helper()
	for key := range numbers(from, to) {
		if there, err := f.Delete(key); err != nil || !there {
			tb.Fatalf("delete of %x: %t, %v", key, there, err)
		}
	}
}

// TestRebuild covers C8: a filter is rebuilt larger and smaller, with another rate and layout, and
// has its items, its sequence and its operations, also after a crash.
func TestRebuild(t *testing.T) {
	f, path := mustCreate(t, &Options{Capacity: 2000, KeepHashes: true, Normalisation: "as they are"})
	mustInsert(t, f, 0, 2000)
	if err := f.SyncAt(17); err != nil {
		t.Fatal(err)
	}
	mustDelete(t, f, 0, 500)
	first, n, rate := uint64(500), uint64(2000), 0.01
	for i, opts := range []*RebuildOptions{
		{Capacity: 10_000}, nil, {FalsePositiveRate: 1e-4}, {Layout: layout.Packed, FalsePositiveRate: 0.01}, {Capacity: 3000}, {Layout: layout.SemiSorted},
	} {
		if err := f.Rebuild(context.Background(), opts); err != nil {
			t.Fatalf("%d: %v", i, err)
		}
		if s := f.Stats(); s.Len != n-first || s.DurableSeq != 17 || s.Rebuilds != uint64(i)+1 || s.Normalisation != "as they are" || s.GrowthErr != "" || opts != nil && opts.Capacity != 0 && s.Capacity != opts.Capacity {
			t.Fatalf("%d: %+v", i, s)
		}
		if opts != nil && opts.FalsePositiveRate != 0 {
			rate = opts.FalsePositiveRate
		}
		if f.Stats().TargetRate != rate {
			t.Errorf("%d: the rate is %v instead of %v", i, f.Stats().TargetRate, rate)
		}
		if ops := f.DurableOps(); ops != 500+uint64(i)*200 {
			t.Fatalf("%d: %d operations", i, ops)
		}
		mustHave(t, f, first, n)
		mustInsert(t, f, n, n+100)
		mustDelete(t, f, first, first+100)
		first, n = first+100, n+100
		g, err := Open(abandon(t, f, path), nil)
		if err != nil {
			t.Fatal(err)
		}
		mustHave(t, g, first, n)
		if g.DurableSeq() != 17 || g.DurableOps() != 700+uint64(i)*200 || g.Len() != n-first {
			t.Errorf("%d: after a crash: %d, %d, %d items", i, g.DurableSeq(), g.DurableOps(), g.Len())
		}
		if err := g.Rebuild(context.Background(), nil); err != nil {
			t.Errorf("%d: after a crash: %v", i, err)
		}
		mustHave(t, g, first, n)
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := f.Close(); err != nil || f.Stats().TargetRate != 0 {
		t.Fatal(err, f.Stats().TargetRate)
	}
	list, _ := os.ReadDir(filepath.Dir(path))
	if len(list) != 2 {
		t.Errorf("the directory has %v", list)
	}
}

// TestRebuildFromKeys: a filter without hashes is rebuilt from a snapshot of the caller's keys,
// which is taken while no operation is under way, and may ask what is durable. What is done later is
// done in the new file.
func TestRebuildFromKeys(t *testing.T) {
	for _, keep := range []bool{false, true} {
		f, _ := mustCreate(t, &Options{Capacity: 20_000, KeepHashes: keep})
		mustInsert(t, f, 0, 10_000)
		if err := f.SyncAt(17); err != nil {
			t.Fatal(err)
		}
		err := f.Rebuild(context.Background(), &RebuildOptions{Capacity: 30_000, Keys: func() (iter.Seq2[[]byte, error], error) {
			if seq, ops := f.DurableSeq(), f.DurableOps(); seq != 17 || ops != 0 { // these do not wait for operations
				t.Errorf("%d and %d operations are durable", seq, ops)
			}
			return func(yield func([]byte, error) bool) {
				mustDelete(t, f, 0, 2000)
				mustInsert(t, f, 10_000, 12_000)
				for key := range numbers(0, 10_000) {
					if !yield(key, nil) {
						return
					}
				}
			}, nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		mustHave(t, f, 2000, 12_000)
		if s := f.Stats(); s.Len != 10_000 || s.Capacity != 30_000 || s.KeepsHashes != keep {
			t.Errorf("%+v", s)
		}
		if err := f.Rebuild(context.Background(), nil); keep != (err == nil) || !keep && !errors.Is(err, ErrNoHashes) {
			t.Errorf("from hashes: %v", err)
		}
		mustHave(t, f, 2000, 12_000)
	}
}

// TestRebuildWithUnique: a key that InsertUnique left out of the old file while it was rebuilt, since
// that answered "maybe", is in the new file (C1). Whether the old file answers so because of a key
// that the new one lacks or of another fingerprint is the same.
func TestRebuildWithUnique(t *testing.T) {
	for _, kept := range []bool{false, true} {
		f, _ := mustCreate(t, &Options{Capacity: 3000, FalsePositiveRate: 0.2, KeepHashes: kept})
		mustInsert(t, f, 0, 3000)
		var leftOut []uint64 // since they look like others
		insert := func() {
			for key := range numbers(0, 8000) {
				added, err := f.InsertUnique(key)
				if err != nil && err != ErrFull {
					t.Error(err)
				}
				if err == nil && !added {
					leftOut = append(leftOut, f.Hash(key))
				}
			}
		}
		o := RebuildOptions{Capacity: 20_000, FalsePositiveRate: 1e-4}
		done := make(chan bool)
		var once sync.Once
		during := func() { // after the instant that the new file begins with
			once.Do(func() {
				go func() { defer close(done); insert() }()
				<-done
			})
		}
		if o.Progress = func(string, uint64, uint64) { during() }; !kept {
			o.Keys = func() (iter.Seq2[[]byte, error], error) {
				return func(yield func([]byte, error) bool) { during() }, nil
			}
		}
		if err := f.Rebuild(context.Background(), &o); err != nil {
			t.Fatal(err)
		}
		if len(leftOut) < 3000 {
			t.Fatalf("only %d keys were left out", len(leftOut))
		}
		for i, h := range leftOut {
			if !f.ContainsHash(h) {
				t.Fatalf("kept %t: key %d of %d is lost", kept, i, len(leftOut))
			}
		}
	}
}

// TestSyncAtFunc: the number that the function returns counts the operations that are durable,
// whatever other goroutines do.
func TestSyncAtFunc(t *testing.T) {
	f, path := mustCreate(t, &Options{Capacity: 100_000})
	var group sync.WaitGroup
	for i := range uint64(4) {
		group.Add(1)
		go func() { defer group.Done(); mustInsert(t, f, i*10_000, (i+1)*10_000) }()
	}
	operations := uint64(0)
	for round := 0; round < 20 || operations == 0; round++ {
		if err := bridge.Of(f).SyncAtFunc(func(n uint64) uint64 { operations += n; return operations }); err != nil {
			t.Fatal(err)
		}
		if seq := f.DurableSeq(); seq != operations {
			t.Fatalf("%d, not %d", seq, operations)
		}
	}
	group.Wait()
	g, err := Open(abandon(t, f, path), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	if n := g.DurableSeq() + g.DurableOps(); n != g.Len() {
		t.Errorf("%d and %d operations, but %d items", g.DurableSeq(), g.DurableOps(), g.Len())
	}
}

// TestRebuildFails: a rebuild that fails or is cancelled leaves everything as it was.
func TestRebuildFails(t *testing.T) {
	f, path := mustCreate(t, &Options{Capacity: 5000, KeepHashes: true})
	mustInsert(t, f, 0, 5000)
	uuid := f.Stats().UUID
	stop := errors.New("stop")
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	late, cancelLate := context.WithCancel(context.Background())
	for name, c := range map[string]struct {
		ctx  context.Context
		opts *RebuildOptions
		want error
	}{
		"too small": {context.Background(), &RebuildOptions{Capacity: 100}, ErrFull},
		"cancelled": {cancelled, nil, context.Canceled},
		"cancelled late": {late, &RebuildOptions{Progress: func(stage string, done, total uint64) {
			if stage == "check" {
				cancelLate()
			}
		}}, context.Canceled},
		"no snapshot": {context.Background(), &RebuildOptions{Keys: func() (iter.Seq2[[]byte, error], error) { return nil, stop }}, stop},
		"a bad key": {context.Background(), &RebuildOptions{Keys: func() (iter.Seq2[[]byte, error], error) {
			return func(yield func([]byte, error) bool) { yield(nil, stop) }, nil
		}}, stop},
		"option": {context.Background(), &RebuildOptions{FalsePositiveRate: 2}, &OptionError{}},
	} {
		err := f.Rebuild(c.ctx, c.opts)
		if option := new(OptionError); err == nil || !errors.Is(err, c.want) && !(name == "option" && errors.As(err, &option)) {
			t.Errorf("%s: %v", name, err)
		}
		mustHave(t, f, 0, 5000)
		if s := f.Stats(); s.UUID != uuid || s.Len != 5000 || s.Rebuilds != 0 {
			t.Errorf("%s: %+v", name, s)
		}
	}
	list, _ := os.ReadDir(filepath.Dir(path))
	if len(list) != 3 {
		t.Errorf("the directory has %v", list)
	}
	mustInsert(t, f, 5000, 5100)
	if err := f.Rebuild(context.Background(), nil); err != nil {
		t.Fatal(err)
	}
	mustHave(t, f, 0, 5100)
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if err := f.Rebuild(context.Background(), nil); !errors.Is(err, ErrClosed) {
		t.Errorf("closed: %v", err)
	}
}

// TestRebuildUnderWay covers C8 for what is done meanwhile: inserts, deletes, batches, syncs and
// lookups go on during rebuilds, and nothing is lost. Run it with -race.
func TestRebuildUnderWay(t *testing.T) {
	f, path := mustCreate(t, &Options{Capacity: 40_000, KeepHashes: true})
	mustInsert(t, f, 0, 20_000)
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	r, err := OpenReadOnly(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	follower := mustFollow(t, path, byHand)
	var group sync.WaitGroup
	var stop atomic.Bool
	for g := range uint64(3) {
		group.Add(1)
		go func() {
			defer group.Done()
			from := (g + 1) << 32
			for n := uint64(0); !stop.Load(); n += 100 {
				if g == 0 {
					var keys [][]byte
					for key := range numbers(from+n, from+n+100) {
						keys = append(keys, bytes.Clone(key))
					}
					if done, err := f.InsertBatch(keys); err != nil || done != 100 {
						t.Error(done, err)
						return
					}
				} else {
					mustInsert(t, f, from+n, from+n+100)
				}
				mustHave(t, f, from+n, from+n+100)
				if g == 1 {
					if err := f.SyncAt(n); err != nil {
						t.Error(err)
					}
					if seq := f.DurableSeq(); seq != n {
						t.Errorf("sequence %d after %d", seq, n)
					}
				}
				mustDelete(t, f, from+n, from+n+100)
			}
		}()
	}
	group.Add(1)
	go func() { // readers of the old files and the new ones
		defer group.Done()
		for !stop.Load() {
			mustHave(t, r, 0, 2000)
			mustHave(t, follower, 0, 2000)
			if _, err := follower.Refresh(); err != nil {
				t.Error(err)
			}
		}
	}()
	for i := range 4 {
		if err := f.Rebuild(context.Background(), &RebuildOptions{Capacity: 40_000 + 10_000*uint64(i%3)}); err != nil {
			t.Error(err)
		}
	}
	stop.Store(true)
	group.Wait()
	mustHave(t, f, 0, 20_000)
	if f.Len() != 20_000 {
		t.Errorf("%d items", f.Len())
	}
	if err := r.Err(); !errors.Is(err, ErrSuperseded) || !r.ContainsString("none of its keys") {
		t.Errorf("a reader of the first file: %v", err)
	}
	if _, err := follower.Refresh(); err != nil || follower.Err() != nil || follower.Stats().Swaps == 0 {
		t.Errorf("a follower: %v, %v, %d", err, follower.Err(), follower.Stats().Swaps)
	}
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

// TestAutoGrow covers K5: a filter that was made for 1,000 keys takes any number, refuses none,
// keeps its rate at every power of two, and shrinks when most keys are deleted.
func TestAutoGrow(t *testing.T) {
	n := uint64(1 << 19)
	if testing.Short() {
		n = 1 << 18
	}
	f, path := mustCreate(t, &Options{Capacity: 1000, AutoGrow: true})
	for size := uint64(1024); size <= n; size *= 2 {
		mustInsert(t, f, size/2*min(size/1024-1, 1), size)
		if s := f.Stats(); s.Len != size || s.GrowthErr != "" || !s.Grows {
			t.Fatalf("%+v", s)
		}
		awaitGrowth(f) // until then the rate may be 1.5 times the one asked for
		wrong := 0
		for key := range numbers(1<<40, 1<<40+20_000) {
			if f.Contains(key) {
				wrong++
			}
		}
		if rate := float64(wrong) / 20_000; rate > 0.01*1.25 {
			t.Errorf("%d items: a rate of %v", size, rate)
		}
	}
	mustHave(t, f, 0, n)
	mustDelete(t, f, 0, n-n/16)
	awaitGrowth(f)
	if f.Cap() > max(n/2, rebuild.LeastShrunk) {
		t.Errorf("%d items, and a capacity of %d", f.Len(), f.Cap())
	}
	mustHave(t, f, n-n/16, n)
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if r, err := Verify(context.Background(), path); err != nil || r.Items != n/16 || r.Hashes != r.Items {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestNoRoomBesideRebuild covers K5: an insert that has found no room while a Rebuild puts another
// file to use is tried again, also if that cannot get the name.
func TestNoRoomBesideRebuild(t *testing.T) {
	f, _ := mustCreate(t, &Options{Capacity: 1000, AutoGrow: true})
	defer f.Close()
	g, _ := mustCreate(t, &Options{Capacity: 1000, AutoGrow: true})
	defer g.Close()
	o := f.open.Load()
	f.use(g.open.Load())
	if ends, elsewhere := f.resize(o, true); ends != nil || !elsewhere {
		t.Errorf("a growth begins: %t, there is another file: %t", ends != nil, elsewhere)
	}
	if err := f.awaitRoom(o); err != writer.ErrMoved {
		t.Error(err)
	}
	f.use(o)
}

// TestCountBesideRebuild: a Count that waits while a Rebuild puts the new file to use counts there.
func TestCountBesideRebuild(t *testing.T) {
	f, _ := mustCreate(t, &Options{Capacity: 1000, KeepHashes: true, Seed: 1})
	defer f.Close()
	key := []byte("a key")
	if err := f.Insert(key); err != nil {
		t.Fatal(err)
	}
	stop, ended := make(chan struct{}), make(chan uint64, 1)
	go func() {
		for {
			select {
			case <-stop:
				close(ended)
				return
			default:
				if n := f.Count(key); n != 1 {
					ended <- n
					return
				}
			}
		}
	}()
	for range 20 {
		if err := f.Rebuild(t.Context(), nil); err != nil {
			t.Error(err)
		}
	}
	close(stop)
	if n, wrong := <-ended; wrong {
		t.Errorf("it counts %d", n)
	}
}

// TestNoRoomToCount: an insert that has found no room in a file is tried again, and not refused, if that
// file has lost its writer meanwhile: it would not count there.
func TestNoRoomToCount(t *testing.T) {
	f, _ := mustCreate(t, &Options{Capacity: 1000, AutoGrow: true})
	defer f.Close()
	o := f.open.Load()
	if err := f.waitForRoom(o, 0); !errors.Is(err, ErrFull) {
		t.Error(err)
	}
	if err := o.work.Writer.Clean(); err != nil {
		t.Fatal(err)
	}
	if err := f.waitForRoom(o, 0); err != nil {
		t.Error(err)
	}
}
