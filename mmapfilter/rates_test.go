package mmapfilter

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/layouttest"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/tabletest"
)

// TestRates covers C1 and C4 at design load, with half a million keys and as many absent ones. No key of
// the filter is answered "certainly not". The predicted rate is at most the requested one, and the share
// of absent keys answered "maybe" differs from it by at most three standard errors plus two keys. In
// Compact, at most 6.3 % of lookups of absent keys read a second line, fewer than after inserts (P9);
// bits per key exceed those below by at most 0.5 %; and at most two items find no slot.
func TestRates(t *testing.T) {
	t.Parallel() // its lookups use only one processor
	const most = 0.063
	check := func(name string, opts Options, mostBits float64) {
		t.Run(name, func(t *testing.T) {
			r := measureRate(t, opts, small(uint64(500_000), 300_000))
			if r.missing != 0 {
				t.Errorf("for %d of %d keys, the answer is certainly not", r.missing, r.keys)
			}
			if r.predicted > r.asked || math.Abs(r.measured-r.predicted) > 3*standardError(r.predicted, r.keys)+2/float64(r.keys) {
				t.Errorf("the rate is %g; %g was predicted, and %g was requested", r.measured, r.predicted, r.asked)
			}
			bits := 512 * float64(r.stats.Lines) / float64(r.keys)
			if mostBits != 0 && (bits > mostBits || r.stats.SecondProbeRate > most || r.stats.StashLen > 2) {
				t.Errorf("%.3f bits per key, second lines %.3f, %d entries of the stash", bits, r.stats.SecondProbeRate, r.stats.StashLen)
			}
		})
	}
	for rate, bits := range map[float64]float64{
		0.1: 6.33, 0.05: 7.38, 0.03: 8.42, 0.02: 8.69, 0.01: 9.80, 0.005: 11.00, 0.003: 11.47,
		0.001: 13.47, 1e-4: 17.02, 1e-5: 20.73, 1e-6: 24.50, 1e-8: 31.70,
	} {
		check(fmt.Sprintf("asked=%g", rate), Options{FalsePositiveRate: rate}, 1.005*bits)
	}
	for _, s := range []shape{
		packed12, newShape(layout.SemiSorted, 13, 4), newShape(layout.Packed, 8, 8), newShape(layout.Packed, 16, 1),
		newShape(layout.Packed, 32, 2), newShape(layout.SemiSorted, 7, 4), newShape(layout.SemiSorted, 24, 4),
	} {
		check(s.String(), s.options(Options{}), 0)
	}
}

// TestEveryFingerprint covers C1 and C4 for every layout with all its parameters (in Compact, some),
// with 30,000 keys and as many absent ones. No key of the filter is answered "certainly not". The share
// of absent keys answered "maybe" is at most the requested rate plus four standard errors and three
// keys.
func TestEveryFingerprint(t *testing.T) {
	const n = 30_000
	for _, kind := range layout.Kinds() {
		for _, p := range layouttest.Params(kind) {
			r := measureRate(t, shape{tabletest.Shape{Kind: kind, Params: p}}.options(Options{}), n)
			if r.missing != 0 || r.measured > r.asked+4*standardError(r.asked, n)+3./n {
				t.Errorf("%s %v: %d missing; the rate is %g, and %g was requested", kind, p, r.missing, r.measured, r.asked)
			}
		}
	}
}

type rateResult struct {
	keys, missing              uint64
	asked, predicted, measured float64
	stats                      Stats
}

// measureRate builds a filter of n keys, and looks up these keys and as many absent ones.
func measureRate(t *testing.T, opts Options, n uint64) rateResult {
	opts.Capacity = n
	plan, err := opts.Plan()
	must(t, err)
	path := filepath.Join(t.TempDir(), "f")
	f, err := Build(context.Background(), path, &opts, numbers(0, n))
	must(t, err)
	defer os.Remove(path)
	defer f.Close()
	found, _ := countFound(f, numbers(0, n))
	wrong, _ := countFound(f, numbers(n, 2*n))
	s := f.Stats()
	return rateResult{keys: n, missing: n - uint64(found), asked: s.TargetRate, predicted: plan.PredictedRate,
		measured: float64(wrong) / float64(n), stats: s}
}

// TestTurnovers covers C1, C2 and C4 over a long life. A filter with a requested rate and the usual
// layout is filled to its capacity, by inserts or by Build. Then keys are replaced, five times as many
// as it has: the oldest, random ones, or mostly recent ones. No insert finds the filter full, no key is
// missing, the measured rate is at most the requested one, and at most 8 % of lookups of absent keys
// read a second line. (If deletes brought no guest home, up to 13 % would.) No overflow bit is set that
// no item needs, not even after Build. Then the filter is filled until an insert returns ErrFull, and
// random keys are deleted until it has as many as its capacity; at most 15 % of these lookups read a
// second line then.
func TestTurnovers(t *testing.T) {
	t.Parallel() // uses only one processor
	for i, kind := range []string{"oldest", "random", "zipf"} {
		for j, asked := range []float64{0.05, 0.01, 0.001, 0.0001} {
			t.Run(fmt.Sprintf("out=%s/asked=%g", kind, asked), func(t *testing.T) {
				testTurnovers(t, (i+j)%2 == 0, kind, asked)
			})
		}
	}
}

