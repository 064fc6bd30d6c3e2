// Package figures prints what the programs under tools measure: tables, and numbers
// with as many digits as they are worth.
package figures

import (
	"fmt"
	"slices"
	"strings"
)

// A Table is printed in Markdown.
type Table struct {
	head []string
	rows [][]string
}

// NewTable makes a table with a head and no rows.
func NewTable(head ...string) *Table { return &Table{head: head} }

// Row adds a row; cells that are missing are empty.
func (t *Table) Row(cells ...string) { t.rows = append(t.rows, cells) }

// String gives the table in Markdown.
func (t *Table) String() string {
	var b strings.Builder
	line := func(cells []string) {
		for i := range t.head {
			cell := ""
			if i < len(cells) {
				cell = strings.ReplaceAll(strings.ReplaceAll(cells[i], "|", `\|`), "\n", " ")
			}
			fmt.Fprintf(&b, "| %s ", cell)
		}
		b.WriteString("|\n")
	}
	line(t.head)
	b.WriteString(strings.Repeat("|---", len(t.head)) + "|\n")
	for _, r := range t.rows {
		line(r)
	}
	return b.String()
}

// Median gives the middle of what was measured in rounds; of an even number, the
// upper one of the two in the middle.
func Median[T ~int64 | float64](values []T) T {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Clone(values)
	slices.Sort(sorted)
	return sorted[len(sorted)/2]
}

// MedianRatio divides what two things gave in the same rounds, round by round, and
// gives the median.
func MedianRatio(of, by []float64) float64 {
	ratios := make([]float64, len(of))
	for i := range ratios {
		ratios[i] = of[i] / by[i]
	}
	return Median(ratios)
}
