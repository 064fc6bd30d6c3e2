package main

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/mmapfilter/mmapfilter/tools/evaluate/picture"
	"github.com/mmapfilter/mmapfilter/tools/evaluate/report"
)

// Figure 2 of the paper: the load factor that a cuckoo filter reaches with fingerprints of f bits,
// in m buckets of b = 2, 4, 8 slots.
//
//	go -C tools/evaluate run . fig2 --scale paper --dir /dev/shm
//
// The paper: with fingerprints long enough for m, 84 % for b=2, 95 % for b=4, 98 % for b=8; for
// b=4, about 6 bits are enough. The f that is needed grows with log(m)/b (section 4.2).
const fig2Title = "Figure 2: load factor and fingerprint length"

// loadPolls is how often the stash is checked while a table is filled from empty to full, so
// that the load is known to 1/2048 of the slots. Up to a load of earlyLoad times the expected
// one, checks are rarer.
const (
	loadPolls  = 2048
	earlyPolls = 128
	earlyLoad  = 0.75
)

// Tables of bulkLines buckets or more are first built in bulk, to the first of bulkShares of
// the expected load that fits without the stash.
const bulkLines = 1 << 16

var bulkShares = []float64{0.97, 0.85, 0.6, 0.3}

// expectedLoad is about the load that b slots a bucket reach with long fingerprints.
var expectedLoad = map[int]float64{2: 0.87, 4: 0.97, 8: 0.995}

// A reached holds the load at which the first key found no slot, and the load at which the
// first was refused because the stash was full too.
type reached struct {
	shape          shape
	lines          uint64
	noSlot, refuse float64
	err            error // why there is no such table
}

func fig2(c *config) (*report.Figure, error) {
	f := c.ran("layout packed, b=2, 4, 8, tables filled until an insert is refused")
	var all []reached
	for _, b := range []int{2, 4, 8} {
		plot := report.Plot{
			Title: fmt.Sprintf("b=%d", b),
			X:     report.Axis{Label: "fingerprint f (bits)"},
			Y:     report.Axis{Label: "load factor (% of slots)", Min: 0, Max: 100},
		}
		for _, run := range c.extent.loads {
			noSlot := report.Series{Name: fmt.Sprintf("m=2^%d, first key without a slot", log2(run.lines))}
			refuse := report.Series{Name: fmt.Sprintf("m=2^%d, first refused", log2(run.lines)), Style: report.Marks}
			for _, bits := range run.f {
				c.note("b=%d, m=2^%d, f=%d", b, log2(run.lines), bits)
				r, err := c.medianLoad(shape{layout: mmapfilter.Packed, f: bits, b: b}, run)
				if err != nil {
					return nil, err
				}
				all = append(all, r)
				if r.err == nil {
					noSlot.Points = append(noSlot.Points, report.Point{X: float64(bits), Y: 100 * r.noSlot})
					refuse.Points = append(refuse.Points, report.Point{X: float64(bits), Y: 100 * r.refuse})
				}
			}
			plot.Series = append(plot.Series, noSlot, refuse)
		}
		f.Plots = append(f.Plots, plot)
	}
	t := report.Table{
		Caption: "Load factor, in % of the slots, when the first key finds no slot, and when the first is refused",
		Header:  []string{"b", "m", "f", "first key without a slot", "first refused", ""},
	}
	for _, r := range all {
		row := []string{fmt.Sprint(r.shape.b), fmt.Sprintf("2^%d", log2(r.lines)), fmt.Sprint(r.shape.f), dash(100*r.noSlot, "%.2f"), dash(100*r.refuse, "%.2f"), ""}
		if r.err != nil {
			row[5] = r.err.Error()
		}
		t.Rows = append(t.Rows, row)
	}
	f.Tables = []report.Table{t}
	f.Paper = "With fingerprints that are long enough, the load is 84 % for b=2, 95 % for b=4 and 98 % for b=8. For b=4 about 6 bits are enough; what is needed grows with log(m)/b."
	f.Ours = "With fingerprints that are long enough, the load at the first key without a slot is "
	for i, b := range []int{2, 4, 8} {
		last := longest(all, b)
		f.Ours += fmt.Sprintf("%s%.2f %% for b=%d", []string{"", ", ", " and "}[i], 100*last.noSlot, b)
	}
	f.Ours += fmt.Sprintf(" (m=2^%d). 95 %% of that of the longest fingerprint is reached, of the f tried,", log2(longest(all, 4).lines))
	for i, run := range c.extent.loads {
		f.Ours += fmt.Sprintf("%s in m=2^%d by f=%d for b=2 and by f=%d for b=4", []string{"", ","}[min(i, 1)], log2(run.lines), enough(all, 2, run.lines), enough(all, 4, run.lines))
	}
	f.Ours += "."
	f.Notes = []string{
		"The paper's table has no stash. Ours puts a key that finds no slot into one of 768 entries; so two loads are given, of which the first is that of the paper. A search for a slot looks at 500 buckets, breadth first; the paper's kicks up to 500 items.",
		fmt.Sprintf("Whether the stash is empty is asked after each 1/%d of the slots (at low loads less often). From m=2^%d on, the first part, %.0f %% of the load expected if it fits, is built in bulk; all other inserts go through the log, one at a time.", loadPolls, log2(bulkLines), 100*bulkShares[0]),
		fmt.Sprintf("In m=2^%d each load is the median of %d tables with different keys; the larger ones are filled once. With very short fingerprints the first key without a slot comes early or late by chance: nine items with the same two buckets are enough for b=4, five for b=2.", log2(c.extent.loads[0].lines), c.extent.loads[0].runs),
		"With few fingerprints, the paper's XOR leads from a bucket to few others, however long the path. Ours subtracts, H(fp) - i mod m, and a path goes on to new buckets: short fingerprints reach more here than in the paper.",
		"The layout has f from 4 bits on. Very short fingerprints are refused by the library for large tables; the table says which. In the largest tables few f are run, for their time.",
	}
	return f, nil
}

