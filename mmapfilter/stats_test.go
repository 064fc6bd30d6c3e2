package mmapfilter

import (
	"context"
	"encoding/json"
	"errors"
	"expvar"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mmapfilter/mmapfilter/layout"
)

// TestStatsAsJSON reads the stats of a filter as a monitor would: as the JSON of a published variable.
// It reads them while the filter changes, and after it is closed.
func TestStatsAsJSON(t *testing.T) {
	f, _ := mustCreate(t, &Options{Capacity: 1000})
	v := expvar.Func(func() any { return f.Stats() })
	read := func() (s Stats) {
		t.Helper()
		if err := json.Unmarshal([]byte(v.String()), &s); err != nil {
			t.Fatalf("%v in %s", err, v)
		}
		return s
	}
	if s := read(); s.Len != 0 || s.Capacity != 1000 || s.State != "clean" || s.BitsPerKey != 0 || s.Layout != layout.Compact {
		t.Errorf("an empty filter: %+v", s)
	}
	for i := range uint64(700) {
		must(t, f.InsertHash(i*0x9E3779B97F4A7C15))
	}
	if s := read(); s.Len != 700 || s.Pending != 700 || s.LogBytes == 0 || s.DurableSeq != 0 || s.State != "live" || s.Slots < 1000 {
		t.Errorf("with pending operations: %+v", s)
	}
	must(t, f.SyncAt(17))
	if s := read(); s.Pending != 0 || s.DurableSeq != 17 || s.Commits != 1 || s.EstimatedRate == 0 {
		t.Errorf("with durable operations: %+v", s)
	}
	generation := read().Generation
	must(t, f.Checkpoint(context.Background()))
	if s := read(); s.Generation != generation+1 || s.Checkpoints != 1 {
		t.Errorf("after a checkpoint: %+v", s)
	}
	f.Close()
	if s, want := read(), (Stats{Len: 700, Plan: Plan{Capacity: 1000}, State: "closed"}); s != want {
		t.Errorf("after Close: %+v", s)
	}
}

// TestStatsOfHistory: until a rebuild, the stats of a writer and of a later reader say how many keys
// were left out and how many deletes wait. The stats of a reader say whether the hashes are missing.
func TestStatsOfHistory(t *testing.T) {
	f, path := mustCreate(t, &Options{Capacity: 1000, AutoGrow: true})
	check := func(f *Filter, leftOut, waiting uint64) {
		t.Helper()
		if s := f.Stats(); s.LeftOut != leftOut || s.Waiting != waiting || s.GrowthErr != "" || !s.Grows {
			t.Errorf("%d left out, %d waiting: %+v", leftOut, waiting, s)
		}
	}
	must(t, errors.Join(f.Insert([]byte("a")), f.Insert([]byte("b"))))
	check(f, 0, 0)
	if added, err := f.InsertUnique([]byte("a")); err != nil || added {
		t.Fatal(added, err)
	}
	check(f, 1, 0)
	if deleted, err := f.Delete([]byte("b")); err != nil || !deleted {
		t.Fatal(deleted, err)
	}
	check(f, 1, 1)
	if f.Len() != 2 || f.Count([]byte("b")) != 1 {
		t.Errorf("a waiting delete: %d items; the count of the key is %d", f.Len(), f.Count([]byte("b")))
	}
	reader := mustOpenReadOnly(t, path, nil)
	check(reader, 0, 0) // as of the last checkpoint
	was := reader.Len()
	must(t, f.Close())
	if check(reader, 1, 1); was != 0 || reader.Len() != 2 {
		t.Errorf("a reader has %d items before Close, and %d afterwards", was, reader.Len())
	}
	f = mustOpen(t, path, nil)
	check(f, 1, 1)
	must(t, f.Rebuild(context.Background(), nil))
	check(f, 0, 0)
	if f.Len() != 1 || f.ContainsString("b") {
		t.Errorf("after a rebuild: %d items", f.Len())
	}
	must(t, f.Close())
	must(t, os.Remove(path+".hashes"))
	if s := mustOpenReadOnly(t, path, nil).Stats(); !strings.Contains(s.GrowthErr, "NAME.hashes") {
		t.Errorf("without hashes: %q", s.GrowthErr)
	}
}

// TestTheSeedIsInNoJSON: the JSON of the stats of a filter or a follower does not contain the seed, in
// decimal or in hex.
func TestTheSeedIsInNoJSON(t *testing.T) {
	const seed = 0xfeedfacecafebeef
	f, path := mustBuild(t, &Options{Seed: seed}, numbers(0, 100))
	follower := mustFollow(t, path, &OpenOptions{FollowInterval: -1})
	if f.Stats().Seed != seed {
		t.Error("Stats has another seed")
	}
	for _, s := range []Stats{f.Stats(), follower.Stats()} {
		text, err := json.Marshal(s)
		must(t, err)
		if !strings.Contains(string(text), `"keys":100,`) {
			t.Errorf("%s", text)
		}
		for _, form := range []string{fmt.Sprint(uint64(seed)), fmt.Sprintf("%x", uint64(seed)), "eed\":"} {
			if strings.Contains(strings.ToLower(string(text)), form) {
				t.Errorf("the JSON contains the seed: %s", text)
			}
		}
	}
}

