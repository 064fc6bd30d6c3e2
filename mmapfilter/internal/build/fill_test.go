package build

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/hashes"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/tabletest"
	"pgregory.net/rapid"
)

// buildHashes runs the steps of Build with hashes in place of keys. It returns the builder, whose draft
// exists until the test ends, and the bytes that the builder stored.
func buildHashes(t *testing.T, c Config, hashes []uint64) (b *builder, stored []byte, err error) {
	b = &builder{Config: c, draft: newTestDraft(t)}
	defer b.close()
	if c.Capacity > 0 {
		if err := b.allocate(context.Background(), c.Capacity); err != nil {
			return b, nil, err
		}
	}
	s := newSpool(b.draft, c.Workers, c.MemoryBudget, spoolParts(c.Capacity))
	b.homes, b.came = s, uint64(len(hashes))
	in := s.collector()
	for _, h := range hashes {
		must(t, in.add(h))
	}
	must(t, in.flush())
	if err := b.fromSource(context.Background()); err != nil {
		return b, nil, err
	}
	return b, bytes.Clone(b.draft.Data[layout.OffRuntime:b.plan.Geometry.OffTable]), nil
}

// TestBuildOfAnyHashes builds files from any hashes, in any order, of any number relative to the
// capacity, and with any number of workers. Unless the file is full, all hashes must be in it, and the
// overflow bits of items away from home must be set. Another order must give the same bytes.
func TestBuildOfAnyHashes(t *testing.T) {
	all := tabletest.Shapes()
	rapid.Check(t, func(rt *rapid.T) {
		s := rapid.SampledFrom(all).Draw(rt, "shape")
		n := rapid.SampledFrom([]int{0, 1, 2, 5, 50, 200, 1000, 4000}).Draw(rt, "hashes")
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1))
		pool := make([]uint64, 1+rng.IntN(60))
		for i := range pool {
			pool[i] = rng.Uint64()
		}
		draw := map[string]func() uint64{
			"any":           rng.Uint64,
			"equal":         func() uint64 { return pool[0] },
			"of few":        func() uint64 { return pool[rng.IntN(len(pool))] },
			"of few lines":  func() uint64 { return pool[0] ^ rng.Uint64()>>8 },
			"any or of few": func() uint64 { return [2]uint64{rng.Uint64(), pool[rng.IntN(len(pool))]}[rng.IntN(2)] },
			"lowest, most":  func() uint64 { return -rng.Uint64N(2) ^ rng.Uint64N(3) },
		}
		kind := rapid.SampledFrom([]string{"any", "equal", "of few", "of few lines", "any or of few", "lowest, most"}).Draw(rt, "of")
		hashes := make([]uint64, n)
		for i := range hashes {
			hashes[i] = draw[kind]()
		}
		c := configOf(s)
		c.Distinct = rapid.Bool().Draw(rt, "distinct")
		c.Capacity = uint64(rapid.SampledFrom([]int{0, max(1, n/2), max(1, n*97/100), 10*n + 1}).Draw(rt, "capacity"))
		b, stored, err := buildHashes(t, c, hashes)

		c.Workers, c.MemoryBudget = rapid.IntRange(2, 5).Draw(rt, "workers"), 5<<20
		others := slices.Clone(hashes)
		rng.Shuffle(n, func(i, j int) { others[i], others[j] = others[j], others[i] })
		if _, again, err2 := buildHashes(t, c, others); (err == nil) != (err2 == nil) || !bytes.Equal(again, stored) {
			rt.Fatalf("in another order: %v and %v, other bytes", err, err2)
		}
		if err != nil {
			if !errors.As(err, new(*FullError)) {
				rt.Fatal(err)
			}
			return
		}
		if c.Distinct {
			slices.Sort(hashes)
			hashes = slices.Compact(hashes)
		}
		for _, h := range hashes {
			if !layout.Contains(b.table, &b.view, h) || !layout.Lookup(b.table, b.view.At, h) {
				rt.Fatalf("%#x is not found", h)
			}
		}
		tabletest.Check(t, b.table, b.view, hashes)
	})
}

