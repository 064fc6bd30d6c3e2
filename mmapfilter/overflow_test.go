package mmapfilter

import (
	"context"
	"math"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/place"
)

// A memoryPlacer works on a table in memory.
type memoryPlacer struct {
	*place.Placer
	table layout.Table
	view  layout.View
}

// testPlacer returns a placer on an empty table in memory.
func testPlacer(tb testing.TB, k layout.Kind, p layout.Params, lines uint64) *memoryPlacer {
	tb.Helper()
	table, view := shape{k, p}.table().Memory(tb, lines)
	return &memoryPlacer{place.New(table, place.NewUnlogged(table, view)), table, view}
}

// An overflow says how far a table has overflowed: the share of lookups of absent keys that read
// a second line, and the share of items away from their home line.
type overflow struct{ second, away float64 }

// measureOverflow examines all lines of a table and all items in it.
func measureOverflow(t layout.Table, v layout.View, hashes []uint64) (o overflow) {
	var l layout.Line
	for i := range t.Lines() {
		layout.Load(t, v.Region, i, &l)
		o.second += t.Probe(&l, i).Second
	}
	for _, h := range hashes {
		it := t.Split(h)
		if layout.Load(t, v.Region, it.Line, &l); layout.Copies(t, l, it) == 0 {
			o.away++
		}
	}
	o.second /= float64(t.Lines())
	o.away /= float64(len(hashes))
	return o
}

// overflowByInserts measures a table as inserts fill it in random order, at the given rising
// loads in percent.
func overflowByInserts(tb testing.TB, s shape, lines uint64, percents []int) (at []overflow) {
	p := testPlacer(tb, s.kind, s.Params, lines)
	rng := rand.New(rand.NewPCG(s.Fingerprints(), lines))
	slots := int(lines * s.slots())
	var hashes []uint64
	for _, percent := range percents {
		for len(hashes) < slots*percent/100 {
			h := rng.Uint64()
			if !p.Insert(p.table.Split(h)) {
				tb.Fatalf("%s: full at %d of %d slots", s, len(hashes), slots)
			}
			hashes = append(hashes, h)
		}
		at = append(at, measureOverflow(p.table, p.view, hashes))
	}
	return at
}

// overflowByBuild measures a file built with the given load.
func overflowByBuild(tb testing.TB, s shape, capacity uint64, percent int) overflow {
	opts := s.options(Options{Capacity: capacity})
	plan, err := opts.Plan()
	if err != nil {
		tb.Fatal(err)
	}
	n := plan.geometry.Slots() * uint64(percent) / 100
	f, err := Build(context.Background(), filepath.Join(tb.TempDir(), "f"), &opts, numbers(0, n))
	if err != nil {
		tb.Fatal(err)
	}
	defer f.Close()
	var hashes []uint64
	for key := range numbers(0, n) {
		hashes = append(hashes, f.Hash(key))
	}
	o := f.open.Load()
	return measureOverflow(o.table, o.view, hashes)
}

// TestOverflow compares the predicted shares of second lines with those of tables filled here: by
// inserts, which are what is predicted, and by Build, which sends fewer items away. It covers P10, and
// of P9 that room comes first: without either, Build sends more away.
func TestOverflow(t *testing.T) {
	if testing.Short() {
		t.Skip("it fills tables")
	}
	for _, s := range compactShapes() {
		percent := layout.DesignLoads(s.kind, s.Params).Usual
		predicted := layout.Predict(s.kind, s.Params, float64(percent)/100).Second
		inserts := overflowByInserts(t, s, 8192, []int{percent})[0]
		built := overflowByBuild(t, s, 300_000, percent)
		noise := 3 * 0.1 / math.Sqrt(8192) // the share differs from line to line by less than 0.1
		if math.Abs(inserts.second-predicted) > 0.1*predicted+noise || built.second > predicted+noise {
			t.Errorf("%s at %d %%: predicted %.4f, by inserts %+v, by Build %+v", s, percent, predicted, inserts, built)
		}
	}
}
