package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/mmapfilter/mmapfilter/mmapfilter/sets"
)

// A contract runs a job in ways that Beam's contract allows, but that no runner would choose: bundles
// have any size and order. A bundle is retried until it succeeds; some run again after that, and some
// run twice at the same time. Only the output of a run that succeeded is used, and only once. Grouped
// values come in any order.
type contract struct {
	*chance
	t     *testing.T
	again int // retries
}

// attempt calls f until f does not fail by chance.
func (c *contract) attempt(what string, f func() error) {
	c.t.Helper()
	for range 10_000 {
		err := func() (err error) {
			defer func() {
				if r := recover(); r == errChance {
					err = errChance
				} else if r != nil {
					panic(r)
				}
			}()
			return f()
		}()
		if err == nil {
			return
		}
		if !errors.Is(err, errChance) {
			c.t.Fatalf("%s: %v", what, err)
		}
		c.again++
	}
	c.t.Fatalf("%s fails again and again", what)
}

// perhapsAgain runs a bundle. Sometimes it runs the bundle again, or twice at once.
func (c *contract) perhapsAgain(what string, f func() error) {
	c.t.Helper()
	switch c.intn(4) {
	case 0:
		c.attempt(what, f)
	case 1:
		var group sync.WaitGroup
		defer group.Wait()
		group.Add(1)
		go func() {
			defer group.Done()
			defer func() { recover() }() // its worker died
			f()
		}()
	}
	c.attempt(what, f)
}

type chunk struct {
	shard int64
	bytes []byte
}

// hash runs the bundles of hashFn, one after another on the same worker.
func (c *contract) hash(j *job, parts []part) (chunks []chunk, keys []int64) {
	ctx := context.Background()
	worker := &hashFn{Plan: j.plan}
	if err := worker.Setup(); err != nil {
		c.t.Fatal(err)
	}
	worker.full = 1000 * hashBytes
	c.rand.Shuffle(len(parts), func(i, k int) { parts[i], parts[k] = parts[k], parts[i] })
	for len(parts) > 0 {
		n := 1 + c.intn(min(len(parts), 4))
		var out []chunk
		var counted []int64
		emit := func(shard int64, b []byte) { out = append(out, chunk{shard, b}) }
		emitKeys := func(n int64) { counted = append(counted, n) }
		c.attempt("hash", func() error {
			out, counted = nil, nil
			worker.StartBundle(ctx, emit, emitKeys)
			for _, p := range parts[:n] {
				if err := worker.ProcessElement(ctx, p, emit, emitKeys); err != nil {
					return err
				}
			}
			worker.FinishBundle(ctx, emit, emitKeys)
			return c.fail("bundle")
		})
		chunks, keys, parts = append(chunks, out...), append(keys, counted...), parts[n:]
	}
	return chunks, keys
}

func (c *contract) build(j *job, chunks []chunk) (built [][]byte) {
	ctx := context.Background()
	dir, _ := split(j.manifest)
	byShard := make(map[int64][]chunk)
	for _, i := range c.rand.Perm(len(chunks)) {
		byShard[chunks[i].shard] = append(byShard[chunks[i].shard], chunks[i])
	}
	for shard, group := range byShard {
		var mu sync.Mutex
		var result []byte
		c.perhapsAgain("build", func() error {
			worker := &buildFn{Plan: j.plan, Dir: dir, Memory: j.memory}
			if err := worker.Setup(); err != nil {
				return err
			}
			i := 0
			next := func(b *[]byte) bool {
				if i == len(group) {
					return false
				}
				if err := c.fail("chunk"); err != nil {
					panic(err)
				}
				*b = slices.Clone(group[i].bytes)
				i++
				return true
			}
			return worker.ProcessElement(ctx, shard, next, func(text []byte) {
				mu.Lock()
				defer mu.Unlock()
				result = text
			})
		})
		built = append(built, result)
	}
	return built
}

func (c *contract) assemble(j *job, built [][]byte, keys []int64) {
	c.perhapsAgain("assemble", func() error {
		worker := &assembleFn{Plan: j.plan, Manifest: j.manifest}
		if err := worker.Setup(); err != nil {
			return err
		}
		return worker.ProcessElement(context.Background(), 0, iterator(built), iterator(keys))
	})
}

// iterator returns an iterator as Beam passes them to functions.
func iterator[T any](list []T) func(*T) bool {
	i := 0
	return func(to *T) bool {
		if i == len(list) {
			return false
		}
		*to = list[i]
		i++
		return true
	}
}

// TestRetries runs a job by contract, in a directory and in a store, while operations fail by chance.
func TestRetries(t *testing.T) {
	const n = 20_000
	in := t.TempDir()
	writeKeys(t, in, n)
	for scheme, distinct := range map[string]bool{"": false, flakyScheme: true} {
		o := options(n, "")
		o.Distinct = distinct
		p, data := newPlan(t, o, 5)
		want, _ := onOneMachine(t, p, n)
		out := t.TempDir()
		j, err := newJob("plan", data, []string{flakyScheme + in + "/*.txt"}, scheme+out+"/x.set")
		must(t, err)
		c := &contract{chance: newChance(t), t: t}
		flakyChance = c.chance
		defer func() { flakyChance = new(chance) }()
		c.one = 40
		var parts []part
		c.attempt("list", func() (err error) {
			parts, err = list(50_000, j.globs...)
			return err
		})
		chunks, keys := c.hash(j, parts)
		checkChunks(t, p, chunks, n)
		built := c.build(j, chunks)
		if _, err := os.Stat(filepath.Join(out, "x.set")); err == nil {
			t.Error("there is a manifest before the last step")
		}
		c.assemble(j, built, keys)
		t.Logf("%d retries of bundles", c.again)
		if c.again == 0 {
			t.Error("nothing failed")
		}
		same(t, os.DirFS(out), os.DirFS(want))
	}
}

