package sets

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
)

var background = context.Background()

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// random returns a source of random numbers, and logs its seed.
func random(t *testing.T) *rand.Rand {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// numbers yields keys, the same for the same numbers.
func numbers(from, to int) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for i := from; i < to; i++ {
			if !yield(number(i), nil) {
				return
			}
		}
	}
}

func number(i int) []byte { return fmt.Appendf(nil, "key %d", i) }

func of(keys [][]byte) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for _, k := range keys {
			if !yield(k, nil) {
				return
			}
		}
	}
}

func mustPlan(tb testing.TB, o mmapfilter.Options, shards int) *Plan {
	tb.Helper()
	p, err := NewPlan(&o, shards)
	must(tb, err)
	return p
}

// mustBuild builds a set on one machine and returns its path.
func mustBuild(tb testing.TB, dir string, p *Plan, keys iter.Seq2[[]byte, error]) string {
	tb.Helper()
	path := filepath.Join(dir, "keys.set")
	_, err := Build(background, path, p, Work{}, keys)
	must(tb, err)
	return path
}

// contents returns the shards and the manifests in a directory.
func contents(tb testing.TB, dir string) map[string]string {
	tb.Helper()
	entries, err := os.ReadDir(dir)
	must(tb, err)
	files := map[string]string{}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".mmf") || strings.HasSuffix(e.Name(), ".set") {
			data, err := os.ReadFile(filepath.Join(dir, e.Name()))
			must(tb, err)
			files[e.Name()] = string(data)
		} else if !strings.HasSuffix(e.Name(), ".built") {
			tb.Errorf("%s has been left behind", e.Name())
		}
	}
	return files
}

