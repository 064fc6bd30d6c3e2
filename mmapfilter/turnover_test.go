package mmapfilter

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
)

var turnovers = flag.Int("turnovers", 5, "how often keys are replaced; more than 5 times: at all rates")

// TestTurnovers covers C1, C2 and C4 over a long life. A filter that names a rate and nothing else
// gets as many keys as its capacity, by inserts or from Build. Then keys are replaced, a number of
// times as many as it has: the oldest, random ones, or mostly those of a few places. No insert finds
// it full, no key is missing, the measured rate is at most the requested one, and at most 8 % of
// lookups of absent keys read a second line, 8.5 % where the rate is below 1e-5. (If deletes brought
// no guest home, up to 13 % would.) No overflow bit is set that no item needs, not even in what Build
// leaves.
func TestTurnovers(t *testing.T) {
	t.Parallel() // uses only one processor
	rates := []float64{0.05, 0.01, 0.001, 0.0001}
	if *turnovers > 5 {
		rates = nil
		for _, c := range compactBits {
			rates = append(rates, c.rate)
		}
	}
	for _, built := range []bool{false, true} {
		for _, kind := range []string{"oldest", "random", "zipf"} {
			for _, asked := range rates {
				t.Run(fmt.Sprintf("built=%t/out=%s/asked=%g", built, kind, asked), func(t *testing.T) {
					testTurnovers(t, built, kind, asked)
				})
			}
		}
	}
}

func testTurnovers(t *testing.T, built bool, kind string, asked float64) {
	const mostFilled = 0.09 // deletes bring guests home, inserts and Build do not
	mostSecond := 0.08
	if asked < 1e-5 { // a line has few slots
		mostSecond = 0.085
	}
	keys := small(20_000, 2_000)
	rng := seeded(t, 23)
	f, live := fullFilter(t, built, keys, asked, rng)
	defer f.Close()
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
	for range *turnovers {
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
		if err := f.Sync(); err != nil {
			t.Fatal(err)
		}
	}
	checkLife(t, f, live, asked, mostSecond, rng)
}

// fullFilter returns a filter that is open for writing and has as many keys as its capacity, and their
// hashes.
func fullFilter(t *testing.T, built bool, keys int, asked float64, rng *rand.Rand) (f *Filter, live []uint64) {
	path := filepath.Join(memoryDir(t), "f")
	var err error
	if built {
		f, err = Build(context.Background(), path, &Options{FalsePositiveRate: asked}, numbers(0, uint64(keys)))
		if err != nil {
			t.Fatal(err)
		}
		for key := range numbers(0, uint64(keys)) {
			live = append(live, f.Hash(key))
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		if f, err = Open(path, &OpenOptions{CommitInterval: -1}); err != nil {
			t.Fatal(err)
		}
		return f, live
	}
	f, err = Create(path, &Options{Capacity: uint64(keys), FalsePositiveRate: asked, CommitInterval: -1})
	if err != nil {
		t.Fatal(err)
	}
	for range keys {
		live = append(live, rng.Uint64())
		if err := f.InsertHash(live[len(live)-1]); err != nil {
			t.Fatalf("with %d keys: %v", f.Len(), err)
		}
	}
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	return f, live
}

// checkLife holds a filter against the hashes that it has, the rate that was asked for, and the share
// of absent keys that may read a second line.
func checkLife(t *testing.T, f *Filter, live []uint64, asked, mostSecond float64, rng *rand.Rand) {
	t.Helper()
	missing := 0
	for _, h := range live {
		if !f.ContainsHash(h) {
			missing++
		}
	}
	if missing > 0 || f.Len() != uint64(len(live)) {
		t.Errorf("%d of %d keys are missing, and Len says %d", missing, len(live), f.Len())
	}
	absent := small(min(max(100_000, uint64(100/asked)), 4_000_000), 20_000)
	wrong := 0
	for range absent {
		if f.ContainsHash(rng.Uint64()) {
			wrong++
		}
	}
	rate := float64(wrong) / float64(absent)
	if rate > asked+3*standardError(asked, absent) {
		t.Errorf("the rate is %g, %g was asked for", rate, asked)
	}
	w := writerOf(f)
	table, view := w.Table(), newestState(w)
	o := measureOverflow(table, view, live)
	// In a short run there are few lines; a lookup asks one of the 16 overflow bits of a line.
	if o.second > mostSecond+small(0, 3*standardError(mostSecond, 16*table.Lines())) {
		t.Errorf("%.4f of lookups of absent keys read a second line", o.second)
	}
	stale := 0
	table.(layout.Hosts).MakeBits(&view, 0, table.Lines(), func(uint64, uint64) { stale++ })
	if stale > 0 {
		t.Errorf("%d lines have overflow bits that no item needs", stale)
	}
	t.Logf("rate %g, second lines %.4f, away %.4f", rate, o.second, o.away)
}
