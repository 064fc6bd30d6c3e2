package mmapfilter

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
	"pgregory.net/rapid"
)

// buildHashes takes the steps of Build with hashes in place of keys. It gives the
// builder, whose draft is there until the test ends, and the bytes that it stored.
func buildHashes(t *testing.T, o Options, hashes []uint64) (b *builder, stored []byte, err error) {
	draft, err := newTestDraft(t)
	if err != nil {
		t.Fatal(err)
	}
	b = &builder{options: o.withDefaults(), draft: draft}
	defer func() {
		b.homes.close()
		b.overflows.close()
	}()
	if o.Capacity > 0 {
		if err := b.allocate(o.Capacity); err != nil {
			return b, nil, err
		}
	}
	b.homes = newSpool(draft, b.options.Workers, b.options.MemoryBudget, spoolParts(o.Capacity))
	b.came = uint64(len(hashes))
	w := b.homes.writer()
	for _, h := range hashes {
		if err := w.add(h); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.flush(); err != nil {
		t.Fatal(err)
	}
	if err := b.store(context.Background()); err != nil {
		return b, nil, err
	}
	return b, bytes.Clone(draft.Data[layout.OffRuntime:b.plan.geometry.OffTable]), nil
}

// TestBuildOfAnyHashes: whatever the hashes are, however many for the capacity, and in
// whatever order and with how many workers they come, all are in the file, and those that
// are away from home have their overflow bits there; or it is full.
func TestBuildOfAnyHashes(t *testing.T) {
	all := shapes()
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
		o := Options{Layout: s.kind, FingerprintBits: s.FingerprintBits, BucketSize: s.BucketSize, Workers: 1}
		o.Distinct = rapid.Bool().Draw(rt, "distinct")
		o.Capacity = uint64(rapid.SampledFrom([]int{0, max(1, n/2), max(1, n*97/100), 10*n + 1}).Draw(rt, "capacity"))
		b, stored, err := buildHashes(t, o, hashes)

		o.Workers, o.MemoryBudget = rapid.IntRange(2, 5).Draw(rt, "workers"), 5<<20
		others := slices.Clone(hashes)
		rng.Shuffle(n, func(i, j int) { others[i], others[j] = others[j], others[i] })
		if _, again, err2 := buildHashes(t, o, others); (err == nil) != (err2 == nil) || !bytes.Equal(again, stored) {
			rt.Fatalf("in another order: %v and %v, other bytes", err, err2)
		}
		if err != nil {
			if option := new(OptionError); !errors.Is(err, ErrFull) && !errors.As(err, &option) {
				rt.Fatal(err)
			}
			return
		}
		if o.Distinct {
			slices.Sort(hashes)
			hashes = slices.Compact(hashes)
		}
		for _, h := range hashes {
			if !layout.Contains(b.table, &b.view, h) || !layout.Lookup(b.table, b.view.At, h) {
				rt.Fatalf("%#x is not found", h)
			}
		}
		checkAway(t, &memoryPlacer{view: b.view, placer: newPlacer(b.table, newDirect(b.table, b.view))}, hashes)
	})
}

// TestRounds: they end where no more room is to be had, and not before: of a full
// Packed with two slots a bucket, which takes the most rounds, a few items are left.
func TestRounds(t *testing.T) {
	random := make([]uint64, 2_000_000)
	rng := rand.New(rand.NewPCG(9, 9))
	for i := range random {
		random[i] = rng.Uint64()
	}
	rounds := 0
	o := Options{Progress: func(stage string, _, _ uint64) {
		if stage == "place" {
			rounds++
		}
	}}
	for _, s := range oneEach() {
		o.Layout, o.FingerprintBits, o.BucketSize, o.Capacity = s.kind, s.FingerprintBits, s.BucketSize, 10_000
		rounds = 0
		if _, _, err := buildHashes(t, o, random[:100_000]); !errors.Is(err, ErrFull) || rounds > 10 {
			t.Errorf("%s: ten times the capacity: %d rounds, %v", s, rounds, err)
		}
	}
	if testing.Short() {
		return
	}
	o.Layout, o.FingerprintBits, o.BucketSize, o.Capacity = layout.Packed, 16, 2, uint64(len(random))
	rounds = 0
	b, _, err := buildHashes(t, o, random)
	if left := b.overflows.count(); err != nil || left > fewOverflows {
		t.Errorf("after %d rounds, %d items are left; %v", rounds, left, err)
	}
}