// TestRanges covers P9 for several ranges. When all ranges are filled, few items may be left, and every
// item must be found. Exactly those overflow bits must be set that items need. The file must not depend
// on the number of workers, or on the number of partitions, which a small budget makes less than the
// number of ranges.
func TestRanges(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 9))
	hashes := make([]uint64, 1_500_000)
	for i := range hashes {
		hashes[i] = rng.Uint64()
	}
	var first []byte
	for _, run := range []struct {
		workers int
		budget  int64
	}{{1, 64 << 20}, {3, 64 << 20}, {2, 1 << 11}} {
		c := configOf(tabletest.Compact(41, 7))
		c.Workers, c.MemoryBudget, c.Capacity = run.workers, run.budget, uint64(len(hashes))
		b, stored, err := buildHashes(t, c, hashes)
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = stored
		}
		if !bytes.Equal(stored, first) {
			t.Errorf("%d workers with %d bytes make another file", run.workers, run.budget)
		}
		left, lines := b.homeless.total.Load(), b.table.Lines()
		if left == 0 || left > c.Capacity/1000 || lines*layout.LineBytes < 2*minRangeBits/8 {
			t.Errorf("%d items are left after the ranges of %d lines are filled", left, lines)
		}
		found := make([]bool, len(hashes))
		if layout.ContainsHashes(b.table, &b.view, hashes, found); slices.Contains(found, false) {
			t.Error("an item is not found")
		}
		n, err := layout.CheckLines(b.plan.Geometry, b.table, b.view.Region, 0, lines)
		if err != nil || n+uint64(layout.StashLen(b.view.Stash)) != c.Capacity {
			t.Errorf("%d items in lines: %v", n, err)
		}
		b.hosts.MakeBits(&b.view, 0, lines, func(word, value uint64) { t.Fatalf("word %d needs to be %#x", word, value) })
	}
}

// A heldSource has a hash for each task. It delays task 0 until another task has its hash.
type heldSource struct {
	*spool
	others atomic.Int32 // how many other tasks were loaded
	first  func() error // ends task 0
}

func (s *heldSource) load(w *worker, from, _ int, _, _ bool) ([]uint64, error) {
	w.read = 1
	hash := []uint64{uint64(from) << s.shift}
	if from > 0 {
		s.others.Add(1)
		return hash, nil
	}
	for s.others.Load() == 0 {
		runtime.Gosched()
	}
	return hash, s.first()
}

// TestTurns checks that tasks keep their hashes in order, and that fill ends with the cause of the
// cancelled context, or the error or the panic of a task, however the tasks that wait for their turn are
// scheduled.
func TestTurns(t *testing.T) {
	why := errors.New("it ends")
	for name, first := range map[string]func(cancel context.CancelCauseFunc) error{
		"succeeds":     func(context.CancelCauseFunc) error { return nil },
		"is cancelled": func(cancel context.CancelCauseFunc) error { cancel(why); return nil },
		"fails":        func(context.CancelCauseFunc) error { return why },
		"panics":       func(context.CancelCauseFunc) error { panic(why) },
	} {
		for range 50 {
			ctx, cancel := context.WithCancelCause(context.Background())
			c := configOf(tabletest.Compact(41, 7))
			c.Workers, c.Keep = 2, true
			b := &builder{Config: c, draft: newTestDraft(t)}
			const capacity = 4_000_000 // of several ranges
			must(t, b.allocate(ctx, capacity))
			b.homes = &heldSource{spool: newSpool(b.draft, c.Workers, c.MemoryBudget, spoolParts(capacity)), first: func() error { return first(cancel) }}
			tasks := min(b.ranges(), b.homes.Parts())
			b.came = uint64(tasks)
			err := func() (err error) {
				defer func() {
					if r := recover(); r != nil {
						err = r.(error)
					}
				}()
				return b.fill(ctx)
			}()
			cancel(nil)
			if name != "succeeds" && err != why {
				t.Fatalf("%s: %v", name, err)
			}
			if name == "succeeds" {
				base := make([]uint64, hashes.PageWords)
				must(t, errors.Join(err, b.base.pages.file.ReadPages(hashes.FirstBase, base)))
				if kept := base[1 : 1+tasks]; b.base.header.Items != uint64(tasks) || !slices.IsSorted(kept) {
					t.Fatalf("%d tasks keep the hashes %x", tasks, kept)
				}
			}
			b.close()
		}
	}
}
