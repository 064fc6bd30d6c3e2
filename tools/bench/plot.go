package main

import (
	"encoding/csv"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"

	"github.com/mmapfilter/mmapfilter/tools/evaluate/picture"
	"github.com/mmapfilter/mmapfilter/tools/internal/figures"
)

var growthHeader = []string{"layout", "bytes", "keys", "measured", "ns", "over the limit"}

// A growthPicture is a picture of some of the measurements of "growth".
type growthPicture struct {
	name, title string
	lines       []picture.Line // without points; named as drawn
	of          []string       // the measurement of each line
}

var growthPictures = []growthPicture{
	{"lookups", "How long does a lookup take as the filter grows?",
		[]picture.Line{
			{Name: "chain of dependent reads"},
			{Name: "Contains, present", Tone: picture.Green},
			{Name: "Contains, absent", Tone: picture.Orange},
			{Name: "ContainsBatch", Tone: picture.Purple},
			{Name: "ContainsHashes", Tone: picture.Blue, Kind: picture.Emphasis},
			{Name: "limit: random reads", Kind: picture.Dashed},
		},
		[]string{"chain of dependent reads", "Contains, present", "Contains, absent", "ContainsBatch, absent", "ContainsHashes, absent", "random reads: the limit"}},
	{"writes", "How long do an insert and a build take as the filter grows?",
		[]picture.Line{
			{Name: "Insert and Delete", Tone: picture.Orange},
			{Name: "Build", Tone: picture.Blue, Kind: picture.Emphasis},
			{Name: "chain of dependent reads"},
		},
		[]string{"Insert and Delete", "Build, by the clock, once", "chain of dependent reads"}},
}

// drawGrowth draws the CSV file that "growth" has written: for each layout, a picture of
// lookups and one of writes. It measures nothing.
func drawGrowth(out string) (files []string, err error) {
	rows, err := readRows(out+".csv", len(growthHeader))
	if err != nil {
		return nil, err
	}
	points := map[string]map[string][]picture.Point{} // by layout and measurement
	var layouts []string
	var sizes []float64
	for _, r := range rows {
		size, err := strconv.ParseFloat(r[1], 64)
		ns, also := strconv.ParseFloat(r[4], 64)
		if err := errors.Join(err, also); err != nil {
			return nil, fmt.Errorf("%s.csv: %w", out, err)
		}
		if points[r[0]] == nil {
			points[r[0]] = map[string][]picture.Point{}
			layouts = append(layouts, r[0])
		}
		points[r[0]][r[3]] = append(points[r[0]][r[3]], picture.Point{X: size, Y: ns})
		if !slices.Contains(sizes, size) {
			sizes = append(sizes, size)
		}
	}
	if len(layouts) == 0 {
		return nil, fmt.Errorf("%s.csv has no rows", out)
	}
	for _, layout := range layouts {
		variant := ""
		if len(layouts) > 1 {
			variant = " Variant: " + layout
		}
		for _, g := range growthPictures {
			p := &picture.Lines{
				Title: g.title + variant,
				X:     picture.Axis{Label: "size of the lines of the filter", Log: true},
				Y:     picture.Axis{Label: "ns a key", Log: true},
			}
			p.X.Ticks = sizeTicks(sizes)
			for i, l := range g.lines {
				l.Points = points[layout][g.of[i]]
				p.Series = append(p.Series, l)
			}
			svg, err := p.SVG()
			if err != nil {
				return nil, err
			}
			file := fmt.Sprintf("%s-%s-%s.svg", out, layout, g.name)
			if err := os.WriteFile(file, svg, 0o666); err != nil {
				return nil, err
			}
			files = append(files, file)
		}
	}
	return files, nil
}

// readRows reads the rows of a CSV file below its head. Each must have at least the given number of
// cells.
func readRows(file string, cells int) (rows [][]string, err error) {
	text, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer text.Close()
	if rows, err = csv.NewReader(text).ReadAll(); err != nil {
		return nil, err
	}
	for _, row := range rows[min(1, len(rows)):] {
		if len(row) < cells {
			return nil, fmt.Errorf("%s: a row of %d cells", file, len(row))
		}
	}
	return rows[min(1, len(rows)):], nil
}

// labelFactor is the least ratio of two sizes that both have a label on a logarithmic axis.
// From 64 KiB to 8 GiB that is much wider than a label.
const labelFactor = 16

// sizeTicks returns a tick for each size. A size close to a larger one with a label gets none.
func sizeTicks(sizes []float64) (ticks []picture.Tick) {
	sorted := slices.Sorted(slices.Values(sizes))
	labelled := math.Inf(1)
	for _, size := range slices.Backward(sorted) {
		tick := picture.Tick{At: size}
		if labelFactor*size <= labelled {
			tick.Label, labelled = figures.SpacedSize(int64(size)), size
		}
		ticks = append(ticks, tick)
	}
	slices.Reverse(ticks)
	return ticks
}
