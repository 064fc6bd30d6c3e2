package mmapfilter

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"math"
	"math/bits"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/build"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/place"
)

// limitCases are filters with a requested rate.
func limitCases() (all []*Options) {
	for _, kind := range layout.Kinds() {
		// The last rate is the lowest; of the layouts of the paper, it needs three of ten slots free.
		for _, rate := range []float64{0.05, 0.01, 0.001, map[layout.Kind]float64{layout.Compact: 1e-8, layout.Packed: 0.091, layout.SemiSorted: 1.3e-9}[kind]} {
			for _, capacity := range []uint64{100, 200, 500, 1000, 3000, 10_000} {
				if testing.Short() && capacity != 100 && capacity != 1000 {
					continue
				}
				all = append(all, &Options{Layout: kind, FalsePositiveRate: rate, Capacity: capacity})
			}
		}
	}
	return all
}

func (o *Options) limitName() string {
	return fmt.Sprintf("%s,%g,%d", o.Layout, o.FalsePositiveRate, o.Capacity)
}

// expectedRate returns the false-positive rate of a table for random absent keys. Whether a key
// is answered maybe depends on its home, its buckets and its fingerprint. It can be only if an
// item has the same buckets and fingerprint, and has as one of its lines the home of the key; if
// lines know their guests, the same home. expectedRate looks all of these up.
func expectedRate(t layout.Table, v *layout.View, hashes []uint64) float64 {
	asked := map[layout.Item]bool{}
	maybe := 0
	ask := func(it layout.Item) {
		if !asked[it] {
			asked[it] = true
			if layout.Lookup(t, v.At, t.Hash(it)) {
				maybe++
			}
		}
	}
	_, hosts := t.(layout.Hosts)
	for _, h := range hashes {
		it := t.Split(h)
		if ask(it); !hosts {
			ask(t.Alternate(it))
		}
	}
	return float64(maybe) / (float64(t.Lines()) * float64(t.Params().Fingerprints()))
}

// fillTo creates a filter and inserts random hashes until one is refused.
func fillTo(t *testing.T, o *Options, seed uint64) (f *Filter, path string, m keySet) {
	t.Helper()
	made := *o
	made.Seed, made.CommitInterval = seed+1, -1
	path = filepath.Join(memoryDir(t), "filter.mmf")
	f, err := Create(path, &made)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	writerOf(f).Behind = nil
	m = newKeySet(writerOf(f).Table())
	fill(t, f, rand.New(rand.NewPCG(seed, o.Capacity)), &m)
	return f, path, m
}

// limitOf returns the limit of a filter, and how many keys the filter has as the limit counts
// them.
func limitOf(f *Filter) (limit, keys uint64) {
	w := writerOf(f)
	entries, inStash := layout.StashUse(w.Stash())
	return w.Limit, place.KeysOf(f.Len(), inStash, entries)
}

// TestRateWhenFull covers C4: the rate of a filter that has refused a key is at most 1.5 times
// the requested one, and the filter holds at least its capacity. This applies to a filter filled
// by inserts and to the largest that Build makes. Both take as many keys.
func TestRateWhenFull(t *testing.T) {
	t.Parallel() // uses only one processor
	const seed = 0
	for _, o := range limitCases() {
		t.Run(o.limitName(), func(t *testing.T) {
			worst := 0.0
			hold := func(by string, table layout.Table, v *layout.View, hashes []uint64) {
				if uint64(len(hashes)) < o.Capacity {
					t.Errorf("full by %s with %d keys", by, len(hashes))
				}
				rate := expectedRate(table, v, hashes) / o.FalsePositiveRate
				worst = max(worst, rate)
				if rate > build.OverRate {
					t.Errorf("full by %s with %d keys, the rate is %.3f times the one asked for", by, len(hashes), rate)
				}
			}
			f, _, m := fillTo(t, o, seed)
			w := writerOf(f)
			view := newestState(w)
			hold("inserts", w.Table(), &view, m.hashes)

			limit, keys := limitOf(f)
			if limit != build.NoLimit && keys > limit || keys < limit && w.State().StashLen < layout.StashEntries {
				t.Errorf("refused with %d keys and %d entries of the stash, the limit is %d", keys, w.State().StashLen, limit)
			}
			b, built := largestBuild(t, o, rand.New(rand.NewPCG(seed, 77)), m.hashes, limit)
			o := b.open.Load()
			hold("Build", o.table, &o.view, built)
			entries, inStash := layout.StashUse(o.view.Stash)
			if keys := place.KeysOf(b.Len(), inStash, entries); limit != build.NoLimit && entries < layout.StashEntries && (keys > limit || keys+3 < limit) {
				t.Errorf("Build takes %d keys, the limit is %d", keys, limit)
			}
			// The stash groups other keys, and other guests take room; with short fingerprints
			// that affects one or two keys in a hundred.
			if w.State().StashLen < layout.StashEntries && entries < layout.StashEntries && math.Abs(float64(len(built)-len(m.hashes))) > 3+float64(len(built))/50 {
				t.Errorf("Build takes %d keys, and inserts %d", len(built), len(m.hashes))
			}
			f.Close()
			t.Logf("the worst rate is %.3f times the one asked for", worst)
		})
	}
}

