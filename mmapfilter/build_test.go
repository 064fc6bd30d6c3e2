package mmapfilter

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
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

// copies yields so many keys, each of them as many times as of says.
func copies(keys, of int) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for i := range keys * of {
			if !yield(fmt.Appendf(nil, "%d", i%keys), nil) {
				return
			}
		}
	}
}

// mustHaveAll checks that a filter has all keys, the given number of items, and no damage.
func mustHaveAll(t *testing.T, f *Filter, path string, keys iter.Seq2[[]byte, error], items uint64) {
	t.Helper()
	if found, asked := countFound(f, keys); found != asked || f.Len() != items {
		t.Errorf("%d of %d keys found, Len %d, not %d", found, asked, f.Len(), items)
	}
	if r, err := Verify(context.Background(), path); err != nil || r.Items != items {
		t.Errorf("%d items, %v", r.Items, err)
	}
}

// TestBuildOfEverySize builds small filters: with few lines, success depends most on chance.
func TestBuildOfEverySize(t *testing.T) {
	path := filepath.Join(memoryDir(t), "f")
	for _, p := range shapes() {
		for n := uint64(0); n < 1500; n += 1 + n/10 {
			opts := p.options(Options{})
			f, err := Build(context.Background(), path, &opts, numbers(n, 2*n))
			must(t, err)
			if mustHave(t, f, n, 2*n); f.Cap() != n || t.Failed() {
				t.Fatalf("%s: %d keys: Cap %d", p, n, f.Cap())
			}
			f.Close()
		}
	}
}

// TestBuildIsReproducible: the file depends only on the keys and on options that say so. It does not
// depend on the order of the keys, the number of workers, the memory budget or the time.
func TestBuildIsReproducible(t *testing.T) {
	// In the first shape, each line has its own words. In the other two, lines share words.
	for _, s := range []shape{compact7, newShape(layout.Packed, 11, 4), newShape(layout.SemiSorted, 15, 4)} {
		t.Run(s.String(), func(t *testing.T) {
			const n = 200_000
			base := s.options(Options{})
			want := image(t, &base, numbers(0, n))
			for name, c := range map[string]struct {
				change func(*Options)
				keys   iter.Seq2[[]byte, error]
				same   bool
			}{
				"again":          {func(*Options) {}, numbers(0, n), true},
				"one worker":     {func(o *Options) { o.Workers = 1 }, numbers(0, n), true},
				"many workers":   {func(o *Options) { o.Workers = 13 }, numbers(0, n), true},
				"spilled":        {func(o *Options) { o.MemoryBudget, o.Workers = 2<<20, 2 }, numbers(0, n), true},
				"spilled by one": {func(o *Options) { o.MemoryBudget, o.Workers = 1<<20, 1 }, shuffled(n, 1), true},
				"shuffled":       {func(*Options) {}, shuffled(n, 2), true},
				"capacity given": {func(o *Options) { o.Capacity = n }, shuffled(n, 3), true},
				"more capacity":  {func(o *Options) { o.Capacity = n + 10_000 }, numbers(0, n), false},
				"another seed":   {func(o *Options) { o.Seed = 1 }, numbers(0, n), false},
				"a note":         {func(o *Options) { o.Normalisation = "x" }, numbers(0, n), false},
				"another key":    {func(*Options) {}, numbers(1, n+1), false},
			} {
				opts := base
				c.change(&opts)
				got := image(t, &opts, c.keys)
				if bytes.Equal(got, want) != c.same {
					t.Errorf("%s: same bytes: %t", name, !c.same)
				}
				if !c.same && bytes.Equal(got[48:64], want[48:64]) {
					t.Errorf("%s: other bytes, same UUID", name)
				}
			}
		})
	}
}

// TestBuildSpills checks that Build puts keys that exceed the memory budget into a file, which has no
// name if the system allows this.
func TestBuildSpills(t *testing.T) {
	const n = 500_000 // 4 MB of hashes
	path := filepath.Join(t.TempDir(), "f")
	var at []string
	f, err := Build(context.Background(), path, &Options{MemoryBudget: 1 << 20, Capacity: n}, func(yield func([]byte, error) bool) {
		numbers(0, n)(yield)
		at, _ = filepath.Glob(path + "*")
	})
	must(t, err)
	defer f.Close()
	mustHaveAll(t, f, path, numbers(0, n), n)
	want := 1
	if runtime.GOOS == "windows" {
		want = 2 // an open file keeps its name
	}
	if len(at) != want || at[0] == path {
		t.Errorf("at the end of the keys, the files were %q", at)
	}
}

// TestWorkersHaveBudget: Build starts no more workers than the memory budget has MiB, since each worker
// needs a MiB for its buffers.
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

