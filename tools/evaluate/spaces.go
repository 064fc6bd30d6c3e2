package main

import (
	"errors"
	"fmt"
	"math"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/mmapfilter/mmapfilter/tools/evaluate/peers"
	"github.com/mmapfilter/mmapfilter/tools/evaluate/picture"
	"github.com/mmapfilter/mmapfilter/tools/evaluate/report"
)

// A space is what an item takes at a false-positive rate.
type space struct {
	what       string
	bits, rate float64
	load       float64 // of ours
	found      uint64  // false positives that the rate was measured with
}

// leastFound is the number of false positives wanted for a rate, for a standard error of 3 %.
// There are fewer if absent keys run out.
const leastFound = 1000

// spacesOf measures tables of some shapes.
func (c *config) spacesOf(shapes []shape) (all []space, err error) {
	for _, s := range shapes {
		r, err := c.spaceOf(s)
		if err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, nil
}

func (c *config) spaceOf(s shape) (r space, err error) {
	o := s.wish()
	o.Capacity = c.extent.items
	m, err := c.build("space", o, c.extent.items)
	if err != nil {
		return r, fmt.Errorf("%s: %w", s, err)
	}
	defer func() { err = errors.Join(err, m.close()) }()
	stats := m.reader.Stats()
	c.note("%s: load %.2f %%", s, 100*stats.Load)
	r = space{what: s.String(), bits: stats.BitsPerKey, load: stats.Load}
	k := &member{structure: structure{name: s.String()}, filter: m, mapped: m, n: c.extent.items}
	return r, c.measureSpace(&r, k, stats.TargetRate)
}

// bloomSpaces measures Bloom filters.
func (c *config) bloomSpaces() (all []space, err error) {
	for _, bits := range c.extent.bloom {
		c.note("Bloom filter, %d bits an item", bits)
		filter, err := peers.NewBloom(c.extent.items*uint64(bits)/64*8, c.extent.items)
		if err != nil {
			return nil, err
		}
		m := &member{structure: structure{name: "BF"}, filter: filter, full: c.extent.items}
		if err := c.fill(m); err != nil {
			return nil, err
		}
		r := space{what: fmt.Sprintf("Bloom filter, %d bits", bits), bits: 8 * float64(m.filter.Bytes()) / float64(m.n)}
		if err := c.measureSpace(&r, m, math.Exp2(-r.bits/1.44)); err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, nil
}

// measureSpace looks up all keys in the filter, and as many absent ones as the expected rate
// needs.
func (c *config) measureSpace(r *space, m *member, expected float64) (err error) {
	if err := c.checkAll(m); err != nil {
		return err
	}
	absent := min(uint64(leastFound/expected)+100_000, c.extent.absent)
	r.rate, err = c.falsePositives(m.mostEfficient(), absent)
	r.found = uint64(math.Round(r.rate * float64(absent)))
	return err
}

// shapesOver returns the shapes of a layout and b, with every step-th f.
func shapesOver(layout mmapfilter.Layout, b, from, to, step int) (all []shape) {
	for f := from; f <= to; f += step {
		all = append(all, shape{layout, f, b, 0})
	}
	return all
}

// spaceSeries makes a line of rates in % and bits an item. It omits spaces without a false
// positive, since they have no rate.
func spaceSeries(name string, all []space) report.Series {
	s := report.Series{Name: name}
	for _, r := range all {
		if r.found > 0 {
			s.Points = append(s.Points, report.Point{X: 100 * r.rate, Y: r.bits})
		}
	}
	return s
}

// A formula gives the bits an item at a rate e (paper, Table 2 and section 5.1).
type formula struct {
	name string
	bits func(e float64) float64
}

var (
	bloomFormula  = formula{"Bloom: 1.44 log2(1/e)", func(e float64) float64 { return 1.44 * math.Log2(1/e) }}
	cuckooFormula = formula{"cuckoo: (log2(1/e)+3)/0.95", func(e float64) float64 { return (math.Log2(1/e) + 3) / 0.95 }}
	sortedFormula = formula{"semi-sorted: (log2(1/e)+2)/0.95", func(e float64) float64 { return (math.Log2(1/e) + 2) / 0.95 }}
	boundFormula  = formula{"lower bound: log2(1/e)", func(e float64) float64 { return math.Log2(1 / e) }}
)

// series returns a formula for rates from 2^-2 to 2^-17.
func (f formula) series() report.Series {
	s := report.Series{Name: f.name, Style: report.Formula}
	for x := 2.0; x <= 17; x++ {
		e := math.Exp2(-x)
		s.Points = append(s.Points, report.Point{X: 100 * e, Y: f.bits(e)})
	}
	return s
}

// ratePlot returns a plot of bits an item over rates, without lines.
func ratePlot() report.Plot {
	return report.Plot{
		X: report.Axis{Label: "false-positive rate (%)", Log: true},
		Y: report.Axis{Label: "bits per item"},
	}
}

var (
	rateAxis     = picture.Axis{Label: "false-positive rate (%)", Log: true}
	overheadAxis = picture.Axis{Label: "bits per key beyond log2(1/rate), the least possible"}
)

// The range of rates that are drawn, in %. Above it, fingerprints are so few that other errors
// dominate; below it, few false positives were found.
const (
	highestRate = 6.5
	lowestRate  = 0.001
)

// overhead returns the bits of a series above the least possible, over rates in %. Differences
// that are small against all bits become visible.
func overhead(s report.Series) (points []report.Point) {
	for _, at := range s.Points {
		if at.X >= lowestRate && at.X <= highestRate {
			points = append(points, report.Point{X: at.X, Y: at.Y - boundFormula.bits(at.X/100)})
		}
	}
	return points
}

func spaceTable(all []space) report.Table {
	t := report.Table{Header: []string{"", "load %", "false positives %", "found", "bits per item", "log2(1/rate)", "bits above it"}}
	for _, r := range all {
		row := []string{r.what, dash(100*r.load, "%.2f"), fmt.Sprintf("%.5f", 100*r.rate), fmt.Sprint(r.found), fmt.Sprintf("%.2f", r.bits), "-", "-"}
		if r.found > 0 {
			least := boundFormula.bits(r.rate)
			row[5], row[6] = fmt.Sprintf("%.2f", least), fmt.Sprintf("%.2f", r.bits-least)
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}