// medianLoad fills the tables of a run, each with other keys, and returns the median loads.
func (c *config) medianLoad(s shape, run loadRun) (r reached, err error) {
	var noSlot, refuse []float64
	for i := range run.runs {
		r, err = c.reachedLoad(s, run.lines, uint64(i)<<36)
		if err != nil || r.err != nil {
			return r, err
		}
		noSlot, refuse = append(noSlot, r.noSlot), append(refuse, r.refuse)
	}
	r.noSlot, r.refuse = median(noSlot), median(refuse)
	return r, nil
}

// reachedLoad fills a table until an insert is refused, with keys numbered from first on.
func (c *config) reachedLoad(s shape, lines, first uint64) (r reached, err error) {
	r = reached{shape: s, lines: lines}
	o, got, err := s.options(lines)
	if option := new(mmapfilter.OptionError); errors.As(err, &option) {
		r.err = option
		return r, nil
	}
	if err == nil && got != lines {
		err = fmt.Errorf("%s: there is no table of %d buckets, the next has %d", s, lines, got)
	}
	if err != nil {
		return r, err
	}
	slots := lines * s.slots()
	m, n, err := c.begun(s, o, slots, first)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, m.close()) }()
	poll, early := max(1, slots/loadPolls), max(1, slots/earlyPolls)
	late := uint64(earlyLoad * expectedLoad[s.b] * float64(slots))
	for ; m.Insert(c.key(first + n)); n++ {
		if r.noSlot == 0 && (n%early == 0 || n > late && n%poll == 0) {
			if err := c.ctx.Err(); err != nil {
				return r, err
			}
			if m.live.Stats().StashLen > 0 {
				r.noSlot = float64(n) / float64(slots)
			}
		}
	}
	r.refuse = float64(n) / float64(slots)
	if r.noSlot == 0 { // after the last check
		r.noSlot = r.refuse
	}
	m.commit()
	if m.err == nil {
		return r, c.checkFrom(&member{structure: structure{name: s.String()}, filter: m, mapped: m, n: n}, first)
	}
	return r, nil // close returns m.err
}

// begun returns a table with n keys, open for writing and with an empty stash. A small table
// has no keys; a large one has as many as could be built in bulk.
func (c *config) begun(s shape, o *mmapfilter.Options, slots, first uint64) (m *mapped, n uint64, err error) {
	if slots >= bulkLines*s.slots() {
		for _, share := range bulkShares {
			n := uint64(share * expectedLoad[s.b] * float64(slots))
			m, err := c.buildFrom("fig2", o, first, n)
			if errors.Is(err, mmapfilter.ErrFull) {
				continue
			}
			if err != nil {
				return nil, 0, err
			}
			if m.reader.Stats().StashLen > 0 {
				if err := m.close(); err != nil {
					return nil, 0, err
				}
				continue
			}
			m, err = c.extend(m)
			return m, n, err
		}
	}
	m, err = c.create("fig2", o)
	return m, 0, err
}

