package report

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"image/png"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
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
	if err := Page(dir); err != nil {
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

// A figure that cannot be shown is a *FigureError that says why, and nothing is
// written of it.
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
		"Inf, 1): not a":       func(f *Figure) { f.Plots[0].Series[0].Points[3] = Point{math.Inf(1), 1} },
		"(0, 1): not above 0":  func(f *Figure) { f.Plots[0].X.Log = true; f.Plots[0].Series[0].Points[3] = Point{0, 1} },
		"(1, -1): not above 0": func(f *Figure) { f.Plots[0].Y = Axis{Log: true}; f.Plots[0].Series[0].Points[3] = Point{1, -1} },
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

// The CSV file has every point and every cell, and says what was run.
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
		"# note: a note of two lines", "# machine: " + fixtureMachine.String(), "# date: 2026-01-31", "# table: Filters of 192 MiB",
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

// svgTexts are the texts of a picture; each must have its width.
func svgTexts(t *testing.T, picture string) (texts []string) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(picture))
	in, width := false, false
	for {
		token, err := d.Token()
		if err == io.EOF {
			return texts
		}
		if err != nil {
			t.Fatal(err)
		}
		switch token := token.(type) {
		case xml.StartElement:
			in, width = token.Name.Local == "text", false
			for _, a := range token.Attr {
				width = width || a.Name.Local == "textLength"
			}
		case xml.CharData:
			if in {
				texts = append(texts, string(token))
				if !width {
					t.Errorf("%q has no width", token)
				}
			}
		case xml.EndElement:
			in = false
		}
	}
}

// A picture says what was run, names its axes and series, and shows each series in
// its colour.
func TestPictures(t *testing.T) {
	dir := writeFixtures(t)
	for _, f := range fixtures() {
		for i, p := range f.Plots {
			stem := f.picture(i)
			all := strings.Join(svgTexts(t, read(t, dir, stem+".svg")), " ")
			want := []string{f.Title, f.Run, p.Title, p.X.Label, p.Y.Label}
			for _, s := range p.Series {
				want = append(want, s.Name)
			}
			for _, text := range append(want, p.Names...) {
				if !strings.Contains(all, text) {
					t.Errorf("%s.svg does not say %q", stem, text)
				}
			}
			image, err := png.Decode(strings.NewReader(read(t, dir, stem+".png")))
			if err != nil {
				t.Fatal(err)
			}
			pixels := pixelsOf(image, image.Bounds())
			for j := range p.Series {
				if n := pixels[palette[j]]; n < 100 {
					t.Errorf("%s.png: %d pixels of series %d", stem, n, j)
				}
			}
		}
	}
	if read(t, dir, "fig2-1.svg") == read(t, dir, "fig2-2.svg") {
		t.Error("two panels are the same")
	}
}

