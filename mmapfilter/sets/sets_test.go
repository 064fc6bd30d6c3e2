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

	"github.com/mmapfilter/mmapfilter/mmapfilter"
)

var background = context.Background()

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// random returns a source whose seed is logged.
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

// A job is a set in the making.
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

// mustRefuse checks that a step has failed, with the name of a file, and no set is there.
func (j *job) mustRefuse(t *testing.T, err error, name string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), name) {
		t.Errorf("error %v, not one about %s", err, name)
	}
	if _, err := os.Stat(j.path()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("there is a manifest")
	}
}

// TestSplits builds sets from keys that are divided into tasks in any way and any order (S2): the
// bytes are those of one machine.
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

// TestRefusals: a spool, a receipt, a shard or a plan that is lost, doubled, damaged, or of something
// else is an error that names the file, and no manifest is written.
func TestRefusals(t *testing.T) {
	p := mustPlan(t, mmapfilter.Options{Capacity: 3000}, 3)
	other := mustPlan(t, mmapfilter.Options{Capacity: 3000, Seed: 5}, 3)
	set := func(t *testing.T) *job {
		j := newJob(t, p)
		must(t, j.partition("a", numbers(0, 1000)))
		must(t, j.partition("b", numbers(1000, 2000)))
		return j
	}
	built := func(t *testing.T) *job {
		j := set(t)
		must(t, j.buildAll())
		return j
	}
	rename := func(dir, from, to string) { must(t, os.Rename(filepath.Join(dir, from), filepath.Join(dir, to))) }
	shard := func(t *testing.T, j *job, i int) string {
		names, err := filepath.Glob(filepath.Join(j.out, fmt.Sprintf("shard-%05d-*.mmf", i)))
		must(t, err)
		if len(names) != 1 {
			t.Fatalf("%d shards with number %d", len(names), i)
		}
		return filepath.Base(names[0])
	}
	for name, do := range map[string]func(t *testing.T) (*job, string, error){
		"lost spool": func(t *testing.T) (*job, string, error) {
			j := set(t)
			must(t, os.Remove(filepath.Join(j.spool, "a.spool")))
			return j, "a.spool", j.build(0)
		},
		"lost receipt": func(t *testing.T) (*job, string, error) {
			j := set(t)
			must(t, os.Remove(filepath.Join(j.spool, "b.task")))
			return j, "b.spool", j.build(0)
		},
		"lost after the builds": func(t *testing.T) (*job, string, error) {
			j := built(t)
			must(t, os.Remove(filepath.Join(j.spool, "a.spool")))
			return j, "a.spool", j.assemble()
		},
		"both lost after the builds": func(t *testing.T) (*job, string, error) {
			j := built(t)
			must(t, os.Remove(filepath.Join(j.spool, "a.spool")))
			must(t, os.Remove(filepath.Join(j.spool, "a.task")))
			return j, ".built", j.assemble()
		},
		"doubled spool": func(t *testing.T) (*job, string, error) {
			j := set(t)
			copyFile(t, filepath.Join(j.spool, "a.spool"), filepath.Join(j.spool, "c.spool"))
			return j, "c.spool", j.build(0)
		},
		"doubled task": func(t *testing.T) (*job, string, error) {
			j := set(t)
			copyFile(t, filepath.Join(j.spool, "a.spool"), filepath.Join(j.spool, "c.spool"))
			copyFile(t, filepath.Join(j.spool, "a.task"), filepath.Join(j.spool, "c.task"))
			return j, "c.task", j.build(0)
		},
		"swapped spools": func(t *testing.T) (*job, string, error) {
			j := set(t)
			rename(j.spool, "a.spool", "x")
			rename(j.spool, "b.spool", "a.spool")
			rename(j.spool, "x", "b.spool")
			return j, "a.spool", j.build(0)
		},
		"cut spool": func(t *testing.T) (*job, string, error) {
			j := set(t)
			must(t, os.Truncate(filepath.Join(j.spool, "a.spool"), 4000))
			return j, "a.spool", j.build(0)
		},
		"spool of another plan": func(t *testing.T) (*job, string, error) {
			j := set(t)
			k := &job{other, j.dir, j.spool, j.out}
			return j, "a.task", k.partition("a", numbers(0, 1000))
		},
		"built by another plan": func(t *testing.T) (*job, string, error) {
			j := set(t)
			k := &job{other, j.dir, j.spool, j.out}
			return j, "a.task", k.build(0)
		},
		"other keys under one name": func(t *testing.T) (*job, string, error) {
			j := set(t)
			return j, "a.task", j.partition("a", numbers(5, 1005))
		},
		"no task": func(t *testing.T) (*job, string, error) {
			j := newJob(t, p)
			return j, "spool", j.build(0)
		},
		"shard not built": func(t *testing.T) (*job, string, error) {
			j := set(t)
			must(t, j.build(0))
			must(t, j.build(2))
			return j, "shard-00001-of-00003", j.assemble()
		},
		"shard built from fewer tasks": func(t *testing.T) (*job, string, error) {
			j := set(t)
			must(t, j.build(0))
			must(t, j.build(1))
			must(t, j.partition("c", numbers(5000, 5001)))
			must(t, j.build(2))
			return j, "shard-00000-of-00003", j.assemble()
		},
		"lost shard": func(t *testing.T) (*job, string, error) {
			j := built(t)
			name := shard(t, j, 1)
			must(t, os.Remove(filepath.Join(j.out, name)))
			return j, name, j.assemble()
		},
		"swapped shards": func(t *testing.T) (*job, string, error) {
			j := built(t)
			a, b := shard(t, j, 0), shard(t, j, 1)
			rename(j.out, a, "x")
			rename(j.out, b, a)
			rename(j.out, "x", b)
			return j, "-of-00003-", j.assemble() // one or the other
		},
		"damaged shard": func(t *testing.T) (*job, string, error) {
			j := built(t)
			name := shard(t, j, 1)
			flip(t, filepath.Join(j.out, name), 33_000)
			return j, name, j.assemble()
		},
		"older shard": func(t *testing.T) (*job, string, error) {
			j := set(t)
			must(t, j.build(1))
			older := shard(t, j, 1)
			rename(j.out, older, "x")
			must(t, j.partition("c", numbers(2000, 2500)))
			must(t, j.buildAll())
			name := shard(t, j, 1)
			rename(j.out, "x", name)
			return j, name, j.assemble()
		},
		"shard that was written to": func(t *testing.T) (*job, string, error) {
			j := built(t)
			name := shard(t, j, 1)
			write(t, filepath.Join(j.out, name))
			return j, name, j.assemble()
		},
	} {
		t.Run(name, func(t *testing.T) {
			j, file, err := do(t)
			j.mustRefuse(t, err, file)
		})
	}
}

