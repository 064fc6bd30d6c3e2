package main

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
)

// A table prints names and values in two columns, the second one aligned.
type table struct{ w *tabwriter.Writer }

func newTable(w io.Writer) table { return table{tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)} }

func (t table) row(name, format string, args ...any) {
	fmt.Fprintf(t.w, "%s\t%s\n", name, fmt.Sprintf(format, args...))
}

func (t table) flush() error { return t.w.Flush() }

// printJSON prints a value with indentation.
func printJSON(w io.Writer, v any) error {
	e := newJSONEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

func newJSONEncoder(w io.Writer) *json.Encoder {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e
}
