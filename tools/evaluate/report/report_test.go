package report

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/mmapfilter/mmapfilter/tools/evaluate/picture"
)

// writeFixtures writes all fixtures and their page.
func writeFixtures(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for _, f := range fixtures() {
		if err := Write(dir, f, fixtureMachine); err != nil {
			t.Fatal(err)
		}
	}
	if err := Draw(dir, fixtureViewers()); err != nil {
		t.Fatal(err)
	}
	return dir
}

func read(t *testing.T, elem ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(elem...))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// An invalid figure gives a *FigureError that says why, and nothing of it is written.
func TestFigureError(t *testing.T) {
	for want, spoil := range map[string]func(f *Figure){
		"the name":            func(f *Figure) { f.Name = "../fig" },
		"the name is":         func(f *Figure) { f.Name = "" },
		"title, run":          func(f *Figure) { f.Title = "" },
		"title, run, command": func(f *Figure) { f.Run = "" },
		"command":             func(f *Figure) { f.Command = "" },
		"paper or ours":       func(f *Figure) { f.Paper = "" },
		"ours is missing":     func(f *Figure) { f.Ours = "" },
		"shows nothing":       func(f *Figure) { f.Plots, f.Tables = nil, nil },
		"is empty":            func(f *Figure) { f.Tables = []Table{{Caption: "T", Header: []string{"a"}}} },
		"table \"T\" is":      func(f *Figure) { f.Tables = []Table{{Caption: "T", Rows: [][]string{{"a"}}}} },
		"row 1 has 1 cells under 2": func(f *Figure) {
			f.Tables = []Table{{"T", []string{"a", "b"}, [][]string{{"1", "2"}, {"3"}}}}
		},
		"goes from 2 to 1":     func(f *Figure) { f.Plots[0].X = Axis{Min: 2, Max: 1} },
		"goes from 1 to NaN":   func(f *Figure) { f.Plots[0].X = Axis{Min: 1, Max: math.NaN()} },
		"goes from 0 to 1":     func(f *Figure) { f.Plots[0].Y = Axis{Max: 1, Log: true} },
		"has no series":        func(f *Figure) { f.Plots[0].Series = nil },
		"has a style":          func(f *Figure) { f.Plots[0].Series[0].Style = Bars + 1 },
		"of lines no names":    func(f *Figure) { f.Plots[0].Names = []string{"a"} },
		"bars has names":       func(f *Figure) { f.Plots[0].Series[0].Style = Bars },
		"has no points":        func(f *Figure) { f.Plots[0].Series[0].Points = nil },
		"not a number":         func(f *Figure) { f.Plots[0].Series[0].Points[3].Y = math.NaN() },
		"Inf, 1): not a":       func(f *Figure) { f.Plots[0].Series[0].Points[3] = Point{X: math.Inf(1), Y: 1} },
		"(0, 1): not above 0":  func(f *Figure) { f.Plots[0].X.Log = true; f.Plots[0].Series[0].Points[3] = Point{X: 0, Y: 1} },
		"(1, -1): not above 0": func(f *Figure) { f.Plots[0].Y = Axis{Log: true}; f.Plots[0].Series[0].Points[3] = Point{X: 1, Y: -1} },
		"no name has":          func(f *Figure) { f.Plots = fixtures()[2].Plots; f.Plots[0].Series[0].Points[0].X = 4 },
		"(-1, 5.1): no name":   func(f *Figure) { f.Plots = fixtures()[2].Plots; f.Plots[0].Series[0].Points[0].X = -1 },
		"from NaN to 1":        func(f *Figure) { f.Plots[0].X = Axis{Min: math.NaN(), Max: 1} },
		"0.5, 5.1): no name":   func(f *Figure) { f.Plots = fixtures()[2].Plots; f.Plots[0].Series[0].Points[0].X = 0.5 },
		"a bar below 0":        func(f *Figure) { f.Plots = fixtures()[2].Plots; f.Plots[0].Series[0].Points[0].Y = -1 },
		"bars on a":            func(f *Figure) { f.Plots = fixtures()[2].Plots; f.Plots[0].Y.Log = true },
	} {
		f := fixtures()[1]
		spoil(f)
		dir := filepath.Join(t.TempDir(), "new")
		err := Write(dir, f, fixtureMachine)
		if as := new(FigureError); !errors.As(err, &as) || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, not: %v", want, err)
		}
		if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%q: %v: it has written something", want, err)
		}
	}
}

