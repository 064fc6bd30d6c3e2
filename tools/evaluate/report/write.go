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
)

// A record is what NAME.json holds, and all that the page is made from.
type record struct {
	Figure  Figure
	Machine Machine
}

// Write writes the files of a figure to dir, which it makes: NAME.csv with all
// data; NAME.svg and NAME.png for its plot, or NAME-1.svg, NAME-2.svg and so on
// for several; and NAME.json, from which Page goes on. Files that were there are
// replaced, each whole or not at all, and only when everything could be drawn. A
// figure that makes no sense is a *FigureError.
func Write(dir string, f *Figure, m Machine) error {
	if err := f.check(); err != nil {
		return err
	}
	type file struct {
		name    string
		content []byte
	}
	files := []file{{f.Name + ".csv", f.csv(m)}}
	for i := range f.Plots {
		svg, png, err := f.draw(i)
		if err != nil {
			return fmt.Errorf("draw %s: %w", f.picture(i), err)
		}
		files = append(files, file{f.picture(i) + ".svg", svg}, file{f.picture(i) + ".png", png})
	}
	text, err := json.MarshalIndent(record{*f, m}, "", "\t")
	if err != nil {
		return err
	}
	files = append(files, file{f.Name + ".json", append(text, '\n')})
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	for _, file := range files {
		if err := writeFile(filepath.Join(dir, file.name), file.content); err != nil {
			return err
		}
	}
	return nil
}

// picture is the stem of the files of a plot.
func (f *Figure) picture(plot int) string {
	if len(f.Plots) == 1 {
		return f.Name
	}
	return fmt.Sprintf("%s-%d", f.Name, plot+1)
}

// writeFile replaces a file, or leaves what was there.
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

// csv writes what was run, in lines that begin with #; the points of all plots, a
// line each; then each table below its caption.
func (f *Figure) csv(m Machine) []byte {
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
	comment("date", m.Day())
	w := csv.NewWriter(&out) // its errors are those of the buffer, which has none
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

// number is the shortest that reads back as x.
func number(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