// TestStatsOfNothing: a filter built from no keys has a capacity of 0, and 0 bits per key.
func TestStatsOfNothing(t *testing.T) {
	f, path := mustBuild(t, nil, numbers(0, 0))
	if s := f.Stats(); s.Capacity != 0 || s.BitsPerKey != 0 {
		t.Errorf("no keys: %+v", s)
	}
	g := mustOpen(t, path, nil)
	must(t, g.Insert([]byte("a")))
	if s := g.Stats(); s.Len != 1 || s.Capacity != 0 || s.BitsPerKey != float64(8*s.FileBytes) {
		t.Errorf("one key: %+v", s)
	}
}

// TestEstimatedRateOfHalf: the estimate of the rate is from a sample of lines from the whole file. If
// all keys are in the upper half of the lines, the estimate must include both halves.
func TestEstimatedRateOfHalf(t *testing.T) {
	const n = 400_000
	f, _ := mustCreate(t, &Options{Capacity: n, FalsePositiveRate: 0.02})
	for _, h := range hashes(12, n*45/100) {
		must(t, f.InsertHash(h|1<<63))
	}
	must(t, f.Sync())
	s, found := f.Stats(), 0
	absent := hashes(13, 400_000)
	for _, h := range absent {
		if f.ContainsHash(h) {
			found++
		}
	}
	measured := float64(found) / float64(len(absent))
	if s.Lines < 4*sampledLines || s.EstimatedRate < 0.9*measured || s.EstimatedRate > 1.1*measured {
		t.Errorf("the estimated rate is %v, and the measured rate %v; %d lines", s.EstimatedRate, measured, s.Lines)
	}
}

// TestWriterEndsMeanwhile: if a writer closes its file, or replaces it, between the read of a superblock
// and the check of the lock, the writer has not died. A follower then has no error, and Verify returns
// ErrBusy.
func TestWriterEndsMeanwhile(t *testing.T) {
	for _, verifies := range []bool{false, true} {
		w, path := mustCreate(t, &Options{Capacity: 1000, KeepHashes: true})
		must(t, errors.Join(w.InsertHash(spread(0)), w.Sync()))
		f := mustFollow(t, path, byHand)
		look := func() {
			if _, err := Verify(context.Background(), path); verifies && !errors.Is(err, ErrBusy) {
				t.Errorf("Verify: %v", err)
			}
		}
		if !verifies {
			look = func() {
				if swapped, err := f.Refresh(); swapped || err != nil || f.Err() != nil && !errors.Is(f.Err(), ErrSuperseded) {
					t.Errorf("swapped: %t, %v, %v", swapped, err, f.Err())
				}
			}
		}
		handsOverMeanwhile(t, w, look)
		mustSwap(t, f, true)
		must(t, errors.Join(w.InsertHash(spread(1)), w.Sync()))
		was, asked := beforeAsking, 0
		beforeAsking = func() {
			if asked++; asked == 1 {
				must(t, w.Close())
			}
		}
		look()
		if beforeAsking = was; asked == 0 {
			t.Error("the lock was not checked")
		}
	}
}

// handsOverMeanwhile calls look, which checks whether the file of w has a writer. After look has read
// the superblock, and before it checks the lock, w replaces the file in a Rebuild.
func handsOverMeanwhile(t *testing.T, w *Filter, look func()) {
	t.Helper()
	defer func(old func()) { beforeAsking = old }(beforeAsking)
	asking, handedOver, looked := make(chan bool), make(chan bool), make(chan bool)
	beforeAsking = func() {
		asking <- true
		<-handedOver
	}
	var once sync.Once
	err := w.Rebuild(context.Background(), &RebuildOptions{Progress: func(string, uint64, uint64) {
		once.Do(func() {
			go func() {
				defer close(looked)
				look()
			}()
			<-asking
		})
	}})
	must(t, err)
	close(handedOver)
	<-looked
}

// TestStatsOfPast: the stats of the writer and of a reader say for how long changes are kept, and in how
// many bytes.
func TestStatsOfPast(t *testing.T) {
	f, path := mustCreate(t, &Options{Capacity: 1000, KeepChanges: time.Hour})
	mustInsert(t, f, 0, 10)
	if s := f.Stats(); s.KeepChanges != time.Hour || s.PastBytes != 0 {
		t.Errorf("before a rebuild: %v, %d bytes", s.KeepChanges, s.PastBytes)
	}
	size := int64(0)
	for range 2 {
		must(t, f.Rebuild(context.Background(), nil))
		past, err := os.Stat(path + ".past")
		must(t, err)
		size += past.Size()
		for _, g := range []*Filter{f, mustOpenReadOnly(t, path, nil)} {
			if s := g.Stats(); s.KeepChanges != time.Hour || s.PastBytes != size {
				t.Errorf("%v, %d bytes of %d", s.KeepChanges, s.PastBytes, size)
			}
		}
	}
}
