package main

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"image/color"
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

// A picture says how to draw a CSV file: with a line for each value of a column.
type picture struct {
	suffix, title string // the files are NAME.csv and NAME+suffix.svg
	x, y          axis
	of            int            // the column that names lines
	lines         []line         // lines that were not measured are left out
	only          map[int]string // the values that other columns of a row must have
}

type axis struct {
	label  string
	column int
	scale  float64 // factor for the numbers
}

// A line shows the rows that name it.
type line struct{ of, name string }

var palette = []color.Color{
	color.RGBA{0x00, 0x72, 0xb2, 255}, color.RGBA{0xd5, 0x5e, 0x00, 255}, color.RGBA{0x00, 0x9e, 0x73, 255},
	color.RGBA{0x88, 0x2d, 0x71, 255}, color.RGBA{0x8c, 0x95, 0x9f, 255}, color.RGBA{0, 0, 0, 255},
}

// dark inverts a picture, but not its hues, for readers with dark pages.
const dark = "<style>@media (prefers-color-scheme:dark){svg{filter:invert(1) hue-rotate(180deg)}}</style>\n"

// drawn draws pictures of the file out.csv, and prints their names.
func (s *session) drawn(out string, pictures ...picture) error {
	rows, err := readRows(out + ".csv")
	if err != nil {
		return err
	}
	var files []string
	for _, p := range pictures {
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
	canvas, err := p.canvas(rows)
	if err != nil {
		return nil, err
	}
	to := vgsvg.New(15*vg.Centimeter, 9*vg.Centimeter)
	canvas.Draw(draw.New(to))
	var out bytes.Buffer
	if _, err := to.WriteTo(&out); err != nil {
		return nil, err
	}
	text := out.Bytes()
	at := bytes.Index(text, []byte("<g "))
	return bytes.Join([][]byte{text[:at], []byte(dark), text[at:]}, nil), nil
}

func (p *picture) canvas(rows [][]string) (*plot.Plot, error) {
	canvas := plot.New()
	canvas.Title.Text, canvas.X.Label.Text, canvas.Y.Label.Text = p.title, p.x.label, p.y.label
	canvas.Legend.Top, canvas.Legend.Left = true, true
	none := true
	for i, l := range p.lines {
		points, err := p.points(rows, l.of)
		if err != nil {
			return nil, err
		}
		if len(points) == 0 {
			continue
		}
		none = false
		curve := &plotter.Line{XYs: points, LineStyle: draw.LineStyle{Color: palette[i], Width: 1.5}}
		canvas.Add(curve)
		canvas.Legend.Add(l.name, curve)
	}
	if none {
		return nil, errors.New("no rows of what is drawn")
	}
	canvas.Y.Min, canvas.Y.Max = 0, 1.25*canvas.Y.Max // room for the legend
	return canvas, nil
}

// points returns the points of a line.
func (p *picture) points(rows [][]string, name string) (points plotter.XYs, err error) {
	for _, r := range rows {
		if len(r) <= max(p.of, p.x.column, p.y.column) {
			return nil, fmt.Errorf("a row of %d cells", len(r))
		}
		other := r[p.of] != name
		for column, want := range p.only {
			other = other || r[column] != want
		}
		if other {
			continue
		}
		x, err := strconv.ParseFloat(r[p.x.column], 64)
		y, also := strconv.ParseFloat(r[p.y.column], 64)
		if err := errors.Join(err, also); err != nil {
			return nil, err
		}
		points = append(points, plotter.XY{X: p.x.scale * x, Y: p.y.scale * y})
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