// TestBuildCountsEqualKeys covers C7 for Build: it counts every copy of a key. Copies that find no slot
// in their lines share one entry of the stash. With Distinct, Build counts only the first copy. If too
// many keys need an entry of the stash, Build fails.
func TestBuildCountsEqualKeys(t *testing.T) {
	for _, kind := range []layout.Kind{layout.Packed, layout.Compact} {
		for _, c := range []struct {
			keys, of     int
			distinct     bool
			least, stash int // entries
		}{
			{1, 100_000, false, 1, 1},
			{333, 101, false, 300, 333},
			{333, 101, true, 0, 5},
			{2000, 100, false, -1, 0},
			{2000, 100, true, 0, 5},
		} {
			for _, capacity := range []int{0, c.keys} {
				o := &Options{Layout: kind, Distinct: c.distinct, Capacity: uint64(capacity)}
				items := c.keys * c.of
				if c.distinct {
					items = c.keys
				} else if capacity != 0 {
					o.Capacity = uint64(items)
				}
				path := filepath.Join(t.TempDir(), "f")
				f, err := Build(context.Background(), path, o, copies(c.keys, c.of))
				if c.least < 0 {
					if !errors.Is(err, ErrFull) {
						t.Errorf("%s, %+v: %v", kind, c, err)
					}
					continue
				}
				must(t, err)
				mustHaveAll(t, f, path, copies(c.keys, c.of), uint64(items))
				if s := f.Stats(); s.Capacity != uint64(items) || s.StashLen < c.least || s.StashLen > c.stash {
					t.Errorf("%s, %+v: capacity %d, %d entries of the stash", kind, c, s.Capacity, s.StashLen)
				}
				f.Close()
			}
		}
	}
}

// TestBuildKeysOfAnyLength: Build hashes short and long keys in different places. All are found, even
// though the caller reuses one buffer for them.
func TestBuildKeysOfAnyLength(t *testing.T) {
	lengths := []int{0, 1, 3, 4, 8, 9, 15, 16, 17, 18, 32, 64, 128, 129, 240, 241, 300}
	buffer := make([]byte, 300)
	keys := func(yield func([]byte, error) bool) {
		for i := range 20_000 {
			for j := range buffer {
				buffer[j] = byte(i>>(j%4*8)) ^ byte(j)
			}
			if !yield(buffer[:lengths[i%len(lengths)]], nil) {
				return
			}
		}
	}
	for _, workers := range []int{1, 3} {
		f, _ := mustBuild(t, &Options{Workers: workers, FalsePositiveRate: 1e-6, Distinct: true}, keys)
		for key := range keys {
			if !f.Contains(key) {
				t.Fatalf("%d workers: a key of %d bytes is missing", workers, len(key))
			}
		}
	}
}

// TestBuildReportsProgress: Build reports its progress in each stage, and Verify in the whole file.
func TestBuildReportsProgress(t *testing.T) {
	seen := map[string]uint64{}
	_, path := mustBuild(t, &Options{Progress: func(stage string, done, total uint64) {
		if total != 0 && done > total {
			t.Errorf("%s: %d of %d", stage, done, total)
		}
		seen[stage] = done
	}}, numbers(0, 300_000))
	for _, stage := range []string{"hash", "fill", "place", "check"} {
		if seen[stage] == 0 {
			t.Errorf("no progress in stage %s: %v", stage, seen)
		}
	}
	words := 0 // number of reports before the sequence ends; its keys are few and long
	mustBuild(t, &Options{Capacity: 1000, Progress: func(string, uint64, uint64) { words++ }}, func(yield func([]byte, error) bool) {
		long := make([]byte, 4096)
		for i := range 1000 {
			binary.LittleEndian.PutUint64(long, uint64(i))
			if !yield(long, nil) {
				return
			}
		}
		if words < 10 {
			t.Errorf("4 MB of keys were hashed, but progress was reported only %d times", words)
		}
	})
	var done, total int64
	if _, err := Verify(context.Background(), path, nil, func(d, n int64) { done, total = d, n }); err != nil || total == 0 || done != total {
		t.Errorf("verified %d of %d bytes, %v", done, total, err)
	}
}

