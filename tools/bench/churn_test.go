package main

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/tools/bench/peer"
)

func TestChurnRows(t *testing.T) {
	out := filepath.Join(t.TempDir(), "churn")
	rows := short(t, "churn", "-out", out, "-turnovers", "3")
	names := map[string][]string{}
	for _, rate := range []float64{0.01, 0.001} {
		opts := variant{rate: rate}.options(5000)
		plan, err := opts.Plan()
		must(t, err)
		name := fmt.Sprintf("%v, Q=%d r=%d", plan.Layout, plan.Quotients, plan.RemainderBits)
		names[percent(rate)] = append(names[percent(rate)], "default: "+name, "default, built: "+name)
	}
	names[percent(0.01)] = append(names[percent(0.01)], "seiflotfy/cuckoofilter, f=8, b=4", "linvon/cuckoo-filter, f=10, b=4")
	count := 1 // the head
	costs := churnCosts(t, out)
	for rate, all := range names {
		for _, name := range all {
			for _, kind := range churnKinds {
				if kind != "random" && !strings.HasPrefix(name, "default: ") {
					continue
				}
				count++
				got := want(t, rows, name, kind, rate)
				if len(got) != 14 || slices.Contains(got, "") {
					t.Fatalf("%s, %s: %q", name, kind, got)
				}
				if strings.HasPrefix(name, "default") && !slices.Equal(got[8:11], []string{"0", "0", "0"}) {
					t.Errorf("%s, %s: keys are missing, refused or in the stash: %q", name, kind, got)
				}
				bits, err := strconv.ParseFloat(got[0], 64)
				above, err1 := strconv.ParseFloat(got[1], 64)
				last, err2 := strconv.ParseFloat(strings.TrimSuffix(got[4], " %"), 64)
				if least := -math.Log2(last / 100); err != nil || err1 != nil || err2 != nil || math.Abs(bits-least-above) > 0.03 {
					t.Errorf("%s, %s: %q: a key takes %.2f bits more than the least", name, kind, got, bits-least)
				}
				// The costs of the table can be computed from the CSV file.
				cost := costs[churnCostKey{name, kind, rate}]
				for i, want := range []float64{cost[0], cost[1], cost[1] / cost[0]} {
					if x, err := strconv.ParseFloat(strings.ReplaceAll(got[11+i], ",", ""), 64); err != nil || math.Abs(x/want-1) > 0.01 {
						t.Errorf("%s, %s: %q, the CSV file has %v", name, kind, got, cost)
					}
				}
			}
		}
	}
	if len(rows) != count {
		t.Errorf("%d rows, not %d", len(rows), count)
	}
	text := readFile(t, out+".csv")
	lines, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if measured := 4; err != nil || len(lines) != 1+measured*(count-1) { // 0, 1, 2 and 3 turnovers
		t.Errorf("%d lines of CSV: %v", len(lines), err)
	}
	for _, part := range []string{"rate", "second"} {
		picture := readFile(t, fmt.Sprintf("%s-%s.svg", out, part))
		for _, name := range []string{">mmapfilter<", ">seiflotfy/cuckoofilter<", ">linvon/cuckoo-filter<", ">turnovers<"} {
			if !strings.Contains(picture, name) {
				t.Errorf("the picture of %s has no %q", part, name)
			}
		}
	}
}

// A churnCostKey says which row of a table costs belong to.
type churnCostKey struct{ name, kind, rate string }

// churnCosts returns the costs after the first turnover and after the last one in the CSV file.
func churnCosts(t *testing.T, out string) map[churnCostKey][2]float64 {
	rows, err := readRows(out + ".csv")
	must(t, err)
	ns := slices.Index(churnHeader, "ns")
	costs := map[churnCostKey][2]float64{}
	for _, r := range rows {
		rate, err := strconv.ParseFloat(r[3], 64)
		cost, err1 := strconv.ParseFloat(r[ns], 64)
		if err != nil || err1 != nil || !(cost > 0) {
			t.Fatalf("%q: %v, %v", r, err, err1)
		}
		name := r[1]
		if strings.HasPrefix(r[0], "default") {
			name = r[0] + ": " + name
		}
		key := churnCostKey{name, r[2], percent(rate)}
		switch both := costs[key]; r[6] {
		case "0":
		case "1":
			costs[key] = [2]float64{cost, cost}
		default: // the last row is the last turnover
			costs[key] = [2]float64{both[0], cost}
		}
	}
	return costs
}

// flawedChurn is a set of hashes with a flaw.
type flawedChurn struct {
	flaw    string
	has     map[string]bool
	inserts int
	asked   int
}

