package mmapfilter

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/bridge"
)

func mustDelete(tb testing.TB, f *Filter, from, to uint64) {
	tb.Helper()
	for key := range numbers(from, to) {
		if there, err := f.Delete(key); err != nil || !there {
			tb.Fatalf("delete of %x: %t, %v", key, there, err)
		}
	}
}

// TestRebuild covers C8: a rebuilt filter has the capacity, rate and layout that the options name, and
// keeps all else. (TestHistoryHonest checks its keys.)
func TestRebuild(t *testing.T) {
	f, path := mustCreate(t, &Options{Capacity: 2000, KeepHashes: true, Normalisation: "as they are"})
	mustInsert(t, f, 0, 2000)
	capacity, rate, kind := uint64(2000), 0.01, layout.Compact
	for i, opts := range []RebuildOptions{
		{Capacity: 10_000}, {}, {FalsePositiveRate: 1e-4}, {Layout: layout.Packed, FalsePositiveRate: 0.01}, {Capacity: 3000}, {Layout: layout.SemiSorted},
	} {
		if err := f.Rebuild(context.Background(), &opts); err != nil {
			t.Fatalf("%d: %v", i, err)
		}
		if opts.Capacity != 0 {
			capacity = opts.Capacity
		}
		if opts.FalsePositiveRate != 0 {
			rate = opts.FalsePositiveRate
		}
		if opts.Layout != layout.Auto {
			kind = opts.Layout
		}
		if s := f.Stats(); s.Capacity != capacity || s.TargetRate != rate || s.Layout != kind || s.Rebuilds != uint64(i)+1 || s.Normalisation != "as they are" || s.GrowthErr != "" {
			t.Fatalf("%d: %+v", i, s)
		}
		mustHave(t, f, 0, 2000)
	}
	if err := f.Close(); err != nil || f.Stats().TargetRate != 0 {
		t.Fatal(err, f.Stats().TargetRate)
	}
	mustListed(t, filepath.Dir(path), "filter.mmf", "filter.mmf.hashes")
}

// TestCountBesideRebuild: if a rebuild has replaced the file that a Count looks in, Count looks in the
// new file, because it cannot tell what the old one has.
func TestCountBesideRebuild(t *testing.T) {
	f, _ := mustCreate(t, &Options{Capacity: 100, KeepHashes: true})
	mustInsert(t, f, 0, 1)
	old, hash := f.open.Load(), f.hash.Hash(numberKey(0))
	must(t, f.Rebuild(t.Context(), nil))
	if n, done := f.countIn(old, hash); done {
		t.Errorf("%d items in the old file", n)
	}
	if n := f.Count(numberKey(0)); n != 1 {
		t.Errorf("%d items, not 1", n)
	}
	must(t, f.Close())
	if n := f.Count(numberKey(0)); n != unknownCount {
		t.Errorf("%d items in a closed filter", n)
	}
}

// TestRebuildKeepsHowItWasOpened: a rebuild opens the new file with the OpenOptions of the old one.
func TestRebuildKeepsHowItWasOpened(t *testing.T) {
	_, path := mustBuild(t, &Options{Capacity: 2000, KeepHashes: true}, numbers(0, 1000))
	f := mustOpen(t, path, &OpenOptions{
		RequireHashes: true, Checked: true, CommitInterval: time.Hour, LogBytes: 4 << 20, Residency: ResidencyWillNeed,
		OnError: func(error) {},
	})
	for range 2 {
		must(t, f.Rebuild(t.Context(), nil))
		o := f.open.Load()
		if w := o.work; !w.Files.RequireHashes || !o.checked || w.Interval != time.Hour || o.logBytes != 4<<20 ||
			o.residency != ResidencyWillNeed || w.OnError == nil {
			t.Errorf("%+v, checked %t, a log of %d bytes, %v", w, o.checked, o.logBytes, o.residency)
		}
	}
}

// TestRebuildFromKeys: a filter without hashes is rebuilt from a snapshot of the caller's keys. Keys is
// called while no operation is under way, and may call DurableSeq and DurableOps. The new file also has
// the operations that come later.
func TestRebuildFromKeys(t *testing.T) {
	for _, keep := range []bool{false, true} {
		f, _ := mustCreate(t, &Options{Capacity: 2000, KeepHashes: keep})
		mustInsert(t, f, 0, 1000)
		must(t, f.SyncAt(17))
		err := f.Rebuild(context.Background(), &RebuildOptions{Capacity: 3000, Keys: func() (iter.Seq2[[]byte, error], error) {
			if seq, ops := f.DurableSeq(), f.DurableOps(); seq != 17 || ops != 0 { // these do not wait for operations
				t.Errorf("%d and %d operations are durable", seq, ops)
			}
			return func(yield func([]byte, error) bool) {
				mustDelete(t, f, 0, 200)
				mustInsert(t, f, 1000, 1200)
				numbers(0, 1000)(yield)
			}, nil
		}})
		if s := f.Stats(); err != nil || s.Len != 1000 || s.Capacity != 3000 || s.KeepsHashes != keep {
			t.Errorf("%+v, %v", s, err)
		}
		if err := f.Rebuild(context.Background(), nil); keep != (err == nil) || !keep && !errors.Is(err, ErrNoHashes) {
			t.Errorf("from hashes: %v", err)
		}
		mustHave(t, f, 200, 1200)
	}
}