// TestBuildLeavesNothingBehind makes Build fail in each way that a test can cause, and checks
// the directory, the older file, descriptors and goroutines.
func TestBuildLeavesNothingBehind(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	old := image(t, nil, numbers(0, 10))
	must(t, os.WriteFile(path, old, 0o600))
	broken, why := errors.New("unexpected EOF in part.gz"), errors.New("the user has pressed ^C")
	failing := func(after uint64) iter.Seq2[[]byte, error] {
		return func(yield func([]byte, error) bool) {
			numbers(0, after)(yield)
			yield(nil, broken)
		}
	}
	mustLeakNothing := leaks(t)
	fails := func(name string, ctx context.Context, opts *Options, keys iter.Seq2[[]byte, error], want error) {
		t.Helper()
		err := func() (err error) {
			defer func() {
				if r := recover(); r != nil {
					err = r.(error)
				}
			}()
			_, err = Build(ctx, path, opts, keys)
			return err
		}()
		if !errors.Is(err, want) && !(want == nil && errors.As(err, new(*OptionError))) {
			t.Errorf("%s: %v, not %v", name, err, want)
		}
		if !bytes.Equal(readFile(t, path), old) {
			t.Fatalf("%s: the older file has changed", name)
		}
		mustListed(t, dir, "f")
	}
	background := context.Background()
	const many = 200_000
	for _, n := range []uint64{0, 1, 5000, many} {
		fails(fmt.Sprintf("an error after %d keys", n), background, nil, failing(n), broken)
		fails(fmt.Sprintf("an error after %d keys, with little memory", n), background, &Options{MemoryBudget: 1 << 20}, failing(n), broken)
	}
	ctx, cancel := context.WithCancelCause(background)
	cancel(why)
	fails("cancelled before", ctx, nil, numbers(0, 0), why)
	fails("cancelled before, asks for no key", ctx, &Options{Capacity: 1 << 40}, func(func([]byte, error) bool) { t.Error("asked for keys") }, why)
	for _, stage := range []string{"hash", "count", "fill", "place", "check"} {
		at := func(do func()) func(string, uint64, uint64) {
			return func(s string, done, _ uint64) {
				if s == stage && done > 0 {
					do()
				}
			}
		}
		fails("a panic in "+stage, background, &Options{Distinct: true, Progress: at(func() { panic(why) })}, numbers(0, many), why)
		if stage == "count" {
			continue // Build counts only if no capacity is given
		}
		ctx, cancel := context.WithCancelCause(background)
		fails("cancelled in "+stage, ctx, &Options{Capacity: many, Progress: at(func() { cancel(why) })}, numbers(0, many), why)
	}
	ctx, cancel = context.WithCancelCause(background) // some items whose lines are full are already in a file
	fails("cancelled with overflows", ctx, &Options{MemoryBudget: 1 << 20, FalsePositiveRate: 1e-8, Capacity: 1_000_000, Progress: func(stage string, done, total uint64) {
		if stage == "fill" && done == total {
			cancel(why)
		}
	}}, numbers(0, 1_000_000), why)
	fails("full", background, &Options{Capacity: 100}, numbers(0, 100_000), ErrFull)
	fails("a capacity of 2^62", background, &Options{Capacity: 1 << 62}, numbers(0, 1), nil)
	fails("bad options", background, &Options{FalsePositiveRate: 2}, numbers(0, 1), nil)
	fails("a panic of the sequence", background, nil, func(yield func([]byte, error) bool) {
		yield([]byte("a"), nil)
		panic(broken)
	}, broken)
	mustLeakNothing()
	_, err := Build(background, filepath.Join(dir, "none", "f"), nil, numbers(0, 1))
	if _, err2 := Build(background, dir, nil, numbers(0, 1)); !errors.Is(err, fs.ErrNotExist) || err2 == nil {
		t.Errorf("in no directory: %v; over a directory: %v", err, err2)
	}
}

// TestBuildTakesTheLock: Build does not replace a file that a writer has open, and a Build in
// progress keeps writers away from the file. Readers that have the older file open keep it.
func TestBuildTakesTheLock(t *testing.T) {
	reader, path := mustBuild(t, nil, numbers(0, 1000))
	inside := false
	f, err := Build(context.Background(), path, nil, func(yield func([]byte, error) bool) {
		inside = true
		if _, err := Build(context.Background(), path, nil, numbers(0, 20)); !errors.Is(err, ErrLocked) {
			t.Errorf("a build inside a build: %v", err)
		}
		yield([]byte("a"), nil)
	})
	must(t, err)
	f.Close()
	if f, err = Build(context.Background(), path, nil, numbers(5000, 9000)); err != nil || !inside {
		t.Fatal(err, inside)
	}
	defer f.Close()
	mustHave(t, reader, 0, 1000)
	mustHaveAll(t, f, path, numbers(5000, 9000), 4000)
}

// TestPathsWithoutADirectory checks that no file is made at a path in a directory that does not exist,
// also if the path would lead elsewhere once it is cleaned.
func TestPathsWithoutADirectory(t *testing.T) {
	t.Chdir(t.TempDir())
	f, err := Build(context.Background(), "f", nil, numbers(0, 1))
	must(t, err)
	f.Close()
	for _, path := range []string{"", "none/f", "none/../f", "none/", "none/none/"} {
		if _, err := Build(context.Background(), path, &Options{Overwrite: true}, numbers(0, 1)); !errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("Build(%q) returns %v", path, err)
		}
		if _, err := Create(path, &Options{Capacity: 1}); !errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("Create(%q) returns %v", path, err)
		}
		if _, err := OpenOrCreate(path, &Options{Capacity: 1}, nil); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("OpenOrCreate(%q) returns %v", path, err)
		}
	}
	if files, err := os.ReadDir("."); err != nil || len(files) != 1 {
		t.Errorf("there are %v, %v", files, err)
	}
}
