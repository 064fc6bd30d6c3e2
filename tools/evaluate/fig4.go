package main

import (
	"fmt"
	"math"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/mmapfilter/mmapfilter/tools/evaluate/picture"
	"github.com/mmapfilter/mmapfilter/tools/evaluate/report"
)

// Figure 4 of the paper: bits an item against the false-positive rate, for Bloom filters, cuckoo
// filters with and without semi-sorting, and the lower bound; and Table 2, its formulas beside
// measurements.
//
//	go -C tools/evaluate run . fig4 --scale paper --dir /dev/shm
//
// The paper: cuckoo filters with semi-sorting take less space than Bloom filters for rates below
// 3 %. (By the formulas of Table 2 it is 2.3 %, and 0.35 % without semi-sorting.)
const fig4Title = "Figure 4: space per item and false-positive rate, by structure"

func fig4(c *config) (*report.Figure, error) {
	f := c.ran(fmt.Sprintf("CF packed b=4, ss-CF semisorted, Compact, Bloom; %d items", c.extent.items))
	cuckoo, err := c.spacesOf(shapesOver(mmapfilter.Packed, 4, 6, 18, c.extent.fStep))
	if err != nil {
		return nil, err
	}
	sorted, err := c.spacesOf(shapesOver(mmapfilter.SemiSorted, 4, 7, 19, c.extent.fStep))
	if err != nil {
		return nil, err
	}
	compact, err := c.spacesOf([]shape{{mmapfilter.Compact, 0, 0, 0.05}, {mmapfilter.Compact, 0, 0, 0.01}, {mmapfilter.Compact, 0, 0, 0.002}, {mmapfilter.Compact, 0, 0, 0.0005}, {mmapfilter.Compact, 0, 0, 1e-5}})
	if err != nil {
		return nil, err
	}
	bloom, err := c.bloomSpaces()
	if err != nil {
		return nil, err
	}
	plot := ratePlot()
	plot.Series = []report.Series{
		spaceSeries("CF", cuckoo), spaceSeries("ss-CF", sorted), spaceSeries("Compact", compact), spaceSeries("BF", bloom),
		bloomFormula.series(), cuckooFormula.series(), sortedFormula.series(), boundFormula.series(),
	}
	f.Plots = []report.Plot{plot}
	cf, ss, line, bf := nearest(cuckoo, 0.002), nearest(sorted, 0.002), nearest(compact, 0.002), nearest(bloom, 0.002)
	f.Tables = []report.Table{table2(c, cf, ss, line, bf), spaceTable(append(append(append(cuckoo, sorted...), compact...), bloom...))}
	f.Paper = "Cuckoo filters, with semi-sorting, take less space than Bloom filters for rates below 3 %; by the formulas it is 2.3 %, and 0.35 % without semi-sorting. At 0.2 %, above log2(1/e), the formulas give CF 3.63 bits, ss-CF 2.58, Bloom 3.95."
	f.Ours = fmt.Sprintf("Near a rate of 0.2 %%, above log2(1/e): CF %.2f bits, ss-CF %.2f, Bloom %.2f, Compact %.2f. CF takes less than the Bloom formula for rates below about %.2g %% (of those measured), ss-CF below about %.2g %%.",
		above(cf), above(ss), above(bf), above(line), 100*crossing(cuckoo), 100*crossing(sorted))
	f.Notes = append([]string{"The Bloom filters of the peers take a whole number of hash functions, and some more bits than 1.44 log2(1/e)."}, spaceNotes...)
	return f, nil
}

func above(r space) float64 { return r.bits - boundFormula.bits(r.rate) }

// crossing returns the highest measured rate below which all rates take less space than the
// Bloom formula; 0 if the lowest does not.
func crossing(all []space) (rate float64) {
	for i := len(all) - 1; i >= 0; i-- { // the rates fall
		if all[i].found > 0 {
			if all[i].bits >= bloomFormula.bits(all[i].rate) {
				break
			}
			rate = all[i].rate
		}
	}
	return rate
}

