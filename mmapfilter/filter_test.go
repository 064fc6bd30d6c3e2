package mmapfilter

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/kernel"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/build"
	"pgregory.net/rapid"
)

// TestContainsAgree: all kinds of lookups give the same answers.
func TestContainsAgree(t *testing.T) {
	f, path := mustBuild(t, nil, numbers(0, 5000))
	for r := range len(residencyNames) {
		for _, checked := range []bool{false, true} {
			g, err := OpenReadOnly(path, &OpenOptions{Residency: Residency(r), Checked: checked})
			if err != nil {
				t.Fatalf("%s: %v", Residency(r), err)
			}
			rapid.Check(t, func(t *rapid.T) {
				keys := rapid.SliceOfN(rapid.SliceOf(rapid.Byte()), 0, 200).Draw(t, "keys")
				for key := range numbers(4990, 5010) {
					keys = append(keys, append([]byte(nil), key...))
				}
				hashes, byHash, byKey := make([]uint64, len(keys)), make([]bool, len(keys)), make([]bool, len(keys))
				for i, key := range keys {
					hashes[i] = g.Hash(key)
				}
				g.ContainsHashes(hashes, byHash)
				g.ContainsBatch(keys, byKey)
				for i, key := range keys {
					want := f.Contains(key)
					if g.Contains(key) != want || g.ContainsString(string(key)) != want || g.ContainsHash(hashes[i]) != want || byHash[i] != want || byKey[i] != want {
						t.Fatalf("key %x: want %t", key, want)
					}
				}
			})
			if s := g.Stats(); s.Residency != Residency(r).String() || s.ResidentBytes == 0 {
				t.Errorf("%s: %+v", Residency(r), s)
			}
			must(t, g.Close())
		}
	}
}

func TestBatchWantsRoomForAnswers(t *testing.T) {
	f, _ := mustBuild(t, nil, numbers(0, 10))
	for name, ask := range map[string]func(found []bool){
		"ContainsBatch":  func(found []bool) { f.ContainsBatch(make([][]byte, 3), found) },
		"ContainsHashes": func(found []bool) { f.ContainsHashes(make([]uint64, 3), found) },
	} {
		func() {
			found := []bool{true, true}
			defer func() {
				if recover() == nil || !found[0] || !found[1] {
					t.Errorf("%s wrote %v", name, found)
				}
			}()
			ask(found[:2:2])
		}()
	}
}

func TestContainsAllocatesNothing(t *testing.T) {
	_, path := mustBuild(t, nil, numbers(0, 5000))
	for _, checked := range []bool{false, true} {
		f := mustOpenReadOnly(t, path, &OpenOptions{Checked: checked})
		follower := mustFollow(t, path, &OpenOptions{Checked: checked, FollowInterval: -1})
		key, keys := []byte("absent"), make([][]byte, 300)
		hashes, found := make([]uint64, 300), make([]bool, 300)
		for name, ask := range map[string]func(){
			"Contains":       func() { f.Contains(key) },
			"ContainsString": func() { f.ContainsString("absent") },
			"ContainsHash":   func() { f.ContainsHash(77) },
			"ContainsBatch":  func() { f.ContainsBatch(keys, found) },
			"ContainsHashes": func() { f.ContainsHashes(hashes, found) },
			"a follower":     func() { follower.Contains(key); follower.ContainsString("absent"); follower.ContainsBatch(keys, found) },
		} {
			if n := testing.AllocsPerRun(100, ask); n != 0 {
				t.Errorf("checked=%t: %s allocates %v times", checked, name, n)
			}
		}
	}
}

// TestOpenLeaksNothing opens and closes a filter, and tries to open a bad file. Neither must leave a
// goroutine, descriptor or mapping behind.
func TestOpenLeaksNothing(t *testing.T) {
	_, path := mustBuild(t, nil, numbers(0, 1000))
	bad := filepath.Join(t.TempDir(), "bad")
	must(t, os.WriteFile(bad, make([]byte, 50_000), 0o600))
	mappings := func() int {
		maps, err := os.ReadFile("/proc/self/maps")
		if err != nil {
			return 0 // another system
		}
		return strings.Count(string(maps), path)
	}
	mustLeakNothing, mapped := leaks(t), mappings()
	for range 200 {
		f, err := Open(path, nil)
		must(t, err)
		f.Close()
		if _, err := Open(bad, nil); err == nil {
			t.Fatal("opened")
		}
	}
	for range 10 { // cleanups run after a collection
		runtime.GC()
	}
	if mustLeakNothing(); mappings() > mapped {
		t.Errorf("%d mappings, %d before", mappings(), mapped)
	}
}