// largestBuild returns a filter that Build made from the given hashes, and if needed from random
// ones after them, such that Build refuses one more. If no limit on keys is near, Build refuses
// one percent more.
func largestBuild(t *testing.T, o *Options, rng *rand.Rand, hashes []uint64, limit uint64) (f *Filter, built []uint64) {
	t.Helper()
	opts, path := *o, filepath.Join(memoryDir(t), "filter.mmf")
	opts.Workers = 1
	builds := 0
	fill := func(n int) (*Filter, bool) {
		if builds++; builds > 100 {
			t.Fatalf("Build takes %d keys, or not; inserts took %d, the limit is %d", n, len(hashes), limit)
		}
		for n > len(hashes) {
			hashes = append(hashes, rng.Uint64())
		}
		f, err := Build(context.Background(), path, &opts, keysOfHashes(hashes[:n], opts.withDefaults().Seed))
		if err != nil && !errors.Is(err, ErrFull) {
			t.Fatal(err)
		}
		return f, err == nil
	}
	n, step := len(hashes), 1
	if limit == build.NoLimit {
		step = n/100 + 1
	}
	f, ok := fill(n)
	for ; !ok; f, ok = fill(n) {
		if n -= step; n < int(o.Capacity) {
			t.Fatalf("Build refuses %d keys", n+step)
		}
	}
	for {
		more, ok := fill(n + step)
		if !ok {
			t.Cleanup(func() { f.Close() })
			return f, hashes[:n]
		}
		f.Close()
		f, n = more, n+step
	}
}

// keysOfHashes yields keys of 8 bytes that have the given hashes. XXH3 mixes such a key, as one
// number, by reversible steps: rrmxmx, of len_4to8.
func keysOfHashes(hashes []uint64, seed uint64) iter.Seq2[[]byte, error] {
	const prime = 0x9FB21C651E98DF25
	inverse := uint64(1) // of prime modulo 2^64: each Newton step doubles the number of right bits
	for range 6 {
		inverse *= 2 - prime*inverse
	}
	unmix := func(h uint64) uint64 {
		h ^= h>>28 ^ h>>56
		h *= inverse
		h ^= (h >> 35) + 8
		h *= inverse
		// The square of x -> x ^ rotl(x, 49) ^ rotl(x, 24) rotates by twice as much, so the
		// 64th power is the identity and the 63rd undoes it.
		for shift := 1; shift < 64; shift *= 2 {
			h ^= bits.RotateLeft64(h, 49*shift) ^ bits.RotateLeft64(h, 24*shift)
		}
		return h
	}
	hasher := layout.NewHasher(seed)
	flip := unmix(hasher.Hash(make([]byte, 8)))
	return func(yield func([]byte, error) bool) {
		for _, h := range hashes {
			key := binary.LittleEndian.AppendUint64(nil, bits.RotateLeft64(unmix(h)^flip, 32))
			if hasher.Hash(key) != h {
				yield(nil, fmt.Errorf("the key made for the hash %#x has another", h))
				return
			}
			if !yield(key, nil) {
				return
			}
		}
	}
}

// TestBuildOverTheLimit: the error says how many keys are allowed.
func TestBuildOverTheLimit(t *testing.T) {
	o := &Options{Capacity: 100}
	p, err := o.Plan()
	if err != nil {
		t.Fatal(err)
	}
	sb := newSuperblock(p, o.withDefaults())
	limit := build.Limit(&sb, p.geometry)
	mustBuild(t, o, numbers(0, limit))
	want := fmt.Sprintf("filter is full: %d keys for a capacity of 100; more than %d would raise the false-positive rate above 1.5 times 0.01", limit+9, limit)
	if _, err := Build(context.Background(), filepath.Join(t.TempDir(), "f"), o, numbers(0, limit+9)); !errors.Is(err, ErrFull) || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("%v; it should end with %q", err, want)
	}
}

