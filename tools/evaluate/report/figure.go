// Package report writes what an experiment found: a table of comma-separated
// values, a picture, and a page that shows them all.
package report

// A Figure is the outcome of one experiment.
type Figure struct {
	Name    string // and the stem of its files: "fig5"
	Title   string // of the figure or table of the paper
	Run     string // what was run: layout, f, b, m, keys, seed
	Command string // that runs it again
	Paper   string // what the paper says, in a sentence or two
	Ours    string // what was measured, said the same way
	Notes   []string
	Tables  []Table
	Plots   []Plot // one for each panel of the figure; none for a table
}

// A Plot is a picture of lines over two axes.
type Plot struct {
	Title  string
	X, Y   Axis
	Series []Series
}

// An Axis of a plot. Where Min and Max are both 0, the points decide.
type Axis struct {
	Label    string // with the unit
	Log      bool
	Min, Max float64
}

// A Series is a line of a plot, or, where it has no line, its marks.
type Series struct {
	Name   string
	Points []Point
	Style  Style
}

// A Point of a series.
type Point struct{ X, Y float64 }

// A Style says what a series shows.
type Style int

const (
	Measured Style = iota // a line with a mark at each point
	Formula               // a dashed line
	Marks                 // points that nothing connects
)

// A Table has a row for each structure or size.
type Table struct {
	Caption string
	Header  []string
	Rows    [][]string
}
