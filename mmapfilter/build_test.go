package mmapfilter

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
)

// shuffled yields the keys of numbers(0, n) in an order that depends on seed.
func shuffled(n int, seed uint64) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for _, i := range rand.New(rand.NewPCG(seed, 0)).Perm(n) {
			if !yield(binary.LittleEndian.AppendUint64(nil, uint64(i)), nil) {
				return
			}
		}
	}
}

// TestBuildOfEverySize builds filters of few keys, which have few lines and depend most on
// chance, and finds every key.
func TestBuildOfEverySize(t *testing.T) {
	for _, p := range shapes() {
		for n := uint64(0); n < 1500; n += 1 + n/10 {
			path := filepath.Join(t.TempDir(), "f")
			opts := p.options(Options{})
			f, err := Build(context.Background(), path, &opts, numbers(n, 2*n))
			if err != nil {
				t.Fatalf("%s: %d keys: %v", p, n, err)
			}
			if found, _ := countFound(f, numbers(n, 2*n)); uint64(found) != n || f.Len() != n || f.Cap() != n {
				t.Fatalf("%s: %d of %d keys found, Len %d, Cap %d", p, found, n, f.Len(), f.Cap())
			}
			if _, err := Verify(context.Background(), path); err != nil {
				t.Fatal(err)
			}
			f.Close()
			os.Remove(path)
		}
	}
}

// TestBuildIsReproducible: the file depends on the keys and the options that say so, not on the
// order of the keys, the workers, the memory or the time.
func TestBuildIsReproducible(t *testing.T) {
	shapes := []shape{compact7, newShape(layout.Packed, 11, 4), newShape(layout.Packed, 13, 1), newShape(layout.SemiSorted, 15, 4), compact5, compact26}
	if testing.Short() {
		shapes = shapes[:2] // one whose lines have their own words, and one whose lines share words
	}
	for _, s := range shapes {
		t.Run(s.String(), func(t *testing.T) {
			testReproducible(t, s.options(Options{}))
		})
	}
}

func testReproducible(t *testing.T, base Options) {
	n := uint64(700_000)
	if testing.Short() {
		n = 200_000
	}
	_, path := mustBuild(t, &base, numbers(0, n))
	want, err := os.ReadFile(path)
	must(t, err)
	for name, c := range map[string]struct {
		change func(*Options)
		keys   iter.Seq2[[]byte, error]
		same   bool
	}{
		"again":          {nil, numbers(0, n), true},
		"one worker":     {func(o *Options) { o.Workers = 1 }, numbers(0, n), true},
		"many workers":   {func(o *Options) { o.Workers = 13 }, numbers(0, n), true},
		"spilled":        {func(o *Options) { o.MemoryBudget, o.Workers = 2<<20, 2 }, numbers(0, n), true},
		"spilled by one": {func(o *Options) { o.MemoryBudget, o.Workers = 1<<20, 1 }, shuffled(int(n), 1), true},
		"shuffled":       {nil, shuffled(int(n), 2), true},
		"capacity given": {func(o *Options) { o.Capacity = n }, shuffled(int(n), 3), true},
		"more capacity":  {func(o *Options) { o.Capacity = n + 10_000 }, numbers(0, n), false},
		"another seed":   {func(o *Options) { o.Seed = 1 }, numbers(0, n), false},
		"a note":         {func(o *Options) { o.Normalisation = "x" }, numbers(0, n), false},
		"another key":    {nil, numbers(1, n+1), false},
	} {
		t.Run(name, func(t *testing.T) {
			opts := base
			if c.change != nil {
				c.change(&opts)
			}
			_, path := mustBuild(t, &opts, c.keys)
			got, err := os.ReadFile(path)
			must(t, err)
			if bytes.Equal(got, want) != c.same {
				t.Errorf("same bytes: %t", !c.same)
			}
			if !c.same && bytes.Equal(got[48:64], want[48:64]) {
				t.Error("other bytes, same UUID")
			}
		})
	}
}

// TestBuildSpills checks that Build keeps keys beyond the budget in an unnamed file, not in
// memory.
func TestBuildSpills(t *testing.T) {
	const n = 2_000_000 // 16 MB of hashes
	dir := t.TempDir()
	var left string
	keys := func(yield func([]byte, error) bool) {
		for key := range numbers(0, n) {
			if !yield(key, nil) {
				return
			}
		}
		entries, _ := os.ReadDir(dir)
		for _, e := range entries {
			left += e.Name() + " "
		}
	}
	f, err := Build(context.Background(), filepath.Join(dir, "f"), &Options{MemoryBudget: 1 << 20, Capacity: n}, keys)
	must(t, err)
	defer f.Close()
	if found, _ := countFound(f, numbers(0, n)); found != n {
		t.Errorf("%d of %d keys found", found, n)
	}
	if names := strings.Fields(left); len(names) != 1 || !strings.HasPrefix(names[0], "f.tmp-") {
		t.Errorf("at the end of the keys there were %q", left)
	}
}

// TestWorkersHaveBudget: each worker has a MiB for its buffers.
func TestWorkersHaveBudget(t *testing.T) {
	for _, c := range []struct {
		asked  int
		budget int64
		want   int
	}{{64, 1 << 20, 1}, {64, 5<<20 + 1, 5}, {3, 5 << 20, 3}, {64, 0, 64}} {
		o := Options{Workers: c.asked, MemoryBudget: c.budget}
		if got := o.withDefaults().Workers; got != c.want {
			t.Errorf("%d workers with %d bytes: %d", c.asked, c.budget, got)
		}
	}
}