// The CSV file has every point and every cell, and describes the run.
func TestCSV(t *testing.T) {
	f := fixtures()[2] // bars, and a table
	f.Notes = []string{"a note\nof two lines"}
	r := csv.NewReader(bytes.NewReader(f.csv(fixtureMachine)))
	r.Comment, r.FieldsPerRecord = '#', -1
	rows, err := r.ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	var want [][]string
	want = append(want, []string{"plot", "series", "style", "x label", "x", "y label", "y"})
	for _, s := range f.Plots[0].Series {
		for _, at := range s.Points {
			want = append(want, []string{"Construction", s.Name, "bars", "", f.Plots[0].Names[int(at.X)], "million keys per second", fmt.Sprint(at.Y)})
		}
	}
	want = append(append(want, f.Tables[0].Header), f.Tables[0].Rows...)
	if !reflect.DeepEqual(rows, want) {
		t.Errorf("%q, not %q", rows, want)
	}
	text := string(f.csv(fixtureMachine))
	for _, line := range []string{
		"# figure: " + f.Title, "# command: " + f.Command, "# run: " + f.Run, "# the paper: " + f.Paper, "# ours: " + f.Ours,
		"# note: a note of two lines", "# machine: " + fixtureMachine.String(), "# commit: 0123456789ab", "# date: 2026-01-31", "# table: Filters of 192 MiB",
	} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("no line %q", line)
		}
	}
	lines := fixtures()[1]
	if n := strings.Count(string(lines.csv(fixtureMachine)), ",measured,"); n != 3*3*10 {
		t.Errorf("%d points of 3 plots, 3 series, 10 points", n)
	}
}

func TestJSON(t *testing.T) {
	dir := writeFixtures(t)
	for _, f := range fixtures() {
		var got record
		if err := json.Unmarshal([]byte(read(t, dir, f.Name+".json")), &got); err != nil {
			t.Fatal(err)
		}
		if want := (record{*f, fixtureMachine}); !reflect.DeepEqual(got, want) {
			t.Errorf("%+v, not %+v", got, want)
		}
	}
}

// A picture states the question of its view and names its lines.
func TestPictures(t *testing.T) {
	dir := writeFixtures(t)
	for _, f := range fixtures() {
		views, err := fixtureViewers()[f.Name](f)
		if err != nil {
			t.Fatal(err)
		}
		for i, v := range views {
			name := f.Name
			if len(views) > 1 {
				name += fmt.Sprintf("-%d", i+1)
			}
			svg, err := v.Picture.SVG()
			if got := read(t, dir, name+".svg"); err != nil || got != string(svg) {
				t.Errorf("%s.svg is another picture: %v", name, err)
			}
			if !strings.Contains(string(svg), "<title id=\"title\">"+v.Question) {
				t.Errorf("%s.svg has not its question", name)
			}
		}
	}
	if read(t, dir, "fig2-1.svg") == read(t, dir, "fig2-2.svg") {
		t.Error("two panels are the same")
	}
}

