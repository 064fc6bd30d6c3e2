package main

import (
	"fmt"
	"slices"
	"strings"
)

// A Table prints itself in Markdown.
type Table struct {
	head []string
	rows [][]string
}

// NewTable makes a table with a head and no rows.
func NewTable(head ...string) *Table { return &Table{head: head} }

// Row adds a row. Missing cells are empty.
func (t *Table) Row(cells ...string) { t.rows = append(t.rows, cells) }

func (t *Table) line(cells ...string) string {
	var b strings.Builder
	for i := range t.head {
		cell := ""
		if i < len(cells) {
			cell = strings.ReplaceAll(strings.ReplaceAll(cells[i], "|", `\|`), "\n", " ")
		}
		fmt.Fprintf(&b, "| %s ", cell)
	}
	b.WriteString("|\n")
	return b.String()
}

// String returns the table in Markdown.
func (t *Table) String() string {
	var b strings.Builder
	b.WriteString(t.line(t.head...))
	b.WriteString(strings.Repeat("|---", len(t.head)) + "|\n")
	for _, r := range t.rows {
		b.WriteString(t.line(r...))
	}
	return b.String()
}

// Median returns the middle value, or the upper of the two middle values if there is an even
// number of values.
func Median[T ~int64 | float64](values []T) T {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Clone(values)
	slices.Sort(sorted)
	return sorted[len(sorted)/2]
}

// MedianRatio divides two measurements round by round, and returns the median of the ratios.
func MedianRatio(of, by []float64) float64 {
	ratios := make([]float64, len(of))
	for i := range ratios {
		ratios[i] = of[i] / by[i]
	}
	return Median(ratios)
}