func (f *flawedChurn) insert(key []byte) (bool, error) {
	f.inserts++
	switch {
	case f.flaw == "fails" && f.inserts == 1500:
		return false, errors.New("it has failed")
	case f.flaw == "refuses" && f.inserts%100 == 0:
		return false, nil
	case f.flaw != "loses" || f.inserts%100 != 0:
		f.has[string(key)] = true
	}
	return true, nil
}

func (f *flawedChurn) remove(key []byte) (found bool, err error) {
	found = f.has[string(key)]
	delete(f.has, string(key))
	return found, nil
}

func (f *flawedChurn) contains(key []byte) bool {
	f.asked++
	return f.has[string(key)] || f.flaw == "decays" && f.inserts > 2000 && f.asked%50 == 0
}

func (f *flawedChurn) stash() int {
	if f.flaw == "crowds" && f.inserts == 3000 { // for a while
		return layout.MaxCrowded + 1
	}
	return layout.MaxCrowded
}

func (f *flawedChurn) sync() error  { return nil }
func (f *flawedChurn) bits() int64  { return 8 }
func (f *flawedChurn) close() error { return nil }

func (f *flawedChurn) shape() string { return f.flaw }

func (f *flawedChurn) second() (share, off float64, err error) {
	switch f.flaw {
	case "wanders":
		return 0.09, 0.001, nil
	case "chance":
		return 0.09, 0.004, nil
	}
	return 0.08, 0, nil
}

// TestChurnBounds checks that only an exceeded bound, and only of the default, gives exit
// status 1.
func TestChurnBounds(t *testing.T) {
	for flaw, want := range map[string]string{
		"none": "", "chance": "",
		"loses":   "keys are missing",
		"refuses": "were refused",
		"decays":  "the rate is 2 %",
		"wanders": "read a second line",
		"crowds":  "97 entries of the stash",
	} {
		c := &churnRun{session: &session{ctx: t.Context(), notes: &bytes.Buffer{}, seed: 1}, n: 1000, most: 100_000, turnovers: 4}
		spec := churnSpec{"default", func(*session, uint64) (replaceable, time.Duration, error) {
			return &flawedChurn{flaw: flaw, has: map[string]bool{}}, 0, nil
		}}
		for _, kind := range churnKinds {
			r, err := c.live(spec, kind, defaultRate)
			must(t, err)
			last := r.points[len(r.points)-1]
			if lost := last.missing + last.unfound; (lost == 50) != (flaw == "loses") || (last.refused == 50) != (flaw == "refuses") {
				t.Errorf("%s, %s: of 5,000 inserts %d were lost and %d refused", flaw, kind, lost, last.refused)
			}
			if got := fmt.Sprint(r.exceeded()); want == "" && got != "<nil>" || !strings.Contains(got, want) {
				t.Errorf("%s, %s: %s", flaw, kind, got)
			}
			if r.name = "packed"; r.exceeded() != nil {
				t.Errorf("%s, %s: another layout is held to the bounds: %v", flaw, kind, r.exceeded())
			}
		}
	}
	c := &churnRun{session: &session{ctx: t.Context(), notes: &bytes.Buffer{}, seed: 1}, n: 1000, most: 1000, turnovers: 4}
	if _, err := c.live(churnSpec{"default", func(*session, uint64) (replaceable, time.Duration, error) {
		return &flawedChurn{flaw: "fails", has: map[string]bool{}}, 0, nil
	}}, "oldest", defaultRate); err == nil || err.Error() != "it has failed" {
		t.Errorf("an insert that fails: %v", err)
	}
	for want, err := range map[int]error{1: fmt.Errorf("%w: %w", errExceeded, errors.New("so")), 2: errors.New("so")} {
		if got := exitStatus(err); got != want {
			t.Errorf("%v: exit status %d", err, got)
		}
	}
}

// TestChurnCost holds the cost of the last turnovers and the bits a key to their bounds.
func TestChurnCost(t *testing.T) {
	for _, c := range []struct {
		want         string
		asked        float64
		last, bits   float64
		grown        float64
		turnovers, n int
	}{
		{"", 0.01, 1.2, 9.85, 1, 50, 125_000},
		{"a delete and an insert cost 1,000 ns, and 1,300 ns after 50 turnovers", 0.01, 1.3, 9.85, 1, 50, 125_000},
		{"", 0.01, 1.3, 9.85, 1, 9, 125_000}, // too few turnovers
		{"a key takes 10.45 bits", 0.01, 1, 10.45, 1, 50, 125_000},
		{"a key takes 7.85 bits", 0.05, 1, 7.85, 1, 50, 125_000},
		{"a key takes 18.05 bits", 0.0001, 1, 18.05, 1, 50, 125_000},
		{"", 0.01, 1, 10.45, 1, 50, 5000}, // too few keys
		{"a key takes 1.001 times as many bits", 0.01, 1, 9.85, 1.001, 50, 125_000},
	} {
		r := &churnResult{name: defaultBuilt, asked: c.asked, keys: uint64(c.n), bitsPerKey: c.bits, grown: c.grown,
			points: []churnPoint{{turnovers: c.turnovers, asks: 1}}}
		for i := range c.turnovers {
			r.ns = append(r.ns, 1000)
			if i == 1 || i == c.turnovers-1 { // one slow turnover is chance
				r.ns[i] = 9000
			} else if i >= c.turnovers-fewTurnovers {
				r.ns[i] = 1000 * c.last
			}
		}
		if got := fmt.Sprint(r.exceeded()); c.want == "" && got != "<nil>" || !strings.Contains(got, c.want) {
			t.Errorf("%+v: %s", c, got)
		}
	}
}