// A failed write leaves the old files.
func TestWriteFails(t *testing.T) {
	dir := writeFixtures(t)
	before := read(t, dir, "size.json")
	if err := errors.Join(os.Remove(filepath.Join(dir, "size.csv")), os.Mkdir(filepath.Join(dir, "size.csv"), 0o777)); err != nil {
		t.Fatal(err)
	}
	f := fixtures()[0]
	f.Ours = "Another result."
	if err := Write(dir, f, fixtureMachine); err == nil {
		t.Fatal("no error")
	}
	if read(t, dir, "size.json") != before {
		t.Error("the figure is another one")
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*.part")); len(left) > 0 {
		t.Errorf("%q is left", left)
	}
}

// All views are on the page, each under its question, the table first and then in the order of the
// paper. Texts are no HTML, and tables are folded.
func TestPage(t *testing.T) {
	dir := writeFixtures(t)
	page := read(t, dir, pageName)
	at := 0
	for _, name := range []string{"table3", "fig2-1", "fig2-2", "fig2-3", "fig4", "size"} {
		i := strings.Index(page, `<img src="`+name+`.svg"`)
		if i < at {
			t.Errorf("%s is at %d, what comes before it at %d", name, i, at)
		}
		at = i
	}
	for _, text := range []string{"&lt;7&gt; in all.", "log m &amp; shrinks", "Lines &lt;all&gt;", "2026-01-31, A Processor", "commit 0123456789ab", "; 61 s.",
		"## Table 3: space and speed of construction, Construction?\n\nThe same.\n", "[fig4.csv](fig4.csv)"} {
		if !strings.Contains(page, text) {
			t.Errorf("it does not have %q", text)
		}
	}
	for i := range page {
		if strings.HasPrefix(page[i:], "\n\n| ") && strings.LastIndex(page[:i], "<details>") <= strings.LastIndex(page[:i], "</details>") {
			t.Error("a table is not folded away")
		}
	}
}

func TestPageErrors(t *testing.T) {
	if err := Draw(t.TempDir(), fixtureViewers()); !errors.Is(err, ErrNoFigure) {
		t.Error(err)
	}
	for want, spoil := range map[string]func(dir string) error{
		"unexpected end": func(dir string) error { return os.Truncate(filepath.Join(dir, "size.json"), 100) },
		"no experiment fig7": func(dir string) error {
			f := fixtures()[0]
			f.Name = "fig7"
			return Write(dir, f, fixtureMachine)
		},
		"no lines": func(dir string) error {
			f := fixtures()[0]
			f.Ours = "no lines"
			return Write(dir, f, fixtureMachine)
		},
		"view 1 lacks": func(dir string) error {
			f := fixtures()[0]
			f.Ours = "no caption"
			return Write(dir, f, fixtureMachine)
		},
		"viewer failed": func(dir string) error {
			f := fixtures()[0]
			f.Ours = "fail"
			return Write(dir, f, fixtureMachine)
		},
		"that of size": func(dir string) error {
			return os.Rename(filepath.Join(dir, "size.json"), filepath.Join(dir, "s.json"))
		},
		"the name": func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "other.json"), []byte(`{"Figure":{}}`), 0o666)
		},
	} {
		dir := writeFixtures(t)
		if err := errors.Join(os.WriteFile(filepath.Join(dir, "fig2-1.svg"), nil, 0o666), spoil(dir)); err != nil {
			t.Fatal(err)
		}
		before := read(t, dir, "README.md")
		viewers := fixtureViewers()
		all := viewers["size"]
		viewers["size"] = func(f *Figure) ([]View, error) {
			views, err := all(f)
			switch f.Ours {
			case "fail":
				err = errors.New("the viewer failed")
			case "no caption":
				views[0].Caption = ""
			case "no lines":
				views[0].Picture = &picture.Lines{X: Axis{Label: "x"}, Y: Axis{Label: "y"}}
			}
			return views, err
		}
		err := Draw(dir, viewers)
		if as := new(RecordError); !errors.As(err, &as) || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, not %v", want, err)
		}
		if read(t, dir, "README.md") != before || read(t, dir, "fig2-1.svg") != "" {
			t.Errorf("%q: the page or a picture is another one", want)
		}
	}
}
