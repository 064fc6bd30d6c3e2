package main

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"image/color"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// A picture shows a column of the CSV file of churn over turnovers of random keys, in filters for the
// default rate.
type picture struct {
	suffix, title string // the files are NAME.csv and NAME+suffix.svg
	label         string // of the values, in percent
	column        int
}

var churnPictures = []picture{
	{"-rate", "Does the false-positive rate last, when random keys are replaced?", "false-positive rate, %", 8},
	{"-second", "Do lookups go on reading one line, when random keys are replaced?", "lookups of absent keys that read a second line, %", 9},
}

// churnLines are the names of filters in the CSV file, and their names in pictures. Filters that were
// not measured are left out.
var churnLines = [][2]string{{defaultFilled, "mmapfilter"}, {"seiflotfy", "seiflotfy/cuckoofilter"}, {"linvon", "linvon/cuckoo-filter"}}

var palette = []color.Color{color.RGBA{0x00, 0x72, 0xb2, 255}, color.RGBA{0xd5, 0x5e, 0x00, 255}, color.RGBA{0x00, 0x9e, 0x73, 255}}

// dark inverts a picture, but not its hues, for readers with dark pages.
const dark = "<style>@media (prefers-color-scheme:dark){svg{filter:invert(1) hue-rotate(180deg)}}</style>\n"

// drawn draws the pictures of the file out.csv, and prints their names.
func (s *session) drawn(out string) error {
	rows, err := readRows(out + ".csv")
	if err != nil {
		return err
	}
	var files []string
	for _, p := range churnPictures {
		svg, err := p.draw(rows)
		if err != nil {
			return fmt.Errorf("%s.csv: %w", out, err)
		}
		if err := os.WriteFile(out+p.suffix+".svg", svg, 0o666); err != nil {
			return err
		}
		files = append(files, filepath.Base(out+p.suffix+".svg"))
	}
	s.printf("Drawn in %s, from %s.csv.\n", strings.Join(files, ", "), filepath.Base(out))
	return nil
}

// draw returns a picture in SVG.
func (p *picture) draw(rows [][]string) ([]byte, error) {
	canvas := plot.New()
	canvas.Title.Text, canvas.X.Label.Text, canvas.Y.Label.Text = p.title, "turnovers", p.label
	canvas.Legend.Top, canvas.Legend.Left = true, true
	for i, l := range churnLines {
		points, err := p.points(rows, l[0])
		if err != nil {
			return nil, err
		}
		if len(points) > 0 {
			curve := &plotter.Line{XYs: points, LineStyle: draw.LineStyle{Color: palette[i], Width: 1.5}}
			canvas.Add(curve)
			canvas.Legend.Add(l[1], curve)
		}
	}
	if math.IsInf(canvas.Y.Max, 0) {
		return nil, errors.New("no rows to draw")
	}
	canvas.Y.Min, canvas.Y.Max = 0, 1.25*canvas.Y.Max // room for the legend
	to := vgsvg.New(15*vg.Centimeter, 9*vg.Centimeter)
	canvas.Draw(draw.New(to))
	var out bytes.Buffer
	if _, err := to.WriteTo(&out); err != nil {
		return nil, err
	}
	return bytes.Replace(out.Bytes(), []byte("<g "), []byte(dark+"<g "), 1), nil
}

// points returns the points of a filter.
func (p *picture) points(rows [][]string, name string) (points plotter.XYs, err error) {
	for _, r := range rows {
		if len(r) != len(churnHeader) {
			return nil, fmt.Errorf("a row of %d cells", len(r))
		}
		if r[0] != name || r[2] != "random" || r[3] != fmt.Sprint(defaultRate) {
			continue
		}
		x, err := strconv.ParseFloat(r[6], 64)
		y, also := strconv.ParseFloat(r[p.column], 64)
		if err := errors.Join(err, also); err != nil {
			return nil, err
		}
		points = append(points, plotter.XY{X: x, Y: 100 * y})
	}
	return points, nil
}

// readRows reads the rows of a CSV file below its head.
func readRows(file string) ([][]string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	rows, err := csv.NewReader(bytes.NewReader(text)).ReadAll()
	if err != nil {
		return nil, err
	}
	return rows[min(1, len(rows)):], nil
}
