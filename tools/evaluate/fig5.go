package main

import (
	"fmt"
	"slices"

	"github.com/mmapfilter/mmapfilter/tools/evaluate/picture"
	"github.com/mmapfilter/mmapfilter/tools/evaluate/report"
)

// Figure 5 of the paper: lookups a second in full structures, against the share of keys that are
// present.
//
//	go -C tools/evaluate run . fig5 --scale paper --dir /dev/shm
//
// The paper: one thread of a Xeon E5620 at 2.4 GHz, curves without numbers. The authors' program on
// an i7-4790 (efficient/cuckoofilter, benchmarks/conext-figure5.cc), in million lookups a second
// from 0 to 100 %: CF 26.1 to 25.9, ss-CF 10.1 to 10.6.
const fig5Title = "Figure 5: lookups when a structure is full"

// presentShares are the shares of the keys that are present.
var presentShares = []float64{0, 0.25, 0.5, 0.75, 1}

func fig5(c *config) (*report.Figure, error) {
	filled, err := c.filled()
	if err != nil {
		return nil, err
	}
	f := c.ran(fmt.Sprintf("tables of %s, full, one thread, medians of %d rounds of %d lookups", mebibytes(c.extent.bytes), c.extent.rounds, c.extent.lookups))
	all := lookersOf(filled.members)
	series := make([]report.Series, len(all))
	for i, l := range all {
		series[i].Name = l.name
	}
	for _, share := range presentShares {
		c.note("%.0f %% of the keys are there", 100*share)
		rates, err := c.lookupRates(all, share)
		if err != nil {
			return nil, err
		}
		for i, r := range rates {
			series[i].Points = append(series[i].Points, report.Point{X: 100 * share, Y: r})
		}
	}
	f.Plots = []report.Plot{{
		X:      report.Axis{Label: "keys that are there (%)", Min: 0, Max: 100},
		Y:      report.Axis{Label: lookupsLabel},
		Series: series,
	}}
	f.Tables = []report.Table{aboutTable(series, "million lookups a second by the share of keys that are there", "%.0f %%")}
	f.Paper = "Lookups of CF cost the same whatever the share of keys that are there, since both buckets are read; a Bloom filter is faster where keys are absent, the quotient filter is slow when it is full. The authors' program on an i7-4790: CF 26.1 at 0 % and 25.9 at 100 %, ss-CF 10.1 and 10.6."
	f.Ours = fmt.Sprintf("Million lookups a second at 0 and 100 %%: %s. In batches: CF %s, ss-CF %s, Compact %s.",
		ends(series, "CF", "ss-CF", "Compact", "BF", "blk-BF", "CBF", "QF", "dl-CBF"), atEnds(series, "CF, batches"), atEnds(series, "ss-CF, batches"), atEnds(series, "Compact, batches"))
	f.Notes = lookupNotes
	return f, nil
}

const lookupsLabel = "million lookups a second"

var lookupNotes = []string{
	"All structures are asked in turn, round after round, in one run; keys are drawn before the clock runs; medians.",
	"Ours are lookups in a mapped file that is open for writing, through a second handle that reads it as another process would: ContainsHash of the XXH3 of the 8 bytes of a key; in batches, ContainsHashes of 1,024 keys. The peers are in the heap, and mix a key with SplitMix64. Hashing is in all times.",
	"A structure is called through an interface, one key a call, but in batches.",
	"Every key that is there is found, in every round; one that is not ends the program.",
}

// ends lists series with their first and last numbers.
func ends(series []report.Series, names ...string) (text string) {
	for i, name := range names {
		if i > 0 {
			text += ", "
		}
		text += name + " " + atEnds(series, name)
	}
	return text
}

func atEnds(series []report.Series, name string) string {
	i := slices.IndexFunc(series, func(s report.Series) bool { return s.Name == name })
	p := series[i].Points
	return fmt.Sprintf("%.1f and %.1f", p[0].Y, p[len(p)-1].Y)
}

// aboutTable makes a table of series, with their points and descriptions.
func aboutTable(series []report.Series, caption, column string) report.Table {
	t := report.Table{Caption: caption, Header: []string{""}}
	var xs []float64
	for _, s := range series {
		for _, p := range s.Points {
			if !slices.Contains(xs, p.X) {
				xs = append(xs, p.X)
			}
		}
	}
	slices.Sort(xs)
	for _, x := range xs {
		t.Header = append(t.Header, fmt.Sprintf(column, x))
	}
	t.Header = append(t.Header, "what it is")
	for _, s := range series {
		row := []string{s.Name}
		for _, x := range xs {
			cell := "-"
			if i := slices.IndexFunc(s.Points, func(p report.Point) bool { return p.X == x }); i >= 0 {
				cell = fmt.Sprintf("%.2f", s.Points[i].Y)
			}
			row = append(row, cell)
		}
		t.Rows = append(t.Rows, append(row, aboutOf(s.Name)))
	}
	return t
}

// aboutOf describes a series, except one of batches.
func aboutOf(name string) string {
	for _, s := range structures {
		if s.name == name {
			return s.about
		}
	}
	return ""
}

// authorsCF and authorsSorted are the results of the authors' program on an i7-4790, for absent
// and for present keys, in million lookups a second.
var (
	authorsCF     = [2]float64{26.1, 25.9}
	authorsSorted = [2]float64{10.1, 10.6}
)

func fig5Views(f *report.Figure) ([]report.View, error) {
	if err := panels(f, 1, 0); err != nil {
		return nil, err
	}
	p := f.Plots[0]
	line := func(name string, y [2]float64) picture.Line {
		return picture.Line{Name: name, Kind: picture.Dashed, Points: []report.Point{{X: 0, Y: y[0]}, {X: 100, Y: y[1]}}}
	}
	x := picture.Axis{Label: "keys that are present (%)", Max: 100}
	cfAbsent, cfPresent := endsOf(p, "CF")
	oneAbsent, _ := endsOf(p, "Compact")
	manyAbsent, _ := endsOf(p, "Compact"+batches)
	return []report.View{
		lookupsView("How fast is one lookup in a full filter?",
			fmt.Sprintf("One key at a time, packed answers %s million lookups a second where all keys are absent and %s where all are present.", oneDigit(cfAbsent), oneDigit(cfPresent)),
			"The paper's Figure 5."+curves+" Dashed is the authors' program on an i7-4790, which looks keys up in a table in memory.",
			x, p, "", line("authors' CF", authorsCF), line("authors' ss-CF", authorsSorted)),
		lookupsView("What do batches bring?",
			fmt.Sprintf("Batches of 1,024 keys make compact %s times as fast: %s million lookups of absent keys a second.", oneDigit(manyAbsent/oneAbsent), oneDigit(manyAbsent)),
			"As above, but ours are asked for 1,024 keys at a time. The paper has no batches; grey is compact one key at a time, and dashed the authors' program on an i7-4790.",
			x, p, batches, picture.Line{Name: "compact, one key", Points: p.SeriesOf("Compact").Points}, line("authors' CF", authorsCF), line("authors' ss-CF", authorsSorted)),
	}, nil
}