func mustEqual(tb testing.TB, got, want map[string]string) {
	tb.Helper()
	if !maps.Equal(got, want) {
		tb.Errorf("got %v, want %v, or their bytes differ", slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
	}
}

// A job is a set that is being built.
type job struct {
	plan            *Plan
	dir, spool, out string
}

func newJob(tb testing.TB, p *Plan) *job {
	dir := tb.TempDir()
	j := &job{p, dir, filepath.Join(dir, "spool"), filepath.Join(dir, "out")}
	must(tb, os.Mkdir(j.spool, 0o777))
	must(tb, os.Mkdir(j.out, 0o777))
	return j
}

func (j *job) partition(task string, keys iter.Seq2[[]byte, error]) error {
	_, err := Partition(background, j.plan, j.spool, task, keys, nil)
	return err
}

func (j *job) build(shard int) error {
	_, err := BuildShard(background, j.plan, shard, j.spool, j.out, Work{Workers: 1})
	return err
}

func (j *job) buildAll() error {
	for i := range j.plan.Shards {
		if err := j.build(i); err != nil {
			return err
		}
	}
	return nil
}

func (j *job) path() string { return filepath.Join(j.out, "keys.set") }

func (j *job) assemble() error {
	_, err := Assemble(background, j.plan, j.spool, j.out, j.path(), true, Work{})
	return err
}

// TestSplits covers S2: it builds sets from keys that are divided into tasks in any way and any order.
// The bytes are the same as on one machine.
func TestSplits(t *testing.T) {
	rng := random(t)
	for i, shards := range []int{1, 2, 7, 64} {
		for _, distinct := range []bool{true, false} {
			for _, capacity := range []uint64{0, 30_000}[i%2:] {
				p := mustPlan(t, mmapfilter.Options{Capacity: capacity, Distinct: distinct, Normalisation: "note"}, shards)
				var keys [][]byte
				for i := range 20_000 {
					keys = append(keys, number(i))
				}
				for range 3000 {
					keys = append(keys, number(rng.IntN(20_000)))
				}
				dir := t.TempDir()
				mustBuild(t, dir, p, of(keys))
				want := contents(t, dir)
				j := newJob(t, p)
				rng.Shuffle(len(keys), func(a, b int) { keys[a], keys[b] = keys[b], keys[a] })
				for task, rest := 0, keys; len(rest) > 0 || task < 2; task++ {
					n := min(rng.IntN(8000), len(rest))
					must(t, j.partition(fmt.Sprint("task", task), of(rest[:n])))
					if rng.IntN(3) == 0 {
						must(t, j.partition(fmt.Sprint("task", task), of(rest[:n]))) // again
					}
					rest = rest[n:]
				}
				for _, i := range rng.Perm(shards) {
					must(t, j.build(i))
				}
				must(t, j.build(rng.IntN(shards)))
				must(t, j.assemble())
				mustEqual(t, contents(t, j.out), want)
				must(t, j.assemble())
				mustEqual(t, contents(t, j.out), want)
			}
		}
	}
}

func copyFile(tb testing.TB, from, to string) {
	tb.Helper()
	data, err := os.ReadFile(from)
	must(tb, err)
	must(tb, os.WriteFile(to, data, 0o666))
}

// flip changes a bit of a file. A shard has lines at offset 33,000.
func flip(tb testing.TB, path string, at int) {
	tb.Helper()
	data, err := os.ReadFile(path)
	must(tb, err)
	data[at] ^= 1
	must(tb, os.WriteFile(path, data, 0o666))
}

// TestBuiltAgain: a shard that was written to is not replaced by a shard that is built again from the
// same keys. It also does not get into the set of the new shard.
func TestBuiltAgain(t *testing.T) {
	j := newJob(t, mustPlan(t, mmapfilter.Options{Capacity: 3000}, 3))
	must(t, j.partition("a", numbers(0, 2000)))
	must(t, j.buildAll())
	must(t, j.assemble())
	old := mustOpen(t, j.path(), nil)
	mustHave(t, old, 0, 2000)
	for _, path := range shards(t, j.path()) {
		write(t, path)
	}
	mustHave(t, old, 1_000_000, 1_001_000)
	must(t, j.buildAll())
	must(t, j.buildAll())
	must(t, j.assemble())
	fresh := mustOpen(t, j.path(), nil)
	mustHave(t, fresh, 0, 2000)
	mustHave(t, old, 1_000_000, 1_001_000)
	if n := count(t, fresh, 1_000_000, 1_001_000); n > 30 || fresh.Err() != nil {
		t.Errorf("the set built again has %d keys of the old one; %v", n, fresh.Err())
	}
	left, err := Superseded(j.out)
	must(t, err)
	if len(left) != 3 || len(shards(t, j.path())) != 6 {
		t.Errorf("superseded: %v", left)
	}
}

// write inserts some keys that belong to a shard.
func write(tb testing.TB, path string) {
	tb.Helper()
	f, err := mmapfilter.Open(path, nil)
	must(tb, err)
	for i := range 1000 {
		if err := f.Insert(number(1_000_000 + i)); !errors.Is(err, mmapfilter.ErrOtherShard) {
			must(tb, err)
		}
	}
	must(tb, f.Close())
}

// TestDamagedFiles changes one byte of a file of each kind, or cuts it: the step that reads it fails,
// or the set has the same bytes. (Script set_tasks.txt of the command has files that are missing,
// doubled, or from elsewhere.)
func TestDamagedFiles(t *testing.T) {
	rng := random(t)
	p := mustPlan(t, mmapfilter.Options{Capacity: 2000}, 2)
	j := newJob(t, p)
	must(t, p.Write(filepath.Join(j.dir, "plan")))
	must(t, j.partition("a", numbers(0, 1000)))
	must(t, j.buildAll())
	must(t, j.assemble())
	want := contents(t, j.out)
	built, err := filepath.Glob(filepath.Join(j.out, "*.built"))
	must(t, err)
	for _, path := range append(built, filepath.Join(j.spool, "a.spool"), filepath.Join(j.spool, "a.task"), filepath.Join(j.dir, "plan")) {
		whole, err := os.ReadFile(path)
		must(t, err)
		try := func(data []byte, what string) {
			t.Helper()
			must(t, os.Remove(j.path()))
			must(t, os.WriteFile(path, data, 0o666))
			read, err := ReadPlan(filepath.Join(j.dir, "plan"))
			if err == nil && read.ID() != p.ID() {
				err = errors.New("another plan")
			}
			if err == nil && filepath.Base(path) == "a.spool" {
				err = j.buildAll()
			}
			if err == nil {
				err = j.assemble()
			}
			must(t, os.WriteFile(path, whole, 0o666))
			if err == nil {
				t.Errorf("%s: %s: no error", filepath.Base(path), what)
			} else if e := new(FileError); !(errors.As(err, &e) && e.Path == path) && !errors.Is(err, mmapfilter.ErrVersion) {
				t.Errorf("%s: %s: %v", filepath.Base(path), what, err)
			}
			must(t, j.assemble())
		}
		for range 40 {
			data := bytes.Clone(whole)
			i := rng.IntN(len(data))
			data[i] ^= 1 << rng.IntN(8)
			try(data, fmt.Sprintf("byte %d", i))
		}
		for range 8 {
			n := rng.IntN(len(whole))
			try(whole[:n], fmt.Sprintf("cut at %d", n))
		}
	}
	mustEqual(t, contents(t, j.out), want)
}

// TestUnwritablePath: a path that a manifest cannot name is an error, and no manifest is written.
func TestUnwritablePath(t *testing.T) {
	j := newJob(t, mustPlan(t, mmapfilter.Options{}, 2))
	j.out = filepath.Join(j.dir, "out\xff")
	if err := os.Mkdir(j.out, 0o777); err != nil {
		t.Skip(err) // only on systems with such names
	}
	must(t, j.partition("a", numbers(0, 1000)))
	must(t, j.buildAll())
	path := filepath.Join(j.dir, "keys.set")
	_, err := Assemble(background, j.plan, j.spool, j.out, path, true, Work{})
	if _, e := os.Stat(path); err == nil || e == nil {
		t.Errorf("%v, %v", err, e)
	}
}

// TestNothingLeft: a build leaves no files if it is cancelled, its keys end with an error, or it has
// more keys than the plan has room for.
func TestNothingLeft(t *testing.T) {
	stop := errors.New("stop")
	for _, c := range []struct {
		capacity    uint64
		cancelAfter int
		stopAfter   int
		is          error
	}{{0, 0, -1, context.Canceled}, {0, 1, -1, context.Canceled}, {0, 5000, -1, context.Canceled}, {0, 50_000, -1, context.Canceled},
		{0, -1, 0, stop}, {1000, -1, -1, mmapfilter.ErrFull}} {
		dir := t.TempDir()
		ctx, cancel := context.WithCancel(background)
		_, err := Build(ctx, filepath.Join(dir, "x.set"), mustPlan(t, mmapfilter.Options{Capacity: c.capacity}, 3), Work{}, func(yield func([]byte, error) bool) {
			for i := range 100_000 {
				if i == c.cancelAfter {
					cancel()
				}
				if i == c.stopAfter {
					yield(nil, stop)
					return
				}
				if !yield(number(i), nil) {
					return
				}
			}
		})
		cancel()
		if entries, _ := os.ReadDir(dir); !errors.Is(err, c.is) || len(entries) > 0 {
			t.Errorf("%+v: %v, %v left", c, err, entries)
		}
	}
}

// capacityOf is a variable so that the machine adds, not the compiler.
var capacityOf = (*Plan).capacity

// TestPlanOptions: options that a plan cannot have are refused.
func TestPlanOptions(t *testing.T) {
	// With a fused multiplication and addition, the capacity would be one more.
	if c := capacityOf(&Plan{Keys: 200_000_860_053_008, Shards: 2}); c != 100_000_490_026_633 {
		t.Errorf("capacity %d", c)
	}
	for name, err := range map[string]error{
		"no shards":   second(NewPlan(&mmapfilter.Options{}, 0)),
		"many shards": second(NewPlan(&mmapfilter.Options{}, 1<<21)),
		"hashes":      second(NewPlan(&mmapfilter.Options{KeepHashes: true}, 2)),
		"expiry":      second(NewPlan(&mmapfilter.Options{ExpireAfter: time.Hour}, 2)),
		"a mode":      second(NewPlan(&mmapfilter.Options{Mode: 0o600}, 2)),
		"least keys":  second(NewPlan(&mmapfilter.Options{MinKeys: 1}, 2)),
		"overwriting": second(NewPlan(&mmapfilter.Options{Overwrite: true}, 2)),
		"a rate":      second(NewPlan(&mmapfilter.Options{FalsePositiveRate: 2}, 2)),
		"bits":        second(NewPlan(&mmapfilter.Options{FalsePositiveRate: 1e-5, Capacity: 1 << 46}, 1<<20)),
	} {
		if e := new(mmapfilter.OptionError); !errors.As(err, &e) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, task := range []string{"", ".a", "-a", "a/b", "a b", strings.Repeat("a", 200)} {
		if _, err := NewSpool(mustPlan(t, mmapfilter.Options{}, 2), t.TempDir(), task); err == nil {
			t.Errorf("a task may have the name %q", task)
		}
	}
}

func second[T any](_ T, err error) error { return err }

// TestPartAgain covers S2: a task that is done again removes what a killed run of the same task has
// left.
func TestPartAgain(t *testing.T) {
	j := newJob(t, mustPlan(t, mmapfilter.Options{Capacity: 3000}, 2))
	must(t, j.partition("a", numbers(0, 1000)))
	left := filepath.Join(j.spool, "a.task.tmp-0123456789abcdef")
	must(t, os.WriteFile(left, []byte("cut sho"), 0o666))
	must(t, j.partition("a", numbers(0, 1000)))
	if _, err := os.Stat(left); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s is still there: %v", left, err)
	}
}