// checkChunks checks that the chunks have the hash of each key once, and nothing else.
func checkChunks(t *testing.T, p *sets.Plan, chunks []chunk, n int) {
	t.Helper()
	var want, got []uint64
	for key := range testKeys(n) {
		want = append(want, p.Hash(key))
	}
	for _, c := range chunks {
		for hashes, err := range hashesOf(iterator([][]byte{c.bytes})) {
			must(t, err)
			for _, h := range hashes {
				if sets.ShardOf(h, p.Shards) != int(c.shard) {
					t.Fatalf("shard %d has the hash %x", c.shard, h)
				}
			}
			got = append(got, hashes...)
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Fatalf("the chunks have %d hashes, which differ from those of the %d keys", len(got), len(want))
	}
}

// traffic is the data that one step passes to the next.
type traffic struct {
	chunks []chunk
	keys   []int64
	built  [][]byte
	dir    string // of the shards
}

// TestConservation loses, doubles and changes data between the steps, as a runner that breaks its
// contract might. The job must fail and write no manifest.
func TestConservation(t *testing.T) {
	const n = 5000
	in := t.TempDir()
	writeKeys(t, in, n)
	_, data := newPlan(t, options(n, ""), 4)
	scheme := ""
	run := func(afterHash, afterBuild func(*traffic)) error {
		ctx, tr := context.Background(), traffic{dir: t.TempDir()}
		j, err := newJob("plan", data, []string{in + "/*.txt"}, scheme+tr.dir+"/x.set")
		must(t, err)
		parts, err := list(j.partBytes, j.globs...)
		must(t, err)
		c := &contract{chance: &chance{rand: rand.New(rand.NewPCG(1, 2))}, t: t} // nothing fails
		tr.chunks, tr.keys = c.hash(j, parts)
		slices.SortFunc(tr.chunks, func(a, b chunk) int { return len(b.bytes) - len(a.bytes) })
		afterHash(&tr)
		for shard := range int64(4) {
			var group [][]byte
			for _, c := range tr.chunks {
				if c.shard == shard {
					group = append(group, c.bytes)
				}
			}
			worker := &buildFn{Plan: j.plan, Dir: scheme + tr.dir}
			must(t, worker.Setup())
			if err := worker.ProcessElement(ctx, shard, iterator(group), func(text []byte) { tr.built = append(tr.built, text) }); err != nil {
				return err
			}
		}
		afterBuild(&tr)
		worker := &assembleFn{Plan: j.plan, Manifest: j.manifest}
		must(t, worker.Setup())
		err = worker.ProcessElement(ctx, 0, iterator(tr.built), iterator(tr.keys))
		if _, statErr := os.Stat(filepath.Join(tr.dir, "x.set")); (statErr == nil) != (err == nil) {
			t.Errorf("error %v, and the manifest: %v", err, statErr)
		}
		return err
	}
	for _, scheme = range []string{"", flakyScheme} {
		checkConservation(t, run)
	}
}

func checkConservation(t *testing.T, run func(afterHash, afterBuild func(*traffic)) error) {
	t.Helper()
	nothing := func(*traffic) {}
	must(t, run(nothing, nothing))
	for name, change := range map[string]func(*traffic){
		"a chunk lost":    func(tr *traffic) { tr.chunks = tr.chunks[1:] },
		"a chunk doubled": func(tr *traffic) { tr.chunks = append(tr.chunks, tr.chunks[0]) },
		"a chunk astray":  func(tr *traffic) { tr.chunks[0].shard ^= 1 },
		"a chunk cut":     func(tr *traffic) { tr.chunks[0].bytes = tr.chunks[0].bytes[1:] },
		"a hash lost":     func(tr *traffic) { tr.chunks[0].bytes = tr.chunks[0].bytes[8:] },
		"a count lost":    func(tr *traffic) { tr.keys[slices.IndexFunc(tr.keys, func(n int64) bool { return n > 0 })] = 0 },
		"a count doubled": func(tr *traffic) { tr.keys = append(tr.keys, tr.keys...) },
	} {
		if err := run(change, nothing); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	for name, change := range map[string]func(*traffic){
		"a shard lost":       func(tr *traffic) { tr.built = tr.built[1:] },
		"a shard doubled":    func(tr *traffic) { tr.built = append(tr.built, tr.built[0]) },
		"a shard of no plan": func(tr *traffic) { tr.built[0] = []byte("{}") },
		"a shard of no set":  func(tr *traffic) { tr.built[0] = []byte(`{"shard":-1}`) },
		"no JSON":            func(tr *traffic) { tr.built[0] = nil },
		"a file lost": func(tr *traffic) {
			paths, err := filepath.Glob(tr.dir + "/*.mmf")
			must(t, errors.Join(err, os.Remove(paths[0])))
		},
	} {
		if err := run(nothing, change); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