// TestChecked cuts a file short while it is mapped. Lookups that need the missing part answer "maybe",
// and Err says why. All other lookups give right answers.
func TestChecked(t *testing.T) {
	_, path := mustBuild(t, nil, numbers(0, 500_000))
	f := mustOpenReadOnly(t, path, &OpenOptions{Checked: true})
	answers := func() (found, asked int) { return countFound(f, numbers(1_000_000, 1_020_000)) }
	absent, asked := answers()
	if err := f.Err(); err != nil || absent > asked/50 {
		t.Fatalf("%d of %d found, %v", absent, asked, err)
	}
	info, err := os.Stat(path)
	must(t, err)
	if err := os.Truncate(path, info.Size()/2/layout.PageBytes*layout.PageBytes); err != nil {
		t.Skipf("this system keeps a mapped file from being cut short: %v", err)
	}
	for range 2 {
		found, _ := answers()
		if found < asked*4/10 || found > asked*6/10 {
			t.Errorf("with half of the file gone, %d of %d answers are maybe", found, asked)
		}
	}
	if all, asked := countFound(f, numbers(0, 100_000)); all != asked {
		t.Errorf("for %d of %d keys, the answer is certainly not", asked-all, asked)
	}
	var e *CorruptError
	if err := f.Err(); !errors.As(err, &e) || e.Region != layout.RegionBuckets || e.Offset < info.Size()/2/layout.PageBytes*layout.PageBytes || e.Offset >= info.Size() {
		t.Errorf("Err is %v", err)
	}
	byKey, byHash := 0, 0
	for i := range 1000 {
		if f.Contains(fmt.Appendf(nil, "key %06d", i)) { // a key short enough for a Direct
			byKey++
		}
		if f.ContainsHash(spread(i)) {
			byHash++
		}
	}
	if byKey < 400 || byKey > 600 || byHash < 400 || byHash > 600 {
		t.Errorf("of 1,000 single lookups %d by key and %d by hash say maybe", byKey, byHash)
	}
	unknown := 0
	for key := range numbers(0, 1000) {
		switch n := f.Count(key); n {
		case 0:
			t.Fatal("the count of a key in the filter is 0")
		case unknownCount:
			unknown++
		}
	}
	if unknown < 400 {
		t.Errorf("of 1,000 keys, only %d cannot be counted", unknown)
	}
	f.Stats()
	if err := f.Close(); !errors.As(err, &e) {
		t.Errorf("Close returns %v", err)
	}
}

// A hookContext calls a function when its Err is first called. Verify calls Err after it has opened a
// file, and before it reads the lines.
type hookContext struct {
	context.Context
	once sync.Once
	hook func() error
	err  error // of the hook
}

func (c *hookContext) Err() error {
	c.once.Do(func() { c.err = c.hook() })
	return nil
}

// A countedContext ends after a number of calls of Err.
type countedContext struct {
	context.Context
	left atomic.Int64
}

func endingAfter(t *testing.T, looks int64) context.Context {
	c := &countedContext{Context: t.Context()}
	c.left.Store(looks)
	return c
}

func (c *countedContext) Err() error {
	if c.left.Add(-1) < 0 {
		return context.Canceled
	}
	return nil
}

// TestOpenOfAFileCutShort covers R5: with some residencies, opening reads the whole file and reports its
// progress. If the file is cut short meanwhile, opening fails.
func TestOpenOfAFileCutShort(t *testing.T) {
	t.Parallel() // uses only one processor
	_, path := mustBuild(t, nil, numbers(0, 1000))
	for r, want := range map[Residency]bool{ResidencyDefault: false, ResidencyPopulate: true, ResidencyLock: true, ResidencyHeap: true} {
		var done, total int64
		mustOpenReadOnly(t, path, &OpenOptions{Residency: r, Progress: func(d, t int64) { done, total = d, t }})
		if done != total || total > 0 != want {
			t.Errorf("%s: %d of %d", r, done, total)
		}
	}
	if testing.Short() {
		t.Skip("it builds a file of 100 MB")
	}
	for _, r := range []Residency{ResidencyPopulate, ResidencyLock, ResidencyHeap} {
		_, path := mustBuild(t, &Options{Capacity: 60_000_000}, numbers(0, 1000)) // larger than one step of 64 MiB
		_, err := OpenReadOnly(path, &OpenOptions{Residency: r, Progress: func(done, total int64) {
			if done < total {
				if err := os.Truncate(path, 50_000); err != nil {
					t.Skip("this system keeps a mapped file from being cut short: ", err)
				}
			}
		}})
		if !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v", r, err)
		}
	}
}