// longest returns the load of the longest fingerprint in the largest table.
func longest(all []reached, b int) (last reached) {
	for _, r := range all {
		if r.shape.b == b && r.err == nil {
			last = r
		}
	}
	return last
}

// enough returns the shortest fingerprint tried that reaches 95 % of the load of the longest,
// in the same number of buckets.
func enough(all []reached, b int, lines uint64) (f int) {
	most := 0.0
	for _, r := range all {
		if r.shape.b == b && r.lines == lines && r.err == nil {
			most = r.noSlot
		}
	}
	for _, r := range all {
		if r.shape.b == b && r.lines == lines && r.noSlot >= 0.95*most {
			return r.shape.f
		}
	}
	return 0
}

func log2(n uint64) int { return int(math.Round(math.Log2(float64(n)))) }

// paperLoad is the load in % that b slots a bucket reach in the paper.
var paperLoad = map[int]float64{2: 84, 4: 95, 8: 98}

func fig2Views(f *report.Figure) ([]report.View, error) {
	if err := panels(f, 3, 0); err != nil {
		return nil, err
	}
	const full, short = "How full does a table get?", "How short may a fingerprint be?"
	plots := map[int]report.Plot{2: f.Plots[0], 4: f.Plots[1], 8: f.Plots[2]}
	tones := map[int]picture.Tone{2: picture.Orange, 4: picture.Blue, 8: picture.Green}
	bars := &picture.Bars{Title: full, Unit: "load, % of slots, at the first key that finds no slot", Format: "%.1f", Paper: "%.0f"}
	measured := func(p report.Plot) (lines []report.Series) { // one for each table size, the largest last
		for _, s := range p.Series {
			if s.Style == report.Measured {
				lines = append(lines, s)
			}
		}
		return lines
	}
	for _, b := range []int{2, 4, 8} {
		lines := measured(plots[b])
		if len(lines) < 2 {
			return nil, fmt.Errorf("b=%d: %d sizes of tables", b, len(lines))
		}
		at := lines[len(lines)-1].Points
		bars.Rows = append(bars.Rows, picture.Row{Name: fmt.Sprintf("b=%d slots", b), Value: at[len(at)-1].Y, Paper: paperLoad[b], Tone: tones[b]})
	}
	size := func(s report.Series) string { return strings.TrimSuffix(s.Name, ", first key without a slot") }
	two, four := measured(plots[2]), measured(plots[4])
	lines := &picture.Lines{Title: short, X: picture.Axis{Label: "bits of a fingerprint"}, Y: picture.Axis{Label: bars.Unit, Min: 30, Max: 100}}
	middle := four[len(four)-2]
	lines.Series = append(lines.Series, picture.Line{Name: "b=4, " + size(middle), Points: middle.Points, Tone: picture.Blue, Kind: picture.Emphasis})
	for i, s := range two {
		lines.Series = append(lines.Series, picture.Line{Name: "b=2, " + size(s), Points: s.Points, Tone: []picture.Tone{picture.Orange, picture.Green, picture.Purple}[i%3]})
	}
	first, last := middle.Points[0].X, middle.Points[len(middle.Points)-1].X
	lines.Series = append(lines.Series, paperLine("paper, b=4", paperLoad[4], first, last), paperLine("paper, b=2", paperLoad[2], first, last))
	largest := four[len(four)-1]
	return []report.View{
		view(full, fmt.Sprintf("A table with four slots in a bucket is %.1f %% full when the first key finds no slot, where the paper has %.0f %%.", bars.Rows[1].Value, bars.Rows[1].Paper),
			fmt.Sprintf("The paper's Figure 2; a mark across a row is its value. Layout packed, %s buckets, fingerprints of %.0f bits.", size(largest), largest.Points[len(largest.Points)-1].X),
			bars),
		view(short, fmt.Sprintf("With four slots, %.0f bits reach within 5 %% of the load of the longest fingerprint (%s); with two slots it takes %.0f.",
			shortest(middle), size(middle), shortest(two[len(two)-2])),
			"The paper's Figure 2, layout packed. Its curves have no numbers; dashed is the load that it gives for fingerprints that are long enough. It needs 6 bits for four slots: where fingerprints are few, its way to the alternate bucket reaches fewer buckets than ours.",
			lines),
	}, nil
}

// shortest returns the first x at which a line reaches 95 % of its last height.
func shortest(s report.Series) float64 {
	for _, at := range s.Points {
		if at.Y >= 0.95*s.Points[len(s.Points)-1].Y {
			return at.X
		}
	}
	return math.NaN()
}
