package main

import (
	"encoding/csv"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
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
					t.Errorf("%s, %s: %q: a key takes %.2f bits more than the minimum for its rate", name, kind, got, bits-least)
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

// TestChurnCostAround checks that the cost at a turnover is the median of the five turnovers around it,
// or at an end of the first or last five. Of few turnovers, half are taken.
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

// TestChurnSecond checks the share of lookups of absent keys that read a second bucket in seiflotfy.
func TestChurnSecond(t *testing.T) {
	s := &session{ctx: t.Context(), seed: 1}
	f, err := churnedSeiflotfy(s, 4)
	must(t, err)
	for i, want := range []float64{1, 1 - 1.0/255, 1 - 1.0/255} { // one bucket; the last key repeats the one before
		if i > 0 && f.Insert([]Key{{7}}) != 1 {
			t.Fatal("no room")
		}
		if share, err := f.second(); err != nil || share != want {
			t.Errorf("%d keys: %g, %v", i, share, err)
		}
	}
}
