package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/mmapfilter/mmapfilter/tools/evaluate/picture"
	"github.com/mmapfilter/mmapfilter/tools/evaluate/report"
)

// Views are made from the data of a figure alone, so that they can be drawn again without
// measuring.

const batches = ", batches" // suffix of the name of a series of batches

// A look is the name and style of a structure in every picture.
type look struct {
	series, name string
	tone         picture.Tone
	kind         picture.Kind
}

// looks are the looks of the structures. Ours stands out most; what it is compared with is
// grey.
var looks = []look{
	{"Compact", "compact", picture.Blue, picture.Emphasis},
	{"CF", "packed (CF)", picture.Orange, picture.Plain},
	{"ss-CF", "semisorted (ss-CF)", picture.Green, picture.Plain},
	{"BF", "Bloom", picture.Grey, picture.Plain},
	{"blk-BF", "blocked Bloom", picture.Grey, picture.Plain},
	{"CBF", "counting Bloom", picture.Grey, picture.Plain},
	{"QF", "quotient", picture.Grey, picture.Plain},
	{"dl-CBF", "d-left", picture.Grey, picture.Plain},
}

func lookOf(series string) look {
	for _, l := range looks {
		if l.series == series {
			return l
		}
	}
	return look{series, series, picture.Grey, picture.Plain}
}

// linesOf returns a line for each series of a plot that has a look. suffix selects batches, or
// one key at a time if empty.
func linesOf(p report.Plot, suffix string) (lines []picture.Line) {
	for _, l := range looks {
		if s := p.SeriesOf(l.series + suffix); len(s.Points) > 0 {
			lines = append(lines, picture.Line{Name: l.name, Points: s.Points, Tone: l.tone, Kind: l.kind})
		}
	}
	return lines
}

// paperLine returns the paper's value as a dashed line at a height.
func paperLine(name string, y, from, to float64) picture.Line {
	return picture.Line{Name: name, Kind: picture.Dashed, Points: []report.Point{{X: from, Y: y}, {X: to, Y: y}}}
}

// panels checks that a figure has the plots and tables that its views need.
func panels(f *report.Figure, plots, tables int) error {
	if len(f.Plots) < plots || len(f.Tables) < tables {
		return fmt.Errorf("%d plots and %d tables; its views need %d and %d", len(f.Plots), len(f.Tables), plots, tables)
	}
	return nil
}

// endsOf returns the first and the last height of a series.
func endsOf(p report.Plot, series string) (first, last float64) {
	at := p.SeriesOf(series).Points
	if len(at) == 0 {
		return math.NaN(), math.NaN()
	}
	return at[0].Y, at[len(at)-1].Y
}

// halves returns the medians of the heights of a series in the lower and the upper half of its
// x. A single point may be off.
func halves(p report.Plot, series string) (lower, upper float64) {
	at := slices.Clone(p.SeriesOf(series).Points)
	slices.SortFunc(at, func(a, b report.Point) int { return cmp.Compare(a.X, b.X) })
	ys := func(points []report.Point) (ys []float64) {
		for _, p := range points {
			ys = append(ys, p.Y)
		}
		return ys
	}
	if len(at) < 2 {
		return math.NaN(), math.NaN()
	}
	return median(ys(at[:len(at)/2])), median(ys(at[len(at)/2:]))
}

// at returns the height of a series at x, interpolated over the logarithm of x, or NaN beyond
// its points.
func at(s report.Series, x float64) float64 {
	points := slices.Clone(s.Points)
	slices.SortFunc(points, func(a, b report.Point) int { return cmp.Compare(a.X, b.X) })
	for i := range points[:max(0, len(points)-1)] {
		a, b := points[i], points[i+1]
		if a.X <= x && x <= b.X {
			part := math.Log(x/a.X) / math.Log(b.X/a.X)
			return a.Y + part*(b.Y-a.Y)
		}
	}
	return math.NaN()
}

// rowsOf returns a bar for each row of a table whose name, in the first column, has a look: its
// number, and the paper's.
func rowsOf(rows [][]string, value, paper func(row []string) float64) (bars []picture.Row) {
	for _, l := range looks {
		for _, r := range rows {
			if r[0] == l.series {
				bars = append(bars, picture.Row{Name: l.name, Value: value(r), Paper: paper(r), Tone: l.tone})
			}
		}
	}
	return bars
}

func view(question, answer, caption string, p picture.Picture) report.View {
	return report.View{Question: question, Answer: answer, Caption: caption, Picture: p}
}

const curves = " The paper has curves and no numbers."

// lookupsView is a view of lookups one key at a time, or in batches.
func lookupsView(question, answer, caption string, x report.Axis, p report.Plot, suffix string, more ...picture.Line) report.View {
	return report.View{Question: question, Answer: answer, Caption: caption, Picture: &picture.Lines{
		Title: question, X: x, Y: picture.Axis{Label: p.Y.Label, Log: true}, Series: append(linesOf(p, suffix), more...),
	}}
}

// oneDigit formats a number as 3.7, or 46.
func oneDigit(x float64) string {
	text := fmt.Sprintf("%.1f", x)
	if x >= 20 {
		text = fmt.Sprintf("%.0f", x)
	}
	return strings.TrimSuffix(text, ".0")
}
