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
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/tabletest"
	"pgregory.net/rapid"
)

// buildHashes runs the steps of Build with hashes in place of keys. It returns the builder,
// whose draft exists until the test ends, and the bytes that it stored.
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

// TestBuildOfAnyHashes: for any hashes, any number of them relative to the capacity, any order
// and any number of workers, all are in the file, and items away from home have their overflow
// bits there; or the file is full.
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

// TestRounds: the rounds end when there is no more room to gain, and not before. In a full
// Packed with two slots per bucket, which takes the most rounds, a few items are left.
func TestRounds(t *testing.T) {
	many, few := 1_000_000, 5_000
	if testing.Short() {
		many, few = 200_000, 2_000
	}
	random := make([]uint64, many)
	rng := rand.New(rand.NewPCG(9, 9))
	for i := range random {
		random[i] = rng.Uint64()
	}
	rounds := 0
	counting := func(s tabletest.Shape, capacity uint64) Config {
		c := configOf(s)
		c.Capacity, rounds = capacity, 0
		c.Progress = func(stage string, _, _ uint64) {
			if stage == "place" {
				rounds++
			}
		}
		return c
	}
	for _, s := range tabletest.OneEach() {
		if _, _, err := buildHashes(t, counting(s, uint64(few)), random[:10*few]); !errors.As(err, new(*FullError)) || rounds > 10 {
			t.Errorf("%s: ten times the capacity: %d rounds, %v", s, rounds, err)
		}
	}
	if testing.Short() {
		return
	}
	b, _, err := buildHashes(t, counting(tabletest.Paper(layout.Packed, 16, 2), uint64(len(random))), random)
	if left := b.homeless.total.Load(); err != nil || left > fewHomeless {
		t.Errorf("after %d rounds, %d items are left; %v", rounds, left, err)
	}
}

// A heldSource holds back task 0 until another one waits for its turn.
type heldSource struct {
	*spool
	others atomic.Int32 // that were loaded
	first  func() error // ends task 0
}

func (s *heldSource) load(w *worker, from, to int, drop, distinct bool) ([]uint64, error) {
	if from > 0 {
		s.others.Add(1)
		return s.spool.load(w, from, to, drop, distinct)
	}
	for s.others.Load() == 0 {
		runtime.Gosched()
	}
	return nil, s.first()
}

// TestWhyFillEnds: tasks that wait for their turn to keep hashes end with the cause of the cancelled
// context, or with the error of the task that failed, however the tasks are scheduled.
func TestWhyFillEnds(t *testing.T) {
	why := errors.New("it ends")
	for _, cancelled := range []bool{true, false} {
		for range 100 {
			ctx, cancel := context.WithCancelCause(context.Background())
			c := configOf(tabletest.Compact(41, 7))
			c.Workers, c.Keep = 2, true
			b := &builder{Config: c, draft: newTestDraft(t)}
			must(t, b.allocate(ctx, 400_000))
			b.homes = &heldSource{spool: newSpool(b.draft, c.Workers, c.MemoryBudget, spoolParts(400_000)), first: func() error {
				if !cancelled {
					return why
				}
				cancel(why)
				for failed := false; !failed; runtime.Gosched() {
					b.base.mu.Lock()
					failed = b.base.failed != nil
					b.base.mu.Unlock()
				}
				return nil
			}}
			err := b.fill(ctx)
			b.close()
			if cancel(nil); err != why {
				t.Fatalf("cancelled %t: %v", cancelled, err)
			}
		}
	}
}
