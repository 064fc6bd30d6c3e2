// Package report writes the data of an experiment as JSON and as comma-separated values. From
// the JSON data alone, it draws pictures and a page that shows them all.
package report

import (
	"fmt"
	"math"
	"regexp"

	"github.com/mmapfilter/mmapfilter/tools/evaluate/picture"
)

// A Figure is the outcome of one experiment.
type Figure struct {
	Name    string // also the stem of its files: "fig5"
	Title   string // "Figure 5: lookups by how many keys are there"
	Run     string // what was run: layout, f, b, m, keys, seed
	Command string // that runs it again
	Paper   string // what the paper says, in a sentence or two
	Ours    string // what was measured, in the same form
	Notes   []string
	Tables  []Table
	Plots   []Plot  // one for each panel of the figure
	Seconds float64 `json:",omitempty"` // duration; for figures that share tables, the first includes filling them
}

// A Plot holds measurements over an axis, or of named rows. Pictures are made from it, and may
// show part of it.
type Plot struct {
	Title  string
	X, Y   Axis
	Names  []string // of the rows of bars, from the top; nil for lines
	Series []Series
}

// An Axis of a plot and a Point of a series are those of a picture. In a plot of bars, X is the
// index of a row in Names, and Y the length of the bar. A row without a point has no bar.
type (
	Axis  = picture.Axis
	Point = picture.Point
)

// A Series holds the measurements of one thing.
type Series struct {
	Name   string
	Points []Point
	Style  Style
}

// A Style says what a series shows.
type Style int

const (
	Measured Style = iota
	Formula        // not measured, but computed
	Marks          // measured, with few points
	Bars           // of named rows; all series of the plot, or none
)

func (s Style) String() string { return [...]string{"measured", "formula", "marks", "bars"}[s] }

// A Table has a row for each structure or size.
type Table struct {
	Caption string
	Header  []string
	Rows    [][]string
}

// A FigureError says what is wrong with a figure. Nothing of the figure is written.
type FigureError struct {
	Figure  string
	Problem string
}

func (e *FigureError) Error() string { return fmt.Sprintf("figure %q: %s", e.Figure, e.Problem) }

var validName = regexp.MustCompile(`^[a-z][a-z0-9-]*$`)

// SeriesOf returns the series with a name, or an empty one.
func (p *Plot) SeriesOf(name string) Series {
	for _, s := range p.Series {
		if s.Name == name {
			return s
		}
	}
	return Series{Name: name}
}

// check returns an error if the figure cannot be written or explained.
func (f *Figure) check() error {
	problem := ""
	switch {
	case !validName.MatchString(f.Name):
		problem = "the name is not of small letters, digits and -"
	case f.Title == "" || f.Run == "" || f.Command == "" || f.Paper == "" || f.Ours == "":
		problem = "title, run, command, paper or ours is missing"
	case len(f.Plots) == 0 && len(f.Tables) == 0:
		problem = "it shows nothing"
	}
	for i := range f.Tables {
		if problem == "" {
			problem = f.Tables[i].problem()
		}
	}
	for i := range f.Plots {
		if problem == "" {
			problem = f.Plots[i].problem()
		}
	}
	if problem != "" {
		return &FigureError{f.Name, problem}
	}
	return nil
}

func (t *Table) problem() string {
	if len(t.Header) == 0 || len(t.Rows) == 0 {
		return fmt.Sprintf("table %q is empty", t.Caption)
	}
	for i, row := range t.Rows {
		if len(row) != len(t.Header) {
			return fmt.Sprintf("table %q: row %d has %d cells under %d headers", t.Caption, i, len(row), len(t.Header))
		}
	}
	return ""
}

func (p *Plot) problem() string {
	for _, a := range []Axis{p.X, p.Y} {
		given := a.Min != 0 || a.Max != 0
		if !finite(a.Min) || !finite(a.Max) || given && a.Min >= a.Max || given && a.Log && a.Min <= 0 {
			return fmt.Sprintf("plot %q: axis %q goes from %g to %g", p.Title, a.Label, a.Min, a.Max)
		}
		if a.Log && p.Names != nil {
			return fmt.Sprintf("plot %q: bars on a logarithmic axis", p.Title)
		}
	}
	if len(p.Series) == 0 {
		return fmt.Sprintf("plot %q has no series", p.Title)
	}
	for _, s := range p.Series {
		switch {
		case s.Style < Measured || s.Style > Bars:
			return fmt.Sprintf("series %q has a style %d", s.Name, int(s.Style))
		case (s.Style == Bars) != (p.Names != nil):
			return fmt.Sprintf("series %q: a plot of bars has names and no lines, one of lines no names", s.Name)
		case len(s.Points) == 0:
			return fmt.Sprintf("series %q has no points", s.Name)
		}
		for _, at := range s.Points {
			if why := p.cannotShow(at); why != "" {
				return fmt.Sprintf("series %q: point (%g, %g): %s", s.Name, at.X, at.Y, why)
			}
		}
	}
	return ""
}

func (p *Plot) cannotShow(at Point) string {
	switch {
	case !finite(at.X) || !finite(at.Y):
		return "not a number"
	case p.X.Log && at.X <= 0 || p.Y.Log && at.Y <= 0:
		return "not above 0, on a logarithmic axis"
	case p.Names != nil && (at.X != math.Trunc(at.X) || at.X < 0 || at.X >= float64(len(p.Names))):
		return "no name has that index"
	case p.Names != nil && at.Y < 0:
		return "a bar below 0"
	}
	return ""
}

// finite reports whether x is a finite number, small enough that differences are finite too.
func finite(x float64) bool { return math.Abs(x) <= 1e300 }
