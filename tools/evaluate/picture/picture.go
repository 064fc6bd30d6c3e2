// Package picture draws measurements as lines over two axes, or as bars. All pictures have the
// style of layout/file.svg: the name of a line is at its end, and lines have marks and few colours,
// which colour-blind readers can tell apart. A picture is readable on a telephone and on a desktop,
// on a light and on a dark ground.
//
// A picture is an SVG with a transparent ground, whose colours are classes of its own style sheet.
// The same picture always has the same bytes.
package picture

import (
	"fmt"
	"math"
)

// A Picture can be drawn.
type Picture interface {
	// SVG returns the picture, or a *Error.
	SVG() ([]byte, error)
	// Describe describes the picture in words.
	Describe() string
}

// An Error says why a picture cannot be drawn.
type Error struct {
	Picture string
	Problem string
}

func (e *Error) Error() string { return fmt.Sprintf("picture %q: %s", e.Picture, e.Problem) }

// Lines are drawn over two axes.
type Lines struct {
	Title  string // not drawn: a page shows it above the picture
	X, Y   Axis
	Series []Line
}

// An Axis of a picture. If Min and Max are both 0, the points determine the range; a vertical
// axis that is not logarithmic then begins at 0.
type Axis struct {
	Label    string // with the unit
	Log      bool
	Min, Max float64
	Ticks    []Tick `json:",omitempty"` // nil means at round numbers
}

// A Tick is a labelled place of an axis.
type Tick struct {
	At    float64
	Label string
}

// A Line is a series of points.
type Line struct {
	Name   string // at its end; a dashed line may have none
	Points []Point
	Tone   Tone
	Kind   Kind
}

// A Point of a line.
type Point struct{ X, Y float64 }

// A Kind says how a line is drawn.
type Kind int

const (
	Plain    Kind = iota // with marks
	Emphasis             // thicker, and above all others
	Dashed               // without marks: what the paper says, or a formula
	Stems                // a thin upright line to each point, without marks; the vertical axis is not logarithmic
)

// Bars are rows below each other, each with a name, a bar and its value.
type Bars struct {
	Title  string // not drawn
	Unit   string
	Format string // of values: "%.2f"
	Paper  string // format of the paper's values
	Rows   []Row
}

// A Row of bars.
type Row struct {
	Name  string
	Value float64
	Paper float64 // the paper's value, drawn as a mark; 0 for none
	Tone  Tone
}

func (p *Lines) problem() string {
	for _, a := range []Axis{p.X, p.Y} {
		given := a.Min != 0 || a.Max != 0
		if !finite(a.Min) || !finite(a.Max) || given && a.Min >= a.Max || given && a.Log && a.Min <= 0 {
			return fmt.Sprintf("axis %q goes from %g to %g", a.Label, a.Min, a.Max)
		}
		if a.Label == "" {
			return "an axis has no label"
		}
	}
	if len(p.Series) == 0 {
		return "there are no lines"
	}
	coloured := map[Tone]bool{}
	for _, s := range p.Series {
		switch {
		case s.Tone < Grey || s.Tone > Purple:
			return fmt.Sprintf("line %q: %d is no tone of a line", s.Name, s.Tone)
		case s.Kind < Plain || s.Kind > Stems:
			return fmt.Sprintf("line %q: there is no kind %d", s.Name, s.Kind)
		case s.Kind == Stems && p.Y.Log:
			return fmt.Sprintf("line %q: stems have no foot on a logarithmic axis", s.Name)
		case s.Name == "" && s.Kind != Dashed:
			return "a line has no name"
		case len(s.Points) == 0:
			return fmt.Sprintf("line %q has no points", s.Name)
		case s.Tone != Grey && s.Kind != Dashed && coloured[s.Tone]:
			return fmt.Sprintf("line %q has the colour of another", s.Name)
		}
		if s.Kind != Dashed {
			coloured[s.Tone] = true
		}
		for _, at := range s.Points {
			if !finite(at.X) || !finite(at.Y) || p.X.Log && at.X <= 0 || p.Y.Log && at.Y <= 0 {
				return fmt.Sprintf("line %q: the point (%g, %g) has no place", s.Name, at.X, at.Y)
			}
		}
	}
	return ""
}

func (p *Bars) problem() string {
	if len(p.Rows) == 0 || p.Unit == "" || p.Format == "" || p.Paper == "" {
		return "there are no rows, no unit or no formats"
	}
	for _, r := range p.Rows {
		switch {
		case r.Name == "":
			return "a row has no name"
		case !finite(r.Value) || !finite(r.Paper) || r.Value < 0 || r.Paper < 0:
			return fmt.Sprintf("row %q: %g, %g in the paper", r.Name, r.Value, r.Paper)
		case r.Tone < Grey || r.Tone > Purple:
			return fmt.Sprintf("row %q: %d is no tone of a bar", r.Name, r.Tone)
		}
	}
	return ""
}

// finite reports whether x is a finite number, small enough that differences are finite too.
func finite(x float64) bool { return math.Abs(x) <= 1e300 }

// Describe names the axes and the lines.
func (p *Lines) Describe() string {
	text := fmt.Sprintf("Lines of %s over %s: ", p.Y.Label, p.X.Label)
	first := true
	for _, s := range p.Series {
		if s.Name != "" {
			if !first {
				text += "; "
			}
			text, first = text+s.Name, false
		}
	}
	return text + "."
}

// Describe lists all values.
func (p *Bars) Describe() string {
	text := fmt.Sprintf("Bars, %s: ", p.Unit)
	for i, r := range p.Rows {
		if i > 0 {
			text += "; "
		}
		text += r.Name + " " + p.value(r.Value)
		if r.Paper > 0 {
			text += ", in the paper " + p.said(r.Paper)
		}
	}
	return text + "."
}

func (p *Bars) value(x float64) string { return fmt.Sprintf(p.Format, x) }
func (p *Bars) said(x float64) string  { return fmt.Sprintf(p.Paper, x) }
