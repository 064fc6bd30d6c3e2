package main

import (
	"fmt"
	"math"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/mmapfilter/mmapfilter/tools/evaluate/picture"
	"github.com/mmapfilter/mmapfilter/tools/evaluate/report"
)

// Figure 3 of the paper: bits an item against the false-positive rate, for buckets
// of b = 2, 4, 8 slots.
//
//	go -C tools/evaluate run . fig3 --scale paper --dir /dev/shm
//
// The paper: b=2 takes the least space for rates above 0.2 %, b=4 for those from
// there down to 0.001 % (section 5.1).
const fig3Title = "Figure 3: space per item and false-positive rate, b = 2, 4, 8"

func fig3(c *config) (*report.Figure, error) {
	f := c.ran(fmt.Sprintf("layout packed, b=2, 4, 8, and semisorted; %d items, built at the design load", c.extent.items))
	plot := ratePlot()
	var all []space
	best := map[int]space{}
	for _, b := range []int{2, 4, 8} {
		spaces, err := c.spacesOf(shapesOver(mmapfilter.Packed, b, 6, 18+b/4, c.extent.fStep))
		if err != nil {
			return nil, err
		}
		plot.Series = append(plot.Series, spaceSeries(fmt.Sprintf("b=%d", b), spaces))
		all = append(all, spaces...)
		best[b] = nearest(spaces, 0.002)
	}
	sorted, err := c.spacesOf(shapesOver(mmapfilter.SemiSorted, 4, 6, 19, c.extent.fStep))
	if err != nil {
		return nil, err
	}
	all = append(all, sorted...)
	plot.Series = append(plot.Series, spaceSeries("b=4, semi-sorted", sorted), cuckooFormula.series(), sortedFormula.series(), boundFormula.series())
	f.Plots = []report.Plot{plot}
	f.Tables = []report.Table{spaceTable(all)}
	f.Paper = "b=2 takes the least space for rates above 0.2 %, b=4 for those from there down to 0.001 %. With b=4 it is (log2(1/e)+3)/0.95 bits an item, with semi-sorting (log2(1/e)+2)/0.95."
	n := nearest(sorted, 0.002)
	f.Ours = fmt.Sprintf("Near a rate of 0.2 %%: b=2 takes %s, b=4 %s, b=8 %s, semi-sorted %s; (log2(1/e)+3)/0.95 gives %.2f for b=4, and (log2(1/e)+2)/0.95 %.2f for semi-sorted.",
		best[2].brief(), best[4].brief(), best[8].brief(), n.brief(), cuckooFormula.bits(best[4].rate), sortedFormula.bits(n.rate))
	f.Notes = spaceNotes
	return f, nil
}

var spaceNotes = []string{
	"Bits are of the whole file. In its head, stash and checksums are 40 KiB and a thousandth of the rest.",
	"A rate is measured with about 1,000 false positives, or with as many as the most absent keys of this scale give; the table has their number.",
	"Short fingerprints get more lines from the library, since they cannot tell the buckets of a large filter apart (paper, section 4.2): their load is lower, and they are above the formula.",
}

// nearest returns the space whose rate is nearest to the given one, by their ratio.
func nearest(all []space, rate float64) (best space) {
	distance := func(r space) float64 { return max(r.rate/rate, rate/r.rate) }
	for i, r := range all {
		if i == 0 || distance(r) < distance(best) {
			best = r
		}
	}
	return best
}

func (r space) brief() string { return fmt.Sprintf("%.2f bits at %.3f %%", r.bits, 100*r.rate) }

// slotsFormula returns the bits an item in buckets of b slots, at the load of the paper: a
// fingerprint has log2(1/e) + log2(2b) bits (paper, section 5.1).
func slotsFormula(b int) formula {
	return formula{fmt.Sprintf("b=%d: (log2(1/e)+log2(2b))/load", b), func(e float64) float64 {
		return (math.Log2(1/e) + math.Log2(2*float64(b))) / (paperLoad[b] / 100)
	}}
}

func fig3Views(f *report.Figure) ([]report.View, error) {
	if err := panels(f, 1, 0); err != nil {
		return nil, err
	}
	const question = "Which bucket size takes the least space?"
	p := &picture.Lines{Title: question, X: rateAxis, Y: picture.Axis{Label: overheadAxis.Label, Min: 2, Max: 6}}
	least := map[float64]string{1: "no size", 0.01: "no size"} // by rates in %
	fewest := map[float64]float64{1: math.Inf(1), 0.01: math.Inf(1)}
	var formulas []picture.Line
	for i, b := range []int{4, 2, 8} {
		s := f.Plots[0].SeriesOf(fmt.Sprintf("b=%d", b))
		for rate := range least {
			if bits := at(s, rate); bits < fewest[rate] {
				least[rate], fewest[rate] = fmt.Sprintf("b=%d", b), bits
			}
		}
		line := picture.Line{Name: s.Name + " slots", Points: overhead(s), Tone: []picture.Tone{picture.Blue, picture.Orange, picture.Green}[i]}
		paper := picture.Line{Points: overhead(slotsFormula(b).series()), Kind: picture.Dashed}
		if b == 4 {
			line.Kind, paper.Name = picture.Emphasis, "paper's formulas"
		}
		p.Series, formulas = append(p.Series, line), append(formulas, paper)
	}
	p.Series = append(p.Series, formulas...)
	return []report.View{view(question,
		fmt.Sprintf("At a rate of 1 %% buckets with %s slots take the least space, at 0.01 %% those with %s; the paper has b=2 above 0.2 %% and b=4 below.", least[1], least[0.01]),
		"The paper's Figure 3, layout packed. What is drawn is the space beyond log2(1/rate) bits, which no filter of any kind can save; dashed is the paper's formula for each b.",
		p)}, nil
}