// TestChurnCostAround: a cost is the median of the five turnovers around one, or of the first or last
// five.
func TestChurnCostAround(t *testing.T) {
	r := &churnResult{}
	for i := range 20 {
		r.ns = append(r.ns, float64(i+1))
	}
	for turnover, want := range map[int]float64{1: 3, 2: 3, 3: 3, 4: 4, 10: 10, 18: 18, 19: 18, 20: 18} {
		if got := r.cost(turnover); got != want {
			t.Errorf("around turnover %d: %g, not %g", turnover, got, want)
		}
	}
	for n, want := range map[int][2]float64{1: {1, 1}, 2: {1, 2}, 4: {2, 4}} { // half of all
		few := &churnResult{ns: r.ns[:n]}
		if first, last := few.cost(1), few.cost(n); first != want[0] || last != want[1] {
			t.Errorf("of %d turnovers: %g and %g", n, first, last)
		}
	}
}

// TestChurnSecond compares the second lines over all lines with Stats, which reads all of a
// small file; and checks those of another filter against its buckets.
func TestChurnSecond(t *testing.T) {
	s := &session{ctx: t.Context(), seed: 1, temp: t.TempDir()}
	for _, spec := range churnSpecs(0.011) { // without others
		f, took, err := spec.create(s, 5000)
		must(t, err)
		r := f.(*replaced)
		l := newLife(s, f, 5000, "random")
		if took == 0 {
			if _, err := l.turnover(true); err != nil {
				t.Fatal(err)
			}
		}
		must(t, f.sync())
		share, off, err := f.second()
		want := r.filter.Stats().SecondProbeRate
		if err != nil || share < want-1e-9 || share > want+1e-9 || want == 0 || off > 0.05 || (off == 0) != (want == 1) {
			t.Errorf("%s: %g, off by %g: %v; Stats says %g", spec.name, share, off, err, want)
		}
		if err := f.close(); err != nil {
			t.Error(err)
		}
	}
	f, _, err := createSeiflotfyReplaced(s, 4)
	must(t, err)
	for i, want := range []float64{1, 1 - 1.0/255, 1 - 1.0/255} { // one bucket; the last key repeats the one before
		if i > 0 {
			if ok, err := f.insert([]byte("7")); !ok || err != nil {
				t.Fatal(ok, err)
			}
		}
		if share, _, err := f.second(); err != nil || share != want {
			t.Errorf("%d keys: %g, %v", i, share, err)
		}
	}
}

func TestChurnErrors(t *testing.T) {
	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		ctx  context.Context
		args []string
		want string
	}{
		{t.Context(), []string{"-rates", "0.01,2"}, `"2" is no rate`},
		{t.Context(), []string{"-rates", "NaN"}, `"NaN" is no rate`},
		{t.Context(), []string{"-rates", ""}, `"" is no rate`},
		{t.Context(), []string{"-kinds", "oldest,newest"}, `"newest" is not one of`},
		{t.Context(), []string{"-turnovers", "0"}, "no turnovers"},
		{t.Context(), []string{"-keys", "1"}, "too few keys"},
		{t.Context(), []string{"-keys", fmt.Sprint(peer.Absent)}, "too many"},
		{t.Context(), []string{"-asks", "0"}, "too few keys"},
		{t.Context(), []string{"-out", "/nonexistent/x"}, "/nonexistent/x"},
		{t.Context(), []string{"-draw", "-out", "/nonexistent/x"}, "/nonexistent/x"},
		{stopped, nil, "interrupted"},
	} {
		dir := t.TempDir()
		args := append([]string{"churn", "-short", "-dir", dir}, c.args...)
		if !slices.Contains(args, "-out") {
			args = append(args, "-out", filepath.Join(t.TempDir(), "churn"))
		}
		var notes bytes.Buffer
		if code := run(c.ctx, args, &bytes.Buffer{}, &notes); code != 2 || !strings.Contains(notes.String(), c.want) {
			t.Errorf("%q: exit status %d, %q", c.args, code, notes.String())
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("%q has left %v, %v", c.args, left, err)
		}
	}
}