// TestBuildCountsEqualKeys covers C7 for Build: every copy counts, in the stash if the slots of
// its buckets are full; with Distinct, only the first copy counts.
func TestBuildCountsEqualKeys(t *testing.T) {
	keys := func(yield func([]byte, error) bool) {
		for i := range 1000 {
			for range 1 + i%3*50 {
				if !yield(fmt.Appendf(nil, "key %d", i), nil) {
					return
				}
			}
		}
	}
	const copies = 334 + 333*51 + 333*101                                                     // 666 keys have too many copies for their buckets
	for kind, inStash := range map[layout.Kind]int{layout.Packed: 500, layout.Compact: 333} { // a line of Compact holds 55 copies
		f, path := mustBuild(t, &Options{Layout: kind}, keys)
		if s := f.Stats(); s.Len != copies || s.Capacity != copies || s.StashLen < inStash {
			t.Errorf("%d keys, capacity %d, %d stash entries", s.Len, s.Capacity, s.StashLen)
		}
		if r, err := Verify(context.Background(), path); err != nil || r.Items != copies {
			t.Errorf("%d items, %v", r.Items, err)
		}
	}
	for _, capacity := range []uint64{0, 1000} {
		f, path := mustBuild(t, &Options{Distinct: true, Capacity: capacity}, keys)
		if s := f.Stats(); s.Len != 1000 || s.Capacity != 1000 || s.StashLen > 5 {
			t.Errorf("distinct: %d keys, capacity %d, %d stash entries", s.Len, s.Capacity, s.StashLen)
		}
		if r, err := Verify(context.Background(), path); err != nil || r.Items != 1000 {
			t.Errorf("distinct: %d items, %v", r.Items, err)
		}
		if found, asked := countFound(f, keys); found != asked {
			t.Errorf("distinct: %d of %d found", found, asked)
		}
	}
}

// TestBuildOfManyCopies: one key with many copies takes one stash entry; many such keys need
// more entries than the stash has, and Build refuses them.
func TestBuildOfManyCopies(t *testing.T) {
	copies := func(keys, of int) iter.Seq2[[]byte, error] {
		return func(yield func([]byte, error) bool) {
			for i := range keys * of {
				if !yield(fmt.Appendf(nil, "%d", i%keys), nil) {
					return
				}
			}
		}
	}
	many, keys := 1_000_000, 5000
	if testing.Short() {
		many, keys = 20_000, 2000
	}
	f, _ := mustBuild(t, nil, copies(1, many))
	if s := f.Stats(); s.Len != uint64(many) || s.StashLen != 1 {
		t.Errorf("%d keys, %d stash entries", s.Len, s.StashLen)
	}
	path := filepath.Join(t.TempDir(), "f")
	if _, err := Build(context.Background(), path, nil, copies(keys, 50)); !errors.Is(err, ErrFull) {
		t.Errorf("%d keys 50 times: %v", keys, err)
	}
	if f, err := Build(context.Background(), path, &Options{Distinct: true}, copies(keys, 50)); err != nil || f.Len() != uint64(keys) {
		t.Errorf("distinct: %v", err)
	}
}

// TestBuildPastCapacity: Build takes some keys beyond the capacity. If there are too many, it
// returns ErrFull rather than dropping a key.
func TestBuildPastCapacity(t *testing.T) {
	opts := &Options{Capacity: 10_000}
	f, _ := mustBuild(t, opts, numbers(0, 10_300))
	if found, _ := countFound(f, numbers(0, 10_300)); found != 10_300 || f.Len() != 10_300 || f.Cap() != 10_000 {
		t.Errorf("%d found, Len %d, Cap %d", found, f.Len(), f.Cap())
	}
	path := filepath.Join(t.TempDir(), "f")
	if _, err := Build(context.Background(), path, opts, numbers(0, 12_000)); !errors.Is(err, ErrFull) {
		t.Errorf("12,000 keys: %v", err)
	}
}

// TestBuildKeysOfAnyLength: short and long keys are hashed in different places. All are found,
// even though the caller reuses one buffer for them.
func TestBuildKeysOfAnyLength(t *testing.T) {
	const n = 50_000
	lengths := []int{0, 1, 3, 4, 8, 9, 15, 16, 17, 18, 32, 64, 128, 129, 240, 241, 300}
	buffer := make([]byte, 300)
	key := func(i int) []byte {
		for j := range buffer {
			buffer[j] = byte(i>>(j%4*8)) ^ byte(j)
		}
		return buffer[:lengths[i%len(lengths)]]
	}
	for _, workers := range []int{1, 3} {
		f, _ := mustBuild(t, &Options{Workers: workers, FalsePositiveRate: 1e-6, Distinct: true}, func(yield func([]byte, error) bool) {
			for i := range n {
				if !yield(key(i), nil) {
					return
				}
			}
		})
		for i := range n {
			if !f.Contains(key(i)) {
				t.Fatalf("%d workers: key %d, of %d bytes, is not there", workers, i, len(key(i)))
			}
		}
	}
}

func TestBuildReportsProgress(t *testing.T) {
	seen := map[string]uint64{}
	_, _ = mustBuild(t, &Options{Progress: func(stage string, done, total uint64) {
		if total != 0 && done > total {
			t.Errorf("%s: %d of %d", stage, done, total)
		}
		seen[stage] = done
	}}, numbers(0, 300_000))
	for _, stage := range []string{"hash", "fill", "place", "check"} {
		if seen[stage] == 0 {
			t.Errorf("no word of %s: %v", stage, seen)
		}
	}
}
