package main

import (
	"encoding/csv"
	"errors"
	"fmt"
	"os"
	"strconv"

	"github.com/mmapfilter/mmapfilter/tools/evaluate/picture"
)

// churnHeader has the columns of the CSV file. The ns after 0 turnovers are those of an insert, or of
// Build for a key; after others, those of a delete and an insert, as [churnResult.cost] has them.
var churnHeader = []string{"layout", "shape", "keys replaced", "rate asked", "keys", "bits a key",
	"turnovers", "absent keys", "rate", "second lines", "missing", "deletes not found", "ErrFull", "ns", "most stash entries"}

// The columns that are drawn, and how many are needed for that.
const (
	churnLayout    = 0
	churnKind      = 2
	churnAsked     = 3
	churnTurnovers = 6
	churnRate      = 8
	churnSecond    = 9
	churnDrawing   = churnSecond + 1
)

// write adds a row for each measurement.
func (r *churnResult) write(w *csv.Writer, n uint64) {
	number := func(x float64) string { return strconv.FormatFloat(x, 'g', 5, 64) }
	for _, p := range r.points {
		ns := r.filled
		if p.turnovers > 0 {
			ns = r.cost(p.turnovers)
		}
		w.Write([]string{r.name, r.shape, r.kind, strconv.FormatFloat(r.asked, 'g', -1, 64), fmt.Sprint(n), number(r.bitsPerKey),
			fmt.Sprint(p.turnovers), fmt.Sprint(p.asks), number(p.rate()), number(p.second), fmt.Sprint(p.missing), fmt.Sprint(p.unfound), fmt.Sprint(p.refused), number(ns), fmt.Sprint(p.stash)})
	}
}

// churnDrawn is the kind of replacement that is drawn, at the default rate.
const churnDrawn = "random"

// churnLines lists the filters to draw. Those that were not measured are left out.
var churnLines = []struct {
	name string
	line picture.Line
}{
	{"default", picture.Line{Name: "mmapfilter, default", Tone: picture.Blue, Kind: picture.Emphasis}},
	{"packed", picture.Line{Name: "mmapfilter, packed"}},
	{"semisorted", picture.Line{Name: "mmapfilter, semi-sorted"}},
	{"seiflotfy", picture.Line{Name: "seiflotfy/cuckoofilter", Tone: picture.Purple}},
	{"linvon", picture.Line{Name: "linvon/cuckoo-filter", Tone: picture.Green}},
}

var churnPictures = []struct {
	name, title, label string
	column             int
	asked              bool    // also draw the rate asked for
	high               float64 // top of the vertical axis; 0 means the points decide
}{
	{"rate", "Does the false-positive rate last, when random keys are replaced?", "false-positive rate, %", churnRate, true, 0},
	{"second", "Do lookups go on reading one line, when random keys are replaced?", "lookups of absent keys that read a second line, %", churnSecond, false, 100},
}

// drawChurn draws the CSV file that "churn" has written. It draws nothing if the file lacks the
// default rate or the kind that is drawn.
func drawChurn(out string) (files []string, err error) {
	rows, err := readRows(out+".csv", churnDrawing)
	if err != nil {
		return nil, err
	}
	for _, p := range churnPictures {
		points := map[string][]picture.Point{}
		last := 0.0
		for _, r := range rows {
			asked, err := strconv.ParseFloat(r[churnAsked], 64)
			x, also := strconv.ParseFloat(r[churnTurnovers], 64)
			y, too := strconv.ParseFloat(r[p.column], 64)
			if err := errors.Join(err, also, too); err != nil {
				return nil, fmt.Errorf("%s.csv: %w", out, err)
			}
			if asked == defaultRate && r[churnKind] == churnDrawn {
				points[r[churnLayout]] = append(points[r[churnLayout]], picture.Point{X: x, Y: 100 * y})
				last = max(last, x)
			}
		}
		if len(points) == 0 {
			return nil, nil
		}
		drawing := &picture.Lines{Title: p.title, X: picture.Axis{Label: "turnovers"}, Y: picture.Axis{Label: p.label, Max: p.high}}
		for _, l := range churnLines {
			if l.line.Points = points[l.name]; l.line.Points != nil {
				drawing.Series = append(drawing.Series, l.line)
			}
		}
		if p.asked {
			drawing.Series = append(drawing.Series, picture.Line{Name: "asked for", Kind: picture.Dashed, Points: []picture.Point{{X: 0, Y: 100 * defaultRate}, {X: last, Y: 100 * defaultRate}}})
		}
		svg, err := drawing.SVG()
		if err != nil {
			return nil, err
		}
		file := fmt.Sprintf("%s-%s.svg", out, p.name)
		if err := os.WriteFile(file, svg, 0o666); err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	return files, nil
}