func TestOptions(t *testing.T) {
	for field, opts := range map[string]*Options{
		"FalsePositiveRate":   {FalsePositiveRate: -0.1},
		"FalsePositiveRate ":  {FalsePositiveRate: 1},
		"FalsePositiveRate2":  {FalsePositiveRate: 1e-12},
		"FalsePositiveRate22": {FalsePositiveRate: math.NaN()},
		"Layout":              {Layout: 77},
		"Layout ":             {Layout: layout.Compact + 1},
		"Layout2":             {Layout: 6}, // an older number of Compact
		"Layout22":            {Layout: 1}, // another unused number
		"FingerprintBits":     {FingerprintBits: 33, Layout: layout.Packed},
		"FingerprintBits ":    {FingerprintBits: 12, BucketSize: 3, Layout: layout.Packed},
		"FingerprintBits2":    {FingerprintBits: -1, Layout: layout.SemiSorted},
		"FingerprintBits22":   {FingerprintBits: 4, BucketSize: 1, Layout: layout.Packed, Capacity: 1 << 33},
		"FingerprintBits 2":   {FingerprintBits: 12},
		"FingerprintBits222":  {FingerprintBits: 14, Layout: layout.Compact},
		"BucketSize2":         {BucketSize: 55, Layout: layout.Compact},
		"BucketSize":          {BucketSize: 4},
		"BucketSize ":         {BucketSize: -1, Layout: layout.Packed},
		"Capacity":            {Capacity: 1 << 63},
		"Capacity ":           {Capacity: 1 << 46},
		"MemoryBudget":        {MemoryBudget: 1},
		"MemoryBudget ":       {MemoryBudget: -1},
		"Workers":             {Workers: -1},
		"Workers ":            {Workers: 1 << 20},
		"Normalisation":       {Normalisation: strings.Repeat("x", 257)},
		"Normalisation ":      {Normalisation: "\xff"},
		"Normalisation2":      {Normalisation: "a\x00b"},
	} {
		_, err := opts.Plan()
		var e *OptionError
		if !errors.As(err, &e) || e.Field != strings.TrimRight(field, " 2") || e.Reason == "" {
			t.Errorf("%s: %v", field, err)
		}
	}
	if err := (&Options{Normalisation: strings.Repeat("x", 256)}).validate(); err != nil {
		t.Error(err)
	}
	var none *Options
	if err := none.validate(); err != nil {
		t.Error(err)
	}
	var e *OptionError
	if _, err := Open("x", &OpenOptions{Residency: 99}); !errors.As(err, &e) || e.Field != "Residency" {
		t.Errorf("%v", err)
	}
}

// TestPlan checks that plans fulfil the options, for all rates.
func TestPlan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		opts := &Options{
			Capacity:          rapid.Uint64Range(0, 1<<32).Draw(t, "capacity"),
			FalsePositiveRate: rapid.Float64Range(1e-8, 0.3).Draw(t, "rate"),
		}
		p, err := opts.Plan()
		must(t, err)
		if p.PredictedRate > opts.FalsePositiveRate || p.DesignLoad < 0.93 || p.DesignLoad > 0.95 || p.FileBytes <= int64(p.Lines)*64 {
			t.Fatalf("%+v", p)
		}
		percent := uint64(math.Round(100 * p.DesignLoad))
		if slots := p.geometry.Slots(); opts.Capacity*100 > percent*slots {
			t.Fatalf("%d keys in %d slots: %+v", opts.Capacity, slots, p)
		}
		if tasks := build.TaskCount(p.Lines, 512); p.Lines%tasks != 0 {
			t.Fatalf("%d lines in %d tasks", p.Lines, tasks)
		}
	})
	small, _ := (&Options{Capacity: 1e6, FalsePositiveRate: 0.01}).Plan()
	smaller, _ := (&Options{Capacity: 1e6, FalsePositiveRate: 0.02}).Plan()
	if smaller.FileBytes > small.FileBytes {
		t.Error("a higher rate takes more space")
	}
}

func TestStats(t *testing.T) {
	f, path := mustBuild(t, &Options{Normalisation: "hex", Seed: 5, FalsePositiveRate: 0.02}, numbers(0, 100_000))
	s := f.Stats()
	info, err := os.Stat(path)
	must(t, err)
	if s.Len != 100_000 || s.Capacity != 100_000 || s.Layout != layout.Compact || s.Quotients != 46 || s.RemainderBits != 6 || s.FingerprintBits != 0 || s.BucketSize != 0 ||
		s.Seed != 5 || s.Normalisation != "hex" || s.FileBytes != info.Size() || s.State != "sealed" || s.Generation != 1 ||
		s.Len < s.Slots*94/100 || s.Len > s.Slots*95/100 || s.Kernel != kernel.InUse().String() || s.Slots != s.Lines*62 || len(s.UUID) != 32 {
		t.Errorf("%+v", s)
	}
	found, asked := countFound(f, numbers(1<<40, 1<<40+1_000_000))
	measured := float64(found) / float64(asked)
	if s.EstimatedRate < 0.9*measured || s.EstimatedRate > 1.1*measured {
		t.Errorf("the estimated rate is %v, and the measured rate %v", s.EstimatedRate, measured)
	}
	f, _ = mustBuild(t, &Options{Layout: layout.Packed, FingerprintBits: 12}, numbers(0, 100_000))
	if p, _ := (&Options{Layout: layout.Packed, FingerprintBits: 12}).Plan(); f.Stats().TargetRate != p.PredictedRate || f.Stats().FingerprintBits != 12 {
		t.Errorf("target %v, predicted %v", f.Stats().TargetRate, p.PredictedRate)
	}
}
