package main

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/mmapfilter/mmapfilter/tools/internal/figures"
	"golang.org/x/perf/benchfmt"
)

// A benchmark holds what "go test -bench" printed for the benchmarks of one name: a row for
// each sub-benchmark, and the values of its runs by unit.
type benchmark struct {
	name  string
	rows  []string
	units []string
	cells map[[2]string][]float64 // by row and unit
}

// benchmarkTables makes a table of each benchmark, with the medians of its runs.
func benchmarkTables(out io.Reader) (string, error) {
	var all []*benchmark
	for reader := benchfmt.NewReader(out, "go test"); reader.Scan(); {
		switch r := reader.Result().(type) {
		case *benchfmt.Result:
			for _, v := range r.Values {
				if math.IsInf(v.Value, 0) || math.IsNaN(v.Value) {
					return "", fmt.Errorf("%s: %g %s", r.Name, v.Value, v.Unit)
				}
			}
			all = addResult(all, r)
		case *benchfmt.SyntaxError:
			return "", r
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

func addResult(all []*benchmark, r *benchfmt.Result) []*benchmark {
	base, parts := r.Name.Parts()
	row := ""
	for _, p := range parts {
		if p[0] == '/' { // not the number of processors
			again, _, _ := strings.Cut(string(p[1:]), "#") // Go appends "#01" to a name that comes again
			row += ", " + again
		}
	}
	i := slices.IndexFunc(all, func(b *benchmark) bool { return b.name == string(base) })
	if i < 0 {
		i = len(all)
		all = append(all, &benchmark{name: string(base), cells: map[[2]string][]float64{}})
	}
	all[i].add(strings.TrimPrefix(row, ", "), r.Values)
	return all
}

func (b *benchmark) add(row string, values []benchfmt.Value) {
	if !slices.Contains(b.rows, row) {
		b.rows = append(b.rows, row)
	}
	for _, v := range values {
		unit, value := v.Unit, v.Value
		if v.OrigUnit != "" {
			unit, value = v.OrigUnit, v.OrigValue
		}
		if !slices.Contains(b.units, unit) {
			b.units = append(b.units, unit)
		}
		at := [2]string{row, unit}
		b.cells[at] = append(b.cells[at], value)
	}
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
