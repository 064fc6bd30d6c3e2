package main

import (
	"encoding/csv"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/mmapfilter/mmapfilter/tools/evaluate/picture"
	"github.com/mmapfilter/mmapfilter/tools/internal/figures"
)

var writerHeader = []string{"bytes", "sync every", "what", "seconds", "milliseconds"}

// What a row of the CSV file is about: the longest operation of a tick, or the end of a checkpoint.
const (
	writerLongest    = "longest operation"
	writerCheckpoint = "a checkpoint ends"
)

// writerData is the name of the CSV file that a picture is drawn from.
func writerData(picture string) string { return strings.TrimSuffix(picture, ".svg") + ".csv" }

// save writes what the picture shows of a measurement to a CSV file.
func (m *writerMeasure) save(file string, size int64, every int) error {
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	defer out.Close()
	w := csv.NewWriter(out)
	w.Write(writerHeader)
	row := func(what string, seconds, ms float64) {
		number := func(x float64) string { return strconv.FormatFloat(x, 'g', 5, 64) }
		w.Write([]string{fmt.Sprint(size), fmt.Sprint(every), what, number(seconds), number(ms)})
	}
	for i, d := range m.peaks {
		row(writerLongest, float64(i)*tick.Seconds(), float64(d)/1e6)
	}
	for _, at := range m.marks {
		row(writerCheckpoint, at.Seconds(), 0)
	}
	w.Flush()
	return errors.Join(w.Error(), out.Close())
}

// drawWriter draws the CSV file of a picture: the longest operation of each tick, and the ends of
// checkpoints. It measures nothing.
func drawWriter(out string) error {
	file := writerData(out)
	rows, err := readRows(file, len(writerHeader))
	if err != nil {
		return err
	}
	if len(rows) == 0 {
		return fmt.Errorf("%s has no rows", file)
	}
	line := picture.Line{Name: "Insert or Delete", Tone: picture.Blue, Kind: picture.Stems}
	top := 0.0
	var ends []float64
	for _, r := range rows {
		seconds, err := strconv.ParseFloat(r[3], 64)
		ms, also := strconv.ParseFloat(r[4], 64)
		if err := errors.Join(err, also); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		switch r[2] {
		case writerLongest:
			line.Points = append(line.Points, picture.Point{X: seconds, Y: ms})
			top = max(top, ms)
		case writerCheckpoint:
			ends = append(ends, seconds)
		default:
			return fmt.Errorf("%s: a row is about %q", file, r[2])
		}
	}
	title, err := writerTitle(rows[0])
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	p := &picture.Lines{
		Title:  title,
		X:      picture.Axis{Label: "seconds"},
		Y:      picture.Axis{Label: "longest operation in 20 ms, in milliseconds"},
		Series: []picture.Line{line},
	}
	for i, at := range ends {
		mark := picture.Line{Kind: picture.Dashed, Points: []picture.Point{{X: at, Y: 0}, {X: at, Y: top}}}
		if i == 0 {
			mark.Name = writerCheckpoint
		}
		p.Series = append(p.Series, mark)
	}
	svg, err := p.SVG()
	if err != nil {
		return err
	}
	return os.WriteFile(out, svg, 0o666)
}

// writerTitle says what was measured, from a row.
func writerTitle(row []string) (string, error) {
	size, err := strconv.ParseInt(row[0], 10, 64)
	every, also := strconv.ParseInt(row[1], 10, 64)
	if err := errors.Join(err, also); err != nil {
		return "", err
	}
	syncs := "commits by the timer"
	if every > 0 {
		syncs = "a sync every " + figures.Grouped(every) + " operations"
	}
	return fmt.Sprintf("How long does an insert or a delete wait? %s, %s", figures.SpacedSize(size), syncs), nil
}