// TestExpectedRate checks expectedRate against random absent keys, in a filter whose stash is in
// use.
func TestExpectedRate(t *testing.T) {
	for _, kind := range layout.Kinds() {
		f, _, m := fillTo(t, &Options{Layout: kind, Capacity: 300}, 5)
		view := newestState(writerOf(f))
		expected := expectedRate(m.table, &view, m.hashes)
		const absent = 2_000_000
		maybe := 0
		rng := seeded(t, 6)
		for range absent {
			if f.ContainsHash(rng.Uint64()) {
				maybe++
			}
		}
		if measured := float64(maybe) / absent; math.Abs(measured-expected) > 4*standardError(expected, absent) {
			t.Errorf("%s: the rate is %.5f, %.5f is expected", kind, measured, expected)
		}
	}
}

// TestPredict compares the predicted rate for up to more keys than slots with that of tables that were
// filled with them.
func TestPredict(t *testing.T) {
	t.Parallel() // uses only one processor
	for _, s := range []shape{newCompact(49, 4), compact7, compact26, newShape(layout.Packed, 8, 4), newShape(layout.Packed, 13, 1), newShape(layout.SemiSorted, 9, 4)} {
		for slots, tables := range map[uint64]uint64{200: small(uint64(40), 10), 800: small(uint64(40), 10), 20_000: 3} {
			lines := slots / s.slots()
			for _, percent := range []uint64{90, 100, 105, 120, 150} {
				g, err := layout.NewGeometry(s.kind, s.Params, lines)
				if err != nil {
					t.Fatal(err)
				}
				keys, room := g.Slots()*percent/100, g.Slots()
				if s.kind == layout.Compact { // guests take more
					room = room * 95 / 100
				}
				if keys > room+layout.StashEntries*9/10 || slots == 20_000 && s.BucketSize == 1 {
					continue // it is full before that
				}
				predicted := layout.Predict(s.kind, s.Params, float64(keys)/float64(g.Slots())).Rate
				mean, squares := 0.0, 0.0
				for seed := range tables {
					p := testPlacer(t, s.kind, s.Params, lines)
					rng := rand.New(rand.NewPCG(seed, keys))
					var hashes []uint64
					for uint64(len(hashes)) < keys {
						h := rng.Uint64()
						if !p.Insert(p.table.Split(h)) {
							t.Fatalf("%s: full with %d keys", s, len(hashes))
						}
						hashes = append(hashes, h)
					}
					rate := expectedRate(p.table, &p.view, hashes) / predicted
					mean += rate / float64(tables)
					squares += rate * rate / float64(tables)
				}
				deviation := math.Sqrt(max(squares-mean*mean, 0))
				noise := 4 * deviation / math.Sqrt(float64(tables))
				if least := map[layout.Kind]float64{layout.Compact: 0.99}[s.kind]; mean > 1.01+noise || mean < max(least, 0.8)-noise {
					t.Errorf("%s, %d lines, %d %%: the rate is %.3f of the one predicted", s, lines, percent, mean)
				}
			}
		}
	}
}

// TestAtTheLimit covers C3 and C7 at the limit on keys: a delete makes room for one key; keys
// that the stash counts are taken; and nothing is lost, also when the file is opened again.
func TestAtTheLimit(t *testing.T) {
	for _, kind := range layout.Kinds() {
		t.Run(kind.String(), func(t *testing.T) {
			f, path, m := fillTo(t, &Options{Layout: kind, Capacity: 200, FalsePositiveRate: 0.001}, 3)
			rng := seeded(t, 4)
			limit, keys := limitOf(f)
			if keys != limit || writerOf(f).State().StashLen == layout.StashEntries {
				t.Fatalf("%d keys, the limit is %d", keys, limit)
			}
			inStash := func(h uint64) bool {
				return layout.StashCount(writerOf(f).Stash(), m.table.Class(m.table.Split(h))) > 0
			}
			stashed := slices.DeleteFunc(slices.Clone(m.hashes), func(h uint64) bool { return !inStash(h) })
			if len(stashed) < 10 {
				t.Fatalf("%d keys are in the stash", len(stashed))
			}
			insert := func(h uint64) {
				t.Helper()
				if err := f.InsertHash(h); err != nil {
					t.Fatalf("with %d keys: %v", f.Len(), err)
				}
				m.apply(change{h, 1})
			}
			for range 3 { // so that their entries keep counts to the end
				for _, h := range stashed {
					insert(h)
				}
			}
			counted := 0
			for range small(3000, 500) {
				h := m.hashes[rng.IntN(len(m.hashes))]
				before := newestState(writerOf(f))
				if ok, err := f.DeleteHash(h); !ok || err != nil {
					t.Fatalf("delete: %t, %v", ok, err)
				}
				m.apply(change{h, -1})
				if inStash(h) && rng.IntN(2) == 0 { // the key itself
					counted++
					insert(h)
				} else if _, keys := limitOf(f); keys < limit { // any other
					for h = rng.Uint64(); inStash(h); h = rng.Uint64() {
					}
					insert(h)
				} else if layout.StashCount(before.Stash, m.table.Class(m.table.Split(h))) < 2 {
					t.Fatal("a delete of a key that the stash does not count has left no room")
				} else {
					insert(h)
				}
				if _, keys := limitOf(f); keys > limit {
					t.Fatalf("%d keys, the limit is %d", keys, limit)
				}
				if err := f.InsertHash(absentFromStash(rng, inStash)); !errors.Is(err, ErrFull) {
					t.Fatalf("one key too many: %v", err)
				}
			}
			if counted == 0 {
				t.Error("no key was inserted that the stash counts")
			}
			mustHold(t, f, &m)
			crashCopy(t, f, path, path+".killed", nil, nil)
			g := openQuiet(t, path+".killed", nil)
			defer g.Close()
			mustHold(t, g, &m)
			if err := g.InsertHash(absentFromStash(rng, inStash)); !errors.Is(err, ErrFull) {
				t.Errorf("one key too many, after a crash: %v", err)
			}
		})
	}
}

