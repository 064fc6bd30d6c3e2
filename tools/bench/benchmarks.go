package main

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/mmapfilter/mmapfilter/tools/internal/figures"
)

// A benchmark holds what "go test -bench" printed for the benchmarks of one name: a row for
// each sub-benchmark, and the values of its runs by unit.
type benchmark struct {
	name  string
	rows  []string
	units []string
	cells map[[2]string][]float64 // by row and unit
}

// benchmarkLine has the name, the sub-benchmarks and the values. Go appends "#01" to a name that comes
// again, and the number of processors to all.
var benchmarkLine = regexp.MustCompile(`^Benchmark(\w+)/?(\S*?)(?:#\d+)?(?:-\d+)?\s+\d+\s+(.+)$`)

// benchmarkTables makes a table of each benchmark, with the medians of its runs.
func benchmarkTables(out string) (string, error) {
	var all []*benchmark
	for line := range strings.Lines(out) {
		found := benchmarkLine.FindStringSubmatch(strings.TrimSpace(line))
		if found == nil {
			continue
		}
		i := slices.IndexFunc(all, func(b *benchmark) bool { return b.name == found[1] })
		if i < 0 {
			i = len(all)
			all = append(all, &benchmark{name: found[1], cells: map[[2]string][]float64{}})
		}
		if err := all[i].add(strings.ReplaceAll(found[2], "/", ", "), strings.Fields(found[3])); err != nil {
			return "", fmt.Errorf("%s: %w", line, err)
		}
	}
	if len(all) == 0 {
		return "", errors.New("no benchmark has run")
	}
	var b strings.Builder
	for _, one := range all {
		fmt.Fprintf(&b, "\n%s", one.table())
	}
	return b.String(), nil
}

// add adds the values of a run, each followed by its unit.
func (b *benchmark) add(row string, values []string) error {
	if !slices.Contains(b.rows, row) {
		b.rows = append(b.rows, row)
	}
	for i := 0; i+1 < len(values); i += 2 {
		value, err := strconv.ParseFloat(values[i], 64)
		if err != nil || math.IsInf(value, 0) || math.IsNaN(value) {
			return fmt.Errorf("%q is no number", values[i])
		}
		unit := values[i+1]
		if !slices.Contains(b.units, unit) {
			b.units = append(b.units, unit)
		}
		b.cells[[2]string{row, unit}] = append(b.cells[[2]string{row, unit}], value)
	}
	return nil
}

func (b *benchmark) table() *figures.Table {
	t := figures.NewTable(append([]string{"`" + b.name + "`"}, b.units...)...)
	for _, row := range b.rows {
		cells := []string{row}
		for _, unit := range b.units {
			cell := ""
			if values := b.cells[[2]string{row, unit}]; values != nil {
				cell = fourDigits(figures.Median(values))
			}
			cells = append(cells, cell)
		}
		t.Row(cells...)
	}
	return t
}

// fourDigits formats x with four significant digits, and always with all digits before the
// point.
func fourDigits(x float64) string {
	switch size := math.Abs(x); {
	case x == math.Trunc(x) || size >= 1000:
		return figures.Grouped(int64(math.Round(x)))
	default:
		return strconv.FormatFloat(x, 'f', max(0, 3-int(math.Floor(math.Log10(size)))), 64)
	}
}
