package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// A standardOutput is the standard output of the command. It turns the error of a write into an
// outputError, and keeps the first one, for callers that write help and ignore errors.
type standardOutput struct {
	io.Writer
	err error
}

func (o *standardOutput) Write(p []byte) (int, error) {
	n, err := o.Writer.Write(p)
	if err != nil {
		err = &outputError{err}
		if o.err == nil {
			o.err = err
		}
	}
	return n, err
}

// An outputError is an error of a write to standard output.
type outputError struct{ error }

func (e *outputError) Unwrap() error { return e.error }

// A messageWriter is the standard error of the command. Each write is a line, or a part of one, which
// may have file names in it.
type messageWriter struct{ io.Writer }

func (w *messageWriter) Write(p []byte) (int, error) {
	line, ended := strings.CutSuffix(string(p), "\n")
	line = printable(line)
	if ended {
		line += "\n"
	}
	if _, err := io.WriteString(w.Writer, line); err != nil {
		return 0, err
	}
	return len(p), nil
}

// behind returns the writer that a standardOutput or a messageWriter wraps.
func behind(w any) any {
	switch w := w.(type) {
	case *standardOutput:
		return w.Writer
	case *messageWriter:
		return w.Writer
	}
	return w
}

// printable escapes, as in a Go string, the characters of a file name that would control a terminal
// and the bytes that are not UTF-8.
func printable(name string) string {
	var b strings.Builder
	for len(name) > 0 {
		r, n := utf8.DecodeRuneInString(name)
		text := name[:n]
		if !strconv.IsPrint(r) || r == utf8.RuneError && n == 1 {
			text = strconv.Quote(text)
			text = text[1 : len(text)-1]
		}
		b.WriteString(text)
		name = name[n:]
	}
	return b.String()
}

// A table prints names and values in two columns, the second one aligned.
type table struct{ w *tabwriter.Writer }

func newTable(w io.Writer) table { return table{tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)} }

func (t table) row(name, format string, args ...any) {
	fmt.Fprintf(t.w, "%s\t%s\n", name, fmt.Sprintf(format, args...))
}

func (t table) flush() error { return t.w.Flush() }

// A quiet is the flag --quiet, for a command that writes a file.
type quiet bool

func (q *quiet) addTo(flags *pflag.FlagSet) {
	flags.BoolVarP((*bool)(q), "quiet", "q", false, "print no summary and show no progress")
}

// out returns where the summary goes.
func (q quiet) out(cmd *cobra.Command) io.Writer {
	if q {
		return io.Discard
	}
	return cmd.OutOrStdout()
}

// progress returns the progress of the command.
func (q quiet) progress(cmd *cobra.Command) *progress {
	if q {
		return new(progress)
	}
	return newProgress(cmd.ErrOrStderr())
}

// A result is what a command prints. Its exported fields are a JSON object.
type result interface {
	print(w io.Writer) error
}

// An asJSON is the flag --json, for a command that prints a result.
type asJSON bool

func (j *asJSON) addTo(flags *pflag.FlagSet) {
	flags.BoolVar((*bool)(j), "json", false, "print a JSON object")
}

// print prints a result as the flag says.
func (j asJSON) print(w io.Writer, r result) error {
	if !j {
		return r.print(w)
	}
	e := newJSONEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

func newJSONEncoder(w io.Writer) *json.Encoder {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e
}