// TestCopiesAreOneKey covers C7: copies that the stash counts do not bring the limit nearer,
// also when the file is opened again.
func TestCopiesAreOneKey(t *testing.T) {
	for _, kind := range layout.Kinds() {
		path := filepath.Join(memoryDir(t), "filter.mmf")
		f, err := Create(path, &Options{Layout: kind, Capacity: 300, CommitInterval: -1})
		if err != nil {
			t.Fatal(err)
		}
		const copies = 300
		for i := range 3 * copies {
			if err := f.Insert([]byte{"012"[i%3]}); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 {
			if err := f.InsertHash(rand.Uint64()); err != nil {
				t.Errorf("%s: with %d keys, %d copies of 3 of them: %v", kind, f.Len(), copies, err)
			}
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
			f = openQuiet(t, path, nil)
		}
		f.Close()
	}
}

func absentFromStash(rng *rand.Rand, inStash func(uint64) bool) uint64 {
	for {
		if h := rng.Uint64(); !inStash(h) {
			return h
		}
	}
}

// TestMoreThanTheLimit: a file whose stash an earlier version filled keeps all its items. It
// takes no other key until enough are deleted; meanwhile the items of the stash move into the
// lines.
func TestMoreThanTheLimit(t *testing.T) {
	for _, kind := range layout.Kinds() {
		t.Run(kind.String(), func(t *testing.T) {
			o := &Options{Layout: kind, Capacity: 200, Seed: 9, CommitInterval: -1}
			path := filepath.Join(memoryDir(t), "filter.mmf")
			f, err := Create(path, o)
			if err != nil {
				t.Fatal(err)
			}
			writerOf(f).Limit = build.NoLimit // as in earlier versions
			m := newKeySet(writerOf(f).Table())
			rng := seeded(t, 8)
			fill(t, f, rng, &m)
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
			f = openQuiet(t, path, nil)
			defer f.Close()
			mustHold(t, f, &m)
			limit, keys := limitOf(f)
			if limit == build.NoLimit || keys < limit*3/2 {
				t.Fatalf("%d keys, the limit is %d", keys, limit)
			}
			inStash := func(h uint64) bool {
				return layout.StashCount(writerOf(f).Stash(), m.table.Class(m.table.Split(h))) > 0
			}
			for keys > limit {
				if err := f.InsertHash(absentFromStash(rng, inStash)); !errors.Is(err, ErrFull) {
					t.Fatalf("with %d keys, of %d: %v", keys, limit, err)
				}
				if h := m.hashes[rng.IntN(len(m.hashes))]; inStash(h) {
					if err := f.InsertHash(h); err != nil {
						t.Fatalf("a key that the stash counts: %v", err)
					}
					m.apply(change{h, 1})
				}
				for range 2 {
					h := m.hashes[rng.IntN(len(m.hashes))]
					if ok, err := f.DeleteHash(h); !ok || err != nil {
						t.Fatalf("delete: %t, %v", ok, err)
					}
					m.apply(change{h, -1})
				}
				_, keys = limitOf(f)
			}
			mustHold(t, f, &m)
			for keys >= limit {
				h := m.hashes[rng.IntN(len(m.hashes))]
				if ok, err := f.DeleteHash(h); !ok || err != nil {
					t.Fatalf("delete: %t, %v", ok, err)
				}
				m.apply(change{h, -1})
				_, keys = limitOf(f)
			}
			h := absentFromStash(rng, inStash)
			if err := f.InsertHash(h); err != nil {
				t.Errorf("with %d keys, of %d: %v", keys, limit, err)
			}
			m.apply(change{h, 1})
			mustHold(t, f, &m)
		})
	}
}
