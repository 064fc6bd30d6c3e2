package report

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/mmapfilter/mmapfilter/tools/internal/machine"
)

// A record is the content of NAME.json. Pictures and page are made from it alone.
type record struct {
	Figure  Figure
	Machine machine.Machine
}

// A RecordError means that no page can be made with a NAME.json.
type RecordError struct {
	Path string
	Err  error
}

func (e *RecordError) Error() string { return fmt.Sprintf("figure in %s: %v", e.Path, e.Err) }
func (e *RecordError) Unwrap() error { return e.Err }

// Write writes the data of a figure to dir, which it creates: NAME.csv with all of it, and
// NAME.json, which Draw reads. An existing file is replaced as a whole or not at all. An
// invalid figure gives a *FigureError.
func Write(dir string, f *Figure, m machine.Machine) error {
	if err := f.check(); err != nil {
		return err
	}
	text, err := json.MarshalIndent(record{*f, m}, "", "\t")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	if err := writeFile(filepath.Join(dir, f.Name+".csv"), f.csv(m)); err != nil {
		return err
	}
	return writeFile(filepath.Join(dir, f.Name+".json"), append(text, '\n'))
}

// Read reads the data of a figure. It fails with a *RecordError.
func Read(dir, name string) (*Figure, machine.Machine, error) {
	path := filepath.Join(dir, name+".json")
	r, err := readRecord(path)
	if err != nil {
		return nil, machine.Machine{}, &RecordError{path, err}
	}
	return &r.Figure, r.Machine, nil
}

// readRecord reads a figure.
func readRecord(path string) (r record, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(text, &r); err != nil {
		return r, err
	}
	if err := r.Figure.check(); err != nil {
		return r, err
	}
	if r.Figure.Name+".json" != filepath.Base(path) {
		return r, fmt.Errorf("it is that of %s", r.Figure.Name)
	}
	return r, nil
}

// writeFile replaces a file, or leaves the old one.
func writeFile(path string, content []byte) error {
	part := path + ".part"
	err := os.WriteFile(part, content, 0o666)
	if err == nil {
		err = os.Rename(part, path)
	}
	if err != nil {
		return errors.Join(err, os.RemoveAll(part))
	}
	return nil
}

// csv formats the run in lines that begin with #; then the points of all plots, one a line;
// then each table below its caption.
func (f *Figure) csv(m machine.Machine) []byte {
	var out bytes.Buffer
	comment := func(name, text string) { fmt.Fprintf(&out, "# %s: %s\n", name, oneLine(text)) }
	comment("figure", f.Title)
	comment("command", f.Command)
	comment("run", f.Run)
	comment("the paper", f.Paper)
	comment("ours", f.Ours)
	for _, note := range f.Notes {
		comment("note", note)
	}
	comment("machine", m.String())
	comment("commit", m.CommitOrNot())
	comment("date", m.Day())
	w := csv.NewWriter(&out) // its errors are those of the buffer, which never fails
	if len(f.Plots) > 0 {
		w.Write([]string{"plot", "series", "style", "x label", "x", "y label", "y"})
	}
	for _, p := range f.Plots {
		for _, s := range p.Series {
			for _, at := range s.Points {
				x := number(at.X)
				if p.Names != nil {
					x = p.Names[int(at.X)]
				}
				w.Write([]string{p.Title, s.Name, s.Style.String(), p.X.Label, x, p.Y.Label, number(at.Y)})
			}
		}
	}
	w.Flush()
	for _, t := range f.Tables {
		comment("table", t.Caption)
		w.Write(t.Header)
		w.WriteAll(t.Rows)
	}
	return out.Bytes()
}

// number formats x as the shortest text that parses back to x.
func number(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