// TestSyncAtFunc: the function gets the number of operations since the last call, so its sum counts
// exactly the durable operations, whatever other goroutines do.
func TestSyncAtFunc(t *testing.T) {
	f, path := mustCreate(t, &Options{Capacity: 100_000})
	var group crew
	for i := range uint64(4) {
		group.Go(func() { mustInsert(t, f, i*10_000, (i+1)*10_000) })
	}
	operations := uint64(0)
	for round := 0; round < 20 || operations == 0; round++ {
		must(t, bridge.Of(f).SyncAtFunc(func(n uint64) uint64 { operations += n; return operations }))
		if seq := f.DurableSeq(); seq != operations {
			t.Fatalf("%d, not %d", seq, operations)
		}
	}
	group.Wait()
	g := openQuiet(t, abandon(t, f, path))
	defer g.Close()
	if n := g.DurableSeq() + g.DurableOps(); n != g.Len() {
		t.Errorf("%d and %d operations, but %d items", g.DurableSeq(), g.DurableOps(), g.Len())
	}
}

// TestInsertHashes: a rebuild has the hashes that came through the bridge.
func TestInsertHashes(t *testing.T) {
	f, _ := mustCreate(t, &Options{Capacity: 1000, KeepHashes: true})
	hashes := make([]uint64, 100)
	for i := range hashes {
		hashes[i] = f.Hash(numberKey(uint64(i)))
	}
	n, err := bridge.Of(f).InsertHashes(hashes)
	if err != nil || n != len(hashes) {
		t.Fatalf("%d, %v", n, err)
	}
	must(t, f.Rebuild(t.Context(), nil))
	mustHave(t, f, 0, 100)
}

// TestRebuildFails: a rebuild that fails, is cancelled or panics leaves the filter as it was.
func TestRebuildFails(t *testing.T) {
	f, path := mustCreate(t, &Options{Capacity: 1000, KeepHashes: true})
	mustInsert(t, f, 0, 1000)
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
		"panic":  {context.Background(), &RebuildOptions{capacityFor: func(uint64) uint64 { panic(stop) }}, stop},
	} {
		err := func() (err error) {
			defer func() {
				if r := recover(); r != nil {
					err = r.(error)
				}
			}()
			return f.Rebuild(c.ctx, c.opts)
		}()
		if err == nil || !errors.Is(err, c.want) && !(name == "option" && errors.As(err, new(*OptionError))) {
			t.Errorf("%s: %v", name, err)
		}
		mustHave(t, f, 0, 1000)
		if s := f.Stats(); s.UUID != uuid || s.Len != 1000 || s.Rebuilds != 0 {
			t.Errorf("%s: %+v", name, s)
		}
	}
	if list, _ := os.ReadDir(filepath.Dir(path)); len(list) != 3 {
		t.Errorf("the directory has %v", list)
	}
	must(t, errors.Join(f.Rebuild(context.Background(), nil), f.Close()))
	if err := f.Rebuild(context.Background(), nil); !errors.Is(err, ErrClosed) {
		t.Errorf("closed: %v", err)
	}
}

// TestRebuildUnderWay covers C8 for operations during a rebuild: inserts, deletes, batches, syncs,
// counts and lookups go on during rebuilds, and nothing is lost. Run it with -race.
func TestRebuildUnderWay(t *testing.T) {
	f, path := createGrowing(t, 10_000, layout.Auto)
	mustInsert(t, f, 0, 5000)
	must(t, f.Sync())
	r, err := OpenReadOnly(path, nil)
	must(t, err)
	defer r.Close()
	follower := mustFollow(t, path, byHand)
	var group crew
	var stop atomic.Bool
	for g := range uint64(3) {
		group.Go(func() {
			for n := (g + 1) << 32; !stop.Load(); n += 100 {
				if g == 0 {
					var keys [][]byte
					for key := range numbers(n, n+100) {
						keys = append(keys, bytes.Clone(key))
					}
					if done, err := f.InsertBatch(keys); err != nil || done != 100 {
						t.Error(done, err)
						return
					}
				} else {
					mustInsert(t, f, n, n+100)
				}
				mustHave(t, f, n, n+100)
				if g == 1 {
					if err := f.SyncAt(n); err != nil || f.DurableSeq() != n {
						t.Errorf("sequence %d after %d, %v", f.DurableSeq(), n, err)
					}
				}
				mustDelete(t, f, n, n+100)
			}
		})
	}
	group.Go(func() { // readers of the old files and the new ones
		for !stop.Load() {
			mustHave(t, r, 0, 2000)
			mustHave(t, follower, 0, 2000)
			if n := f.Count(first(7)); n == 0 || n > 100 { // other keys may be in its class
				t.Errorf("the count of key 7 is %d", n)
			}
			if _, err := follower.Refresh(); err != nil {
				t.Error(err)
			}
		}
	})
	for i := range 4 {
		if err := f.Rebuild(context.Background(), &RebuildOptions{Capacity: 10_000 + 3000*uint64(i%3)}); err != nil {
			t.Error(err)
		}
	}
	stop.Store(true)
	group.Wait()
	if mustHave(t, f, 0, 5000); f.Len() != 5000 {
		t.Errorf("%d items", f.Len())
	}
	if err := r.Err(); !errors.Is(err, ErrSuperseded) || !r.ContainsString("none of its keys") {
		t.Errorf("a reader of the first file: %v", err)
	}
	if _, err := follower.Refresh(); err != nil || follower.Err() != nil || follower.Stats().Swaps == 0 {
		t.Errorf("a follower: %v, %v, %d", err, follower.Err(), follower.Stats().Swaps)
	}
}