// What cannot be written leaves what was there.
func TestWriteFails(t *testing.T) {
	dir := writeFixtures(t)
	before := read(t, dir, "size.json")
	if err := errors.Join(os.Remove(filepath.Join(dir, "size.svg")), os.Mkdir(filepath.Join(dir, "size.svg"), 0o777)); err != nil {
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

// One point, one value and one name are enough for a picture.
func TestSmallPlots(t *testing.T) {
	f := fixtures()[0]
	for _, p := range []Plot{
		{Series: []Series{{Points: []Point{{0, 0}}}}},
		{X: Axis{Log: true}, Y: Axis{Log: true}, Series: []Series{{Points: []Point{{3, 3}}, Style: Formula}}},
		{X: Axis{Log: true}, Series: []Series{{Points: []Point{{1e-300, 5}, {1e300, 5}}, Style: Marks}}},
		{Names: []string{"a"}, Series: []Series{{Points: []Point{{0, 0}}, Style: Bars}}},
		{Names: []string{"a", "b"}, Y: Axis{Max: 9}, Series: []Series{{Points: []Point{{1, 5}}, Style: Bars}}},
	} {
		f.Plots = []Plot{p}
		if err := Write(t.TempDir(), f, fixtureMachine); err != nil {
			t.Errorf("%+v: %v", p, err)
		}
	}
}

func TestWrap(t *testing.T) {
	const words = "the quick fox and a-word-that-is-longer-than-a-line-because-it-is-a-path-without-a-space jump"
	for width := titleStyle.Width("m"); width < 2*titleStyle.Width(words); width *= 1.3 {
		lines := wrap(words, titleStyle, width)
		for _, l := range lines {
			if titleStyle.Width(l) > width {
				t.Errorf("%q is wider than %v", l, width)
			}
		}
		if got := strings.Join(lines, ""); strings.ReplaceAll(got, " ", "") != strings.ReplaceAll(words, " ", "") {
			t.Errorf("%v: %q", width, got)
		}
	}
}

func TestTicks(t *testing.T) {
	for _, c := range []struct {
		axis      Axis
		low, high float64
		want      string
	}{
		{Axis{}, 0, 1, "0 0.2 0.4 0.6 0.8 1"},
		{Axis{}, 2, 20, "5 10 15 20"},
		{Axis{}, -1, 1, "-1 -0.5 0 0.5 1"},
		{Axis{}, 0, 0.3, "0 0.05 0.1 0.15 0.2 0.25 0.3"},
		{Axis{}, 0, 5e6, "0 1e6 2e6 3e6 4e6 5e6"},
		{Axis{}, 0, 7, "0 2 4 6"},
		{Axis{Log: true}, 1, 1000, "1 10 100 1000"},
		{Axis{Log: true}, 9, 70, "10 20 50"},
		{Axis{Log: true}, 2.1, 2.5, "2.1 2.2 2.3 2.4 2.5"},
		{Axis{Log: true}, 1e-9, 1, "1e-8 1e-6 0.0001 0.01 1"},
	} {
		var labels []string
		for _, tick := range c.axis.ticker().Ticks(c.low, c.high) {
			if tick.Label != "" {
				labels = append(labels, tick.Label)
			}
			if tick.Value < c.low-1e-9 || tick.Value > c.high+1e-9 {
				t.Errorf("%v to %v: a tick at %v", c.low, c.high, tick.Value)
			}
		}
		if got := strings.Join(labels, " "); got != c.want {
			t.Errorf("%v to %v: %q, not %q", c.low, c.high, got, c.want)
		}
	}
	if _, ok := (Axis{Log: true}).scale().(plot.LogScale); !ok {
		t.Error("a logarithmic axis has no logarithmic scale")
	}
}

func TestRange(t *testing.T) {
	for _, c := range []struct {
		axis      Axis
		points    []float64
		low, high float64
	}{
		{Axis{}, []float64{3, 1, 2}, 1, 3},
		{Axis{Max: 9}, []float64{3, 1, 2}, 0, 9},
		{Axis{}, []float64{5}, 4, 6},
		{Axis{Log: true}, []float64{4, 4}, 2, 8},
	} {
		if low, high := c.axis.between(c.points); low != c.low || high != c.high {
			t.Errorf("%+v of %v: %v to %v", c.axis, c.points, low, high)
		}
	}
}

// All figures stand on the page in the order of the paper, and it needs nothing
// from elsewhere.
func TestPage(t *testing.T) {
	dir := writeFixtures(t)
	page := read(t, dir, "index.html")
	at := 0
	for _, name := range []string{"fig2", "fig4", "table3", "size"} {
		i := strings.Index(page, `<section id="`+name+`"`)
		if i < at {
			t.Errorf("%s is at %d, what comes before it at %d", name, i, at)
		}
		at = i
	}
	for _, text := range []string{"<script", "http:", "https:", "//", "url(", "@import"} {
		if strings.Contains(page, text) {
			t.Errorf("it has %q", text)
		}
	}
	for _, text := range []string{"&lt;7&gt; in all.", "log m &amp; shrinks", `scope="col"`, `scope="row"`, `lang="en"`, "Run on 2026-01-31: " + "A Processor"} {
		if !strings.Contains(page, text) {
			t.Errorf("it does not have %q", text)
		}
	}
}

func TestPageErrors(t *testing.T) {
	if err := Page(t.TempDir()); !errors.Is(err, ErrNoFigure) {
		t.Error(err)
	}
	for want, spoil := range map[string]func(dir string) error{
		"unexpected end": func(dir string) error { return os.Truncate(filepath.Join(dir, "size.json"), 100) },
		"fig4.svg":       func(dir string) error { return os.Remove(filepath.Join(dir, "fig4.svg")) },
		"fig2-3.png":     func(dir string) error { return os.Remove(filepath.Join(dir, "fig2-3.png")) },
		"that of size": func(dir string) error {
			return os.Rename(filepath.Join(dir, "size.json"), filepath.Join(dir, "s.json"))
		},
		"the name": func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "other.json"), []byte(`{"Figure":{}}`), 0o666)
		},
	} {
		dir := writeFixtures(t)
		before := read(t, dir, "index.html")
		if err := spoil(dir); err != nil {
			t.Fatal(err)
		}
		err := Page(dir)
		if as := new(RecordError); !errors.As(err, &as) || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, not %v", want, err)
		}
		if read(t, dir, "index.html") != before {
			t.Errorf("%q: the page is another one", want)
		}
	}
}