func testTurnovers(t *testing.T, built bool, kind string, asked float64) {
	const mostFilled, mostSecond, mostAfterFull = 0.09, 0.08, 0.15 // only deletes bring guests home
	keys := small(20_000, 2_000)
	rng := seeded(t, 23)
	f, live := fullFilter(t, built, keys, asked, rng)
	if s := f.Stats(); s.Layout != layout.Compact || s.Capacity != uint64(keys) {
		t.Fatalf("the layout is %s, the capacity %d", s.Layout, s.Capacity)
	}
	checkLife(t, f, live, asked, mostFilled, rng)
	zipf := rand.NewZipf(rng, 1.1, 1, uint64(keys-1))
	place := map[string]func(i int) int{
		"oldest": func(i int) int { return i },
		"random": func(int) int { return rng.IntN(keys) },
		"zipf":   func(int) int { return int(zipf.Uint64()) },
	}[kind]
	for range 5 {
		for i := range keys {
			at := place(i)
			if ok, err := f.DeleteHash(live[at]); !ok || err != nil {
				t.Fatalf("deleting a key: %t, %v", ok, err)
			}
			live[at] = rng.Uint64()
			if err := f.InsertHash(live[at]); err != nil {
				t.Fatalf("with %d keys: %v", f.Len(), err)
			}
		}
		must(t, f.Sync())
	}
	checkLife(t, f, live, asked, mostSecond, rng)
	var err error
	for err == nil {
		h := rng.Uint64()
		if err = f.InsertHash(h); err == nil {
			live = append(live, h)
		}
	}
	if !errors.Is(err, ErrFull) {
		t.Fatal(err)
	}
	rng.Shuffle(len(live), func(i, j int) { live[i], live[j] = live[j], live[i] })
	for _, h := range live[keys:] {
		if ok, err := f.DeleteHash(h); !ok || err != nil {
			t.Fatalf("deleting a key: %t, %v", ok, err)
		}
	}
	must(t, f.Sync())
	checkLife(t, f, live[:keys], asked, mostAfterFull, rng)
}

// fullFilter returns a filter that is open for writing and filled to its capacity, and the hashes of its
// keys.
func fullFilter(t *testing.T, built bool, keys int, asked float64, rng *rand.Rand) (f *Filter, live []uint64) {
	path := filepath.Join(memoryDir(t), "f")
	if !built {
		f, err := Create(path, &Options{Capacity: uint64(keys), FalsePositiveRate: asked, CommitInterval: -1})
		must(t, err)
		t.Cleanup(func() { f.Close() })
		live = hashes(rng.Uint64(), keys)
		insertAll(t, f, live)
		return f, live
	}
	f, err := Build(context.Background(), path, &Options{FalsePositiveRate: asked}, numbers(0, uint64(keys)))
	must(t, err)
	for key := range numbers(0, uint64(keys)) {
		live = append(live, f.Hash(key))
	}
	must(t, f.Close())
	return mustOpen(t, path, &OpenOptions{CommitInterval: -1}), live
}

// checkLife checks that a filter has all hashes in live, that its rate is at most asked, and that at
// most a share of mostSecond of the lookups of absent keys read a second line.
func checkLife(t *testing.T, f *Filter, live []uint64, asked, mostSecond float64, rng *rand.Rand) {
	t.Helper()
	if mustContain(t, f, live); f.Len() != uint64(len(live)) {
		t.Errorf("Len is %d, not %d", f.Len(), len(live))
	}
	absent := small(max(100_000, uint64(100/asked)), 20_000)
	wrong := 0
	for range absent {
		if f.ContainsHash(rng.Uint64()) {
			wrong++
		}
	}
	if rate := float64(wrong) / float64(absent); rate > asked+3*standardError(asked, absent) {
		t.Errorf("the rate is %g, and %g was requested", rate, asked)
	}
	w := writerOf(f)
	table, view := w.Table(), newestState(w)
	// A short run has few lines, with 16 overflow bits each, so the share may differ by chance.
	if second := secondShare(table, view); second > mostSecond+small(0, 3*standardError(mostSecond, 16*table.Lines())) {
		t.Errorf("%.4f of lookups of absent keys read a second line", second)
	}
	stale := 0
	table.(layout.Hosts).MakeBits(&view, 0, table.Lines(), func(uint64, uint64) { stale++ })
	if stale > 0 {
		t.Errorf("%d lines have overflow bits that no item needs", stale)
	}
}