func copyFile(tb testing.TB, from, to string) {
	tb.Helper()
	data, err := os.ReadFile(from)
	must(tb, err)
	must(tb, os.WriteFile(to, data, 0o666))
}

func flip(tb testing.TB, path string, at int) {
	tb.Helper()
	data, err := os.ReadFile(path)
	must(tb, err)
	data[at] ^= 1
	must(tb, os.WriteFile(path, data, 0o666))
}

// TestBuiltAgain: a shard that was written to is not replaced by one that is built again from the same
// keys, and does not get into its set.
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

// TestTaskAgainRemovesWhatDiedBesideIt: a task that is done again removes what a process left that
// did the same task and died, whichever file it was about to write.
func TestTaskAgainRemovesWhatDiedBesideIt(t *testing.T) {
	j := newJob(t, mustPlan(t, mmapfilter.Options{Capacity: 3000}, 2))
	steps := func() {
		must(t, j.partition("a", numbers(0, 2000)))
		must(t, j.buildAll())
		must(t, j.assemble())
	}
	steps()
	var left []string
	for _, dir := range []string{j.spool, j.out} {
		entries, err := os.ReadDir(dir)
		must(t, err)
		for _, e := range entries {
			path := filepath.Join(dir, e.Name())
			if strings.HasSuffix(path, ".mmf") { // while it is made, a shard has no identity
				path = path[:strings.LastIndexByte(path, '-')]
			}
			left = append(left, path+".tmp-0123456789abcdef")
			must(t, os.WriteFile(left[len(left)-1], []byte("cut sho"), 0o666))
		}
	}
	steps()
	for _, path := range left {
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is still there", path)
		}
	}
	if len(left) != 7 {
		t.Errorf("the tasks wrote %d files", len(left))
	}
}

// write inserts keys of its own into a shard.
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

// TestDamagedFiles changes one byte of a file of each kind, or cuts it: the step that reads it fails, or
// the set has the same bytes.
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
			} else if e := new(FileError); !errors.As(err, &e) && !errors.Is(err, mmapfilter.ErrVersion) {
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

// TestCancelled leaves nothing behind.
func TestCancelled(t *testing.T) {
	p := mustPlan(t, mmapfilter.Options{}, 3)
	for _, after := range []int{0, 1, 5000, 50_000} {
		dir := t.TempDir()
		ctx, cancel := context.WithCancel(background)
		_, err := Build(ctx, filepath.Join(dir, "x.set"), p, Work{}, func(yield func([]byte, error) bool) {
			for i := range 100_000 {
				if i == after {
					cancel()
				}
				if !yield(number(i), nil) {
					return
				}
			}
		})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("after %d: %v", after, err)
		}
		if entries, _ := os.ReadDir(dir); len(entries) > 0 {
			t.Errorf("after %d: %v left", after, entries)
		}
		cancel()
	}
	dir, stop := t.TempDir(), errors.New("stop")
	_, err := Build(background, filepath.Join(dir, "x.set"), p, Work{}, func(yield func([]byte, error) bool) { yield(nil, stop) })
	if entries, _ := os.ReadDir(dir); !errors.Is(err, stop) || len(entries) > 0 {
		t.Errorf("%v, %v left", err, entries)
	}
}

// TestFull: more keys than a set was planned for are refused.
func TestFull(t *testing.T) {
	p := mustPlan(t, mmapfilter.Options{Capacity: 1000}, 4)
	dir := t.TempDir()
	_, err := Build(background, filepath.Join(dir, "x.set"), p, Work{}, numbers(0, 5000))
	if !errors.Is(err, mmapfilter.ErrFull) {
		t.Errorf("%v", err)
	}
}

// capacityOf is a variable so that the machine adds, not the compiler.
var capacityOf = (*Plan).capacity

// TestPlanOptions: what a plan cannot have is refused.
func TestPlanOptions(t *testing.T) {
	// With a fused multiplication and addition it would be one more.
	if c := capacityOf(&Plan{Keys: 200_000_860_053_008, Shards: 2}); c != 100_000_490_026_633 {
		t.Errorf("capacity %d", c)
	}
	for name, err := range map[string]error{
		"no shards":   second(NewPlan(&mmapfilter.Options{}, 0)),
		"many shards": second(NewPlan(&mmapfilter.Options{}, 1<<21)),
		"hashes":      second(NewPlan(&mmapfilter.Options{KeepHashes: true}, 2)),
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
