package main

import (
	"context"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/mmapfilter/mmapfilter/tools/evaluate/peers"
	"github.com/mmapfilter/mmapfilter/tools/evaluate/report"
	"github.com/mmapfilter/mmapfilter/tools/internal/machine"
)

// tiny is a scale for tests: tables of 96 KiB.
func tiny() *extent {
	return &extent{
		bytes: 96 << 10, oddSize: 100_000, rounds: 2, steps: 4, lookups: 500, absent: 200_000,
		loads: []loadRun{{1 << 10, []int{4, 8, 12}, 2}, {1 << 12, []int{8, 12}, 1}},
		items: 60_000, fStep: 4, bloom: []int{8, 13},
	}
}

func testConfig(t *testing.T) *config {
	t.Helper()
	c := &config{ctx: context.Background(), scale: "tiny", extent: tiny(), out: t.TempDir(), seed: 7, dir: t.TempDir(), progress: io.Discard}
	t.Cleanup(func() {
		if err := c.close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// number returns the number in a cell.
func number(t *testing.T, cell string) float64 {
	t.Helper()
	x, err := strconv.ParseFloat(cell, 64)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// within checks that x is between two bounds.
func within(t *testing.T, what string, x, least, most float64) {
	t.Helper()
	if !(x >= least && x <= most) {
		t.Errorf("%s is %g, not between %g and %g", what, x, least, most)
	}
}

// checkSeries checks that a plot has the named lines, each with the given number of points, all
// positive.
func checkSeries(t *testing.T, p report.Plot, points int, names ...string) {
	t.Helper()
	var have []string
	for _, s := range p.Series {
		have = append(have, s.Name)
		if s.Style == report.Measured && len(s.Points) != points {
			t.Errorf("%s: %s has %d points, not %d", p.Title, s.Name, len(s.Points), points)
		}
		for _, at := range s.Points {
			if !(at.Y > 0) || math.IsInf(at.Y, 0) {
				t.Errorf("%s: %s has a point %v", p.Title, s.Name, at)
			}
		}
	}
	for _, name := range names {
		if !slices.Contains(have, name) {
			t.Errorf("%s: no series %q in %q", p.Title, name, have)
		}
	}
	if len(have) != len(names) {
		t.Errorf("%s: %q, and %q were expected", p.Title, have, names)
	}
}

// writes checks that a figure can be written and drawn.
func writes(t *testing.T, c *config, name string, f *report.Figure) {
	t.Helper()
	f.Name, f.Title, f.Command = name, name, c.command(name)
	if err := report.Write(c.out, f, machine.This()); err != nil {
		t.Error(err)
	}
	if err := report.Draw(c.out, viewers(experiments)); err != nil {
		t.Error(err)
	}
}

var (
	lookerNames = []string{"CF", "CF, batches", "ss-CF", "ss-CF, batches", "Compact", "Compact, batches", "BF", "blk-BF", "CBF", "QF", "dl-CBF"}
	peerNames   = []string{"CF", "ss-CF", "Compact", "BF", "blk-BF", "CBF", "QF", "dl-CBF"}
	deleters    = []string{"CF", "ss-CF", "Compact", "CBF", "QF", "dl-CBF"}
)

// Table 3 and figures 5 to 8 share a filling, as in a run of all. The bounds of rates are five
// standard errors around the theory.
func TestFilled(t *testing.T) {
	c := testConfig(t)
	f, err := table3(c)
	if err != nil {
		t.Fatal(err)
	}
	writes(t, c, "table3", f)
	if len(f.Tables) != 1 || len(f.Tables[0].Rows) != 2*3+len(structures) {
		t.Fatalf("%v", f.Tables)
	}
	if len(f.Plots) != 3 || len(f.Plots[1].Names) != 7 || len(f.Plots[1].Series[1].Points) != 6 || f.Plots[1].Series[1].Points[0].Y != 0.19 {
		t.Errorf("%+v", f.Plots)
	}
	band := map[string][2]float64{ // rate in %
		"CF": {0.13, 0.24}, "ss-CF": {0.06, 0.13}, "Compact": {0.16, 0.24},
		"BF": {0.14, 0.26}, "blk-BF": {0.25, 0.60}, "CBF": {0.14, 0.26}, "QF": {0.12, 0.23}, "dl-CBF": {0.1, 1.2},
	}
	for _, r := range f.Tables[0].Rows {
		within(t, r[0]+" ("+r[1]+"): rate", number(t, r[5]), band[r[0]][0], band[r[0]][1])
		if s := structureOf(r[0]); s.shape != nil {
			within(t, r[0]+": load", number(t, r[3]), 94.99, 95.6)
		}
		if r[8] != "0" {
			t.Errorf("%v", r)
		}
	}
	for i, bits := range map[int]float64{0: 12.60, 1: 12.58, 2: 12.25} { // and the head of the file
		head := 8 * 41000 / (number(t, f.Tables[0].Rows[i][2]) * 1e6)
		within(t, f.Tables[0].Rows[i][0]+": bits", number(t, f.Tables[0].Rows[i][4]), bits, bits+1.3*head)
	}

	filled := c.filling
	for _, e := range []struct {
		name   string
		run    func(*config) (*report.Figure, error)
		plots  int
		points int
		series []string
	}{
		{"fig5", fig5, 1, len(presentShares), lookerNames},
		{"fig6", fig6, 2, c.extent.steps, lookerNames},
		{"fig7", fig7, 1, c.extent.steps, peerNames},
		{"fig8", fig8, 1, c.extent.steps, deleters},
	} {
		if c.filling != filled {
			t.Fatalf("%s is to fill everything again", e.name)
		}
		f, err := e.run(c)
		if err != nil {
			t.Fatalf("%s: %v", e.name, err)
		}
		if len(f.Plots) != e.plots {
			t.Fatalf("%s has %d plots", e.name, len(f.Plots))
		}
		for _, p := range f.Plots {
			checkSeries(t, p, e.points, e.series...)
		}
		writes(t, c, e.name, f)
	}
	if c.filling != nil {
		t.Error("fig8 leaves structures without keys to the next experiment")
	}
}

// Figure 2 at tiny size. Long fingerprints reach the loads of the paper, and the first key
// without a slot comes before the first refusal.
func TestFig2(t *testing.T) {
	c := testConfig(t)
	f, err := fig2(c)
	if err != nil {
		t.Fatal(err)
	}
	writes(t, c, "fig2", f)
	least := map[string]float64{"2": 84, "4": 95, "8": 98}
	for _, r := range f.Tables[0].Rows {
		noSlot, refused := number(t, r[3]), number(t, r[4])
		if r[2] != "4" {
			within(t, "load of "+strings.Join(r, " "), noSlot, least[r[0]], 100)
		}
		if refused <= noSlot {
			t.Errorf("%v", r)
		}
	}
	if len(f.Plots) != 3 || len(f.Plots[0].Series) != 4 || len(f.Tables[0].Rows) != 3*5 {
		t.Errorf("%d plots, %d rows", len(f.Plots), len(f.Tables[0].Rows))
	}
}

// Building the first part in bulk gives the same load.
func TestBulkLoad(t *testing.T) {
	c := testConfig(t)
	s := shape{mmapfilter.Packed, 12, 2, 0}
	bulk, err := c.reachedLoad(s, bulkLines, 0)
	if err != nil {
		t.Fatal(err)
	}
	o, _, err := s.options(bulkLines)
	if err != nil {
		t.Fatal(err)
	}
	m, n, err := c.begun(s, o, bulkLines*2, 0)
	if err != nil || n == 0 {
		t.Fatalf("%d keys, %v", n, err)
	}
	if m.live.Stats().StashLen != 0 {
		t.Error("the stash is in use when the counting begins")
	}
	if err := m.close(); err != nil {
		t.Fatal(err)
	}
	m, err = c.create("single", o)
	if err != nil {
		t.Fatal(err)
	}
	defer m.close()
	for n = 0; m.Insert(c.key(n)); n++ {
	}
	within(t, "refused, beside one at a time", bulk.refuse-float64(n)/(2*bulkLines), -0.01, 0.01)
}

// Figures 3 and 4: every key is found, and bits and rates match the formulas.
func TestSpaces(t *testing.T) {
	c := testConfig(t)
	f, err := fig3(c)
	if err != nil {
		t.Fatal(err)
	}
	writes(t, c, "fig3", f)
	checkRates(t, f.Tables[0], 16)
	f, err = fig4(c)
	if err != nil {
		t.Fatal(err)
	}
	writes(t, c, "fig4", f)
	checkRates(t, f.Tables[1], 4+4+5)
	if len(f.Plots) != 1 || len(f.Plots[0].Series) != 8 {
		t.Errorf("%d series", len(f.Plots[0].Series))
	}
	within(t, "crossing", crossing([]space{{bits: 9, rate: 0.02, found: 1}, {bits: 9, rate: 0.01, found: 1}, {bits: 12, rate: 0.001, found: 1}}), 0.01, 0.01)
}

// checkRates compares the rates of cuckoo tables with 2b·load/2^f, within five standard errors.
func checkRates(t *testing.T, table report.Table, rows int) {
	t.Helper()
	n := 0
	for _, r := range table.Rows {
		name, rest, _ := strings.Cut(r[0], ", f=")
		f, b, ok := strings.Cut(rest, ", b=")
		if !ok || name == "compact" {
			n++
			continue
		}
		n++
		expected := 2 * number(t, b) * number(t, r[1]) / 100 / math.Exp2(number(t, f))
		found := number(t, r[3])
		within(t, r[0]+": rate over that expected", number(t, r[2])/100/-math.Expm1(-expected), 0.97-5/math.Sqrt(found+1), 1.05+5/math.Sqrt(found+1))
	}
	if n < rows {
		t.Errorf("%d rows, not %d", n, rows)
	}
}

// forgets is a filter that loses one key.
type forgets struct {
	peers.Filter
	lost uint64
}

func (f forgets) Contains(key uint64) bool { return key != f.lost && f.Filter.Contains(key) }

// Losing a key ends a measurement.
func TestLostKey(t *testing.T) {
	c := testConfig(t)
	bf, err := peers.NewBloom(1<<12, 1000)
	if err != nil {
		t.Fatal(err)
	}
	m := &member{structure: structureOf("BF"), filter: forgets{bf, c.key(777)}, full: 1000}
	if err := c.fill(m); err != nil || m.n != 1000 {
		t.Fatalf("%d keys, %v", m.n, err)
	}
	if err := c.checkAll(m); err == nil || !strings.Contains(err.Error(), "BF lost keys: of 1000 that were inserted 1 are not found") {
		t.Error(err)
	}
	c.extent.lookups = 50_000
	if _, err := c.lookupRates(m.lookers(), 1); err == nil || !strings.Contains(err.Error(), "are not found") {
		t.Error(err)
	}
	var r space
	if err := c.measureSpace(&r, m, 0.1); err == nil {
		t.Error("a space was measured of a filter that loses a key")
	}
	m.filter = bf
	if err := c.checkAll(m); err != nil {
		t.Error(err)
	}
}

// Deleting a key that is not there counts as a lost key.
func TestLostDelete(t *testing.T) {
	c := testConfig(t)
	filled, err := c.filled()
	if err != nil {
		t.Fatal(err)
	}
	m := filled.members[0]
	if !m.mapped.Delete(c.key(m.n - 1)) {
		t.Fatal("the last key cannot be deleted")
	}
	_, err = fig8(c)
	if err == nil || !strings.Contains(err.Error(), "CF lost keys") {
		t.Errorf("%v", err)
	}
	if c.filling != nil {
		t.Error("structures without some of their keys are left to the next experiment")
	}
}

// An interrupted experiment ends, and leaves no filling behind.
func TestEndsEarly(t *testing.T) {
	c := testConfig(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	c.ctx = ctx
	for _, e := range experiments {
		if _, err := e.run(c); err == nil || !strings.Contains(err.Error(), context.Canceled.Error()) {
			t.Errorf("%s: %v", e.name, err)
		}
	}
	if c.filling != nil {
		t.Error("something is taken for full")
	}
}

// Keys with different numbers differ, and depend on the seed.
func TestKeys(t *testing.T) {
	c, other := &config{seed: 1}, &config{seed: 2}
	seen := map[uint64]bool{}
	for i := range uint64(100_000) {
		seen[c.key(i)], seen[c.key(firstAbsent+i)] = true, true
	}
	if len(seen) != 200_000 {
		t.Errorf("%d keys", len(seen))
	}
	if c.key(0) == other.key(0) {
		t.Error("the seed does not matter")
	}
}

// The library makes tables with the number of buckets asked for.
func TestOptions(t *testing.T) {
	for _, s := range []shape{{mmapfilter.Packed, 12, 4, 0}, {mmapfilter.SemiSorted, 13, 4, 0}, {mmapfilter.Packed, 4, 2, 0}, {mmapfilter.Packed, 20, 8, 0}} {
		for _, lines := range []uint64{1 << 12, 1 << 20, 1 << 25} {
			o, got, err := s.options(lines)
			if err != nil || got != lines {
				t.Errorf("%s: %d lines, not %d, %v", s, got, lines, err)
				continue
			}
			if p, err := o.Plan(); err != nil || p.Lines != lines {
				t.Errorf("%s: the options give %d lines, %v", s, p.Lines, err)
			}
		}
	}
}

func structureOf(name string) structure {
	for _, s := range structures {
		if s.name == name {
			return s
		}
	}
	panic("no structure is called " + name)
}