func TestMachine(t *testing.T) {
	if got, want := (Machine{Processor: "P", Cores: 1, System: "S", Go: "G"}).String(), "P, 1 core; memory unknown; S; G"; got != want {
		t.Errorf("%q, not %q", got, want)
	}
	if got, want := fixtureMachine.String(), fixtureMachine.Processor+", 2 cores; 8.0 GiB of memory; Linux 6.1.0-amd64; go1.24.0"; got != want {
		t.Errorf("%q, not %q", got, want)
	}
	m := ThisMachine()
	if m.Processor == "" || m.Cores < 1 || m.System == "" || m.Go == "" || m.Date.IsZero() {
		t.Errorf("%+v", m)
	}
	if _, err := os.Stat("/proc/meminfo"); err == nil && (m.MemoryBytes < 64<<20 || !strings.HasPrefix(m.System, "Linux ")) {
		t.Errorf("%+v", m)
	}
}

// Axes go where they are told, formulas have dashes and other series marks that
// differ, and bars lie in their rows.
func TestDrawing(t *testing.T) {
	lines := &picture{plot: newPlot()}
	p := fixtures()[3].Plots[0]
	p.X.Max = 30
	p.Series[5].Style = Measured
	if err := lines.addLines(p); err != nil {
		t.Fatal(err)
	}
	if _, ok := lines.plot.Y.Scale.(plot.LogScale); !ok || lines.plot.X.Min != 0 || lines.plot.X.Max != 30 {
		t.Errorf("%T, %v to %v", lines.plot.Y.Scale, lines.plot.X.Min, lines.plot.X.Max)
	}
	seen := map[string]bool{}
	for _, e := range lines.legend {
		l := e.thumbnails[0].(*plotter.Line)
		look := fmt.Sprint(l.Dashes)
		if len(e.thumbnails) > 1 {
			look = fmt.Sprintf("%T", e.thumbnails[1].(*plotter.Scatter).Shape)
		}
		if seen[look] || look == "[]" {
			t.Errorf("%s: %s", e.name, look)
		}
		seen[look] = true
	}

	bars := &picture{plot: newPlot()}
	if err := bars.addBars(fixtures()[2].Plots[0]); err != nil {
		t.Fatal(err)
	}
	for i, row := range []float64{1, 0} { // of the last bar of each series, counted from below
		if got := bars.legend[i].thumbnails[0].(*plotter.BarChart).XMin; got != row {
			t.Errorf("series %d: a bar in row %v, not %v", i, got, row)
		}
	}
	if got := bars.plot.X.Max; got <= 5.1 {
		t.Errorf("the longest bar of 5.1 has room up to %v", got)
	}
}
