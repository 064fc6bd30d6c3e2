package main

import (
	"fmt"
	"slices"
	"strings"
)

// A table is printed in Markdown.
type table struct {
	head []string
	rows [][]string
}

func newTable(head ...string) *table { return &table{head: head} }

func (t *table) row(cells ...string) { t.rows = append(t.rows, cells) }

func (t *table) String() string {
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

// print writes the table between blank lines.
func (s *session) print(t *table) { s.printf("\n%s\n", t) }

// median gives the middle of what was measured in rounds; of an even number, the
// upper one of the two in the middle.
func median[T ~int64 | float64](values []T) T {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Clone(values)
	slices.Sort(sorted)
	return sorted[len(sorted)/2]
}