// table2 shows Table 2 of the paper beside measurements. Our cache lines are computed from the
// positions of the buckets, and from the share of second lines.
func table2(c *config, cf, ss, line, bf space) report.Table {
	row := func(name, formula, positive, negative string, bits float64, r space, lines string) []string {
		return []string{name, formula, positive, negative, fmt.Sprintf("%.3f", 100*r.rate), dash(bits, "%.2f"), fmt.Sprintf("%.2f", r.bits), lines}
	}
	two := func(s shape) string { return fmt.Sprintf("%.3f", 2*bucketLines(s)) }
	return report.Table{
		Caption: "Table 2 of the paper: bits per item at a rate e, load factor a = 0.95, and memory references of a lookup; beside them measurements near 0.2 %. Cache lines are those of the region of buckets, computed.",
		Header:  []string{"", "bits per item", "positive lookup", "negative lookup", "measured rate %", "formula there", "measured bits", "cache lines of a negative lookup"},
		Rows: [][]string{
			row("space-optimized Bloom", "1.44 log2(1/e)", "log2(1/e)", "2", bloomFormula.bits(bf.rate), bf, "2"),
			row("(2,4)-cuckoo", "(log2(1/e)+3)/a", "2", "2", cuckooFormula.bits(cf.rate), cf, two(shape{mmapfilter.Packed, 12, 4, 0})),
			row("(2,4)-cuckoo with semi-sorting", "(log2(1/e)+2)/a", "2", "2", sortedFormula.bits(ss.rate), ss, two(shape{mmapfilter.SemiSorted, 13, 4, 0})),
			row("Compact (not in the paper)", "-", "-", "-", 0, line, "1 and second lines"),
		},
	}
}

// bucketLines returns how many cache lines a bucket of a shape spans on average.
func bucketLines(s shape) float64 {
	const lines = 1 << 12 // a multiple of the period, for any f and b
	g, err := layout.NewGeometry(s.layout, s.params(), lines)
	if err != nil {
		panic(err)
	}
	t, sum := layout.NewTable(g), 0
	for line := range uint64(lines) {
		first, n := t.Words(line)
		sum += int((first+uint64(n)-1)/8-first/8) + 1
	}
	return float64(sum) / lines
}

func fig4Views(f *report.Figure) ([]report.View, error) {
	if err := panels(f, 1, 0); err != nil {
		return nil, err
	}
	const question = "From which rate on is a cuckoo filter smaller than a Bloom filter?"
	p := &picture.Lines{Title: question, X: rateAxis, Y: overheadAxis}
	for _, l := range looks {
		if s := f.Plots[0].SeriesOf(l.series); len(s.Points) > 0 {
			if l.series == "BF" {
				l.tone = picture.Purple
			}
			p.Series = append(p.Series, picture.Line{Name: l.name, Points: overhead(s), Tone: l.tone, Kind: l.kind})
		}
	}
	for i, formula := range []formula{cuckooFormula, sortedFormula, bloomFormula} {
		line := picture.Line{Points: overhead(formula.series()), Kind: picture.Dashed}
		if i == 2 {
			line.Name = "paper's formulas"
		}
		p.Series = append(p.Series, line)
	}
	return []report.View{view(question,
		fmt.Sprintf("Below a rate of about %.2g %% semisorted is smaller than a space-optimized Bloom filter, below %.2g %% packed is; by the paper's formulas it is 2.3 %% and 0.35 %%.",
			crosses(f.Plots[0].SeriesOf("ss-CF")), crosses(f.Plots[0].SeriesOf("CF"))),
		"The paper's Figure 4. What is drawn is the space beyond log2(1/rate) bits, which no filter of any kind can save. Dashed are the paper's formulas: of a Bloom filter, 1.44 log2(1/rate), it is the steep one.",
		p)}, nil
}

// crosses returns the highest rate, in %, below which a series takes less space than the Bloom
// formula everywhere, also between its points; 0 if there is none.
func crosses(s report.Series) float64 {
	rate := 0.0
	for e := lowestRate; e < 100; e *= 1.01 {
		if bits := at(s, e); !math.IsNaN(bits) {
			if bits >= bloomFormula.bits(e/100) {
				break
			}
			rate = e
		}
	}
	return rate
}
