package picture

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"image/color"
	"io"
	"math"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
)

// crowd returns a picture with the names of ten lines at one place, and one elsewhere.
func crowd() *Lines {
	p := &Lines{Title: "A crowd", X: Axis{Label: "size, MiB", Log: true}, Y: Axis{Label: "million lookups a second", Log: true}}
	for i := range 10 {
		p.Series = append(p.Series, Line{Name: fmt.Sprintf("line number %d, whose name is longer than a line", i), Points: []Point{{1, float64(i + 1)}, {1024, 2}}})
	}
	p.Series[0].Tone, p.Series[0].Kind = Blue, Emphasis
	p.Series[1].Tone = Orange
	p.Series = append(p.Series, Line{Name: "paper", Kind: Dashed, Points: []Point{{1, 9}, {900, 9}}}, Line{Kind: Dashed, Points: []Point{{1, 5}, {900, 5}}})
	return p
}

func bars() *Bars {
	return &Bars{Title: "Bars & more", Unit: "bits per key", Format: "%.2f", Paper: "%.1f", Rows: []Row{
		{Name: "compact", Value: 13.5, Tone: Blue},
		{Name: "packed", Value: 2, Paper: 12, Tone: Orange},
		{Name: "a filter whose name is longer than one line", Value: 12.5, Paper: 12.6},
		{Name: "nothing", Value: 0, Paper: 0.1},
		{Name: "more than the paper", Value: 14, Paper: 3},
	}}
}

// svgOf draws a picture.
func svgOf(t *testing.T, p Picture) string {
	t.Helper()
	svg, err := p.SVG()
	if err != nil {
		t.Fatal(err)
	}
	return string(svg)
}

// texts returns the texts of an SVG, which must be well-formed.
func texts(t *testing.T, svg string) (all []string) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(svg))
	in := ""
	for {
		token, err := d.Token()
		if err == io.EOF {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		switch token := token.(type) {
		case xml.StartElement:
			in = token.Name.Local
		case xml.CharData:
			if in == "text" {
				all = append(all, string(token))
			}
		case xml.EndElement:
			in = ""
		}
	}
}

// A picture names its axes and lines, and the same picture has the same bytes.
func TestTexts(t *testing.T) {
	p := crowd()
	svg := svgOf(t, p)
	all := strings.Join(texts(t, svg), " ")
	for _, want := range []string{p.X.Label, p.Y.Label, "paper", p.Series[0].Name, p.Series[9].Name, "1000"} {
		if !strings.Contains(all, want) {
			t.Errorf("no %q in %q", want, all)
		}
	}
	if again := svgOf(t, crowd()); again != svg {
		t.Error("the same picture is other bytes")
	}
	b := bars()
	svg = svgOf(t, b)
	all = strings.Join(texts(t, svg), " ")
	for _, want := range []string{b.Unit, "compact", "13.50", "packed", "2.00", "paper 12.0", "12.50"} {
		if !strings.Contains(all, want) {
			t.Errorf("no %q in %q", want, all)
		}
	}
	if !strings.Contains(svg, "<title id=\"title\">Bars &amp; more</title>") || !strings.Contains(svg, "packed 2.00, in the paper 12.0") {
		t.Error("no title, or no description")
	}
	if strings.Contains(all, "paper 0.0 ") {
		t.Error("a row without a value of the paper has one")
	}
}

var (
	classUsed     = regexp.MustCompile(`class="([a-z]+)`)
	classDeclared = regexp.MustCompile(`(?m)^\.([a-z]+)\{`)
	inline        = regexp.MustCompile(`(style|fill|stroke)="`)
)

// Every colour is a class that the style sheet defines for a light and for a dark ground.
func TestTwoGrounds(t *testing.T) {
	for _, p := range []Picture{crowd(), bars()} {
		svg := svgOf(t, p)
		light, dark, _ := strings.Cut(svg, "prefers-color-scheme:dark")
		dark, _, _ = strings.Cut(dark, "</style>")
		for _, sheet := range []string{light, dark} {
			declared := map[string]bool{}
			for _, m := range classDeclared.FindAllStringSubmatch(sheet, -1) {
				declared[m[1]] = true
			}
			for _, m := range classUsed.FindAllStringSubmatch(svg, -1) {
				if !declared[m[1]] {
					t.Errorf("class %s is not declared in %q", m[1], sheet)
				}
			}
		}
		if m := inline.FindString(svg); m != "" {
			t.Errorf("it has %s", m)
		}
	}
}

// A text that overlaps another, or is cut by an edge, is an error.
func TestPlaces(t *testing.T) {
	for _, c := range []struct {
		want  string
		texts []vg.Point
	}{
		{"the edge cuts", []vg.Point{{X: 85, Y: 50}}},
		{"the edge cuts", []vg.Point{{X: -1, Y: 50}}},
		{"the edge cuts", []vg.Point{{X: 10, Y: 95}}},
		{"the edge cuts", []vg.Point{{X: 10, Y: 1}}},
		{"is over", []vg.Point{{X: 10, Y: 50}, {X: 30, Y: 60}}},
		{"", []vg.Point{{X: 10, Y: 50}, {X: 10, Y: 30}}},
	} {
		want, texts := c.want, c.texts
		c := newCanvas(100, 100)
		s := style(ink, false)
		for _, at := range texts {
			c.FillString(s.Handler.Cache().Lookup(s.Font, textSize), at, "text")
		}
		_, err := c.svg("t", "d")
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", want, err)
		}
	}
}

var (
	barMark = regexp.MustCompile(`<path class="si" stroke-width="3" d="M([0-9.]+) ([0-9.]+)L[0-9.]+ ([0-9.]+)"`)
	barText = regexp.MustCompile(`<text class="[^"]*" x="([0-9.]+)" y="([0-9.]+)" textLength="([0-9.]+)"`)
)

// The mark of the paper's value crosses no text.
func TestMarksOfBars(t *testing.T) {
	numbers := func(words []string) (x [3]float64) {
		for i, w := range words[1:] {
			if _, err := fmt.Sscan(w, &x[i]); err != nil {
				t.Fatal(err)
			}
		}
		return x
	}
	for value := 0.0; value < 20; value += 0.25 { // on both sides of the mark, near and far
		p := &Bars{Unit: "u", Format: "%.2f", Paper: "%.2f", Rows: []Row{{Name: "a", Value: value, Paper: 10}, {Name: "b", Value: 20}}}
		svg := svgOf(t, p)
		marks, texts := barMark.FindAllStringSubmatch(svg, -1), barText.FindAllStringSubmatch(svg, -1)
		if len(marks) != 1 || len(texts) != 6 {
			t.Fatalf("%d marks, %d texts", len(marks), len(texts))
		}
		mark := numbers(marks[0])
		for _, words := range texts {
			text := numbers(words)
			if above, below := min(mark[1], mark[2]), max(mark[1], mark[2]); text[1] > above && text[1] < below && text[0] < mark[0]+2 && text[0]+text[2] > mark[0]-2 {
				t.Errorf("a bar of %v: the mark at %v goes through the text from %v to %v", value, mark[0], text[0], text[0]+text[2])
			}
		}
	}
}

// An unsupported drawing operation is an error, not a wrong picture.
func TestCanvasErrors(t *testing.T) {
	for name, do := range map[string]func(c *canvas){
		"turn":    func(c *canvas) { c.Rotate(1) },
		"stretch": func(c *canvas) { c.Scale(2, 2) },
		"images":  func(c *canvas) { c.DrawImage(vg.Rectangle{}, nil) },
		"no tone": func(c *canvas) { c.SetColor(color.Black) },
		"arcs":    func(c *canvas) { var p vg.Path; p.Arc(vg.Point{}, 1, 0, 1); c.Fill(p) },
		"curves":  func(c *canvas) { var p vg.Path; p.QuadTo(vg.Point{}, vg.Point{}); c.Fill(p) },
	} {
		c := newCanvas(10, 10)
		do(c)
		if _, err := c.svg("t", "d"); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Translate moves coordinates, and Pop restores the state before.
func TestCanvasMoves(t *testing.T) {
	c := newCanvas(10, 10)
	c.Push()
	c.SetColor(Blue)
	c.Translate(vg.Point{X: 1, Y: 2})
	var p vg.Path
	p.Move(vg.Point{X: 1, Y: 1})
	p.Line(vg.Point{X: 2.04, Y: 1})
	c.Stroke(p)
	c.Pop()
	c.Stroke(p)
	svg, err := c.svg("t", "d")
	if err != nil || !bytes.Contains(svg, []byte("<path class=\"sb\" stroke-width=\"1\" d=\"M2 7L3 7\"/>\n<path class=\"si\" stroke-width=\"1\" d=\"M1 9L2 9\"/>\n")) {
		t.Errorf("%v: %s", err, svg)
	}
}

func TestErrors(t *testing.T) {
	for want, spoil := range map[string]func(p *Lines, b *Bars){
		"goes from 2 to 1":   func(p *Lines, _ *Bars) { p.X.Min, p.X.Max = 2, 1 },
		"goes from 1 to NaN": func(p *Lines, _ *Bars) { p.X.Min, p.X.Max = 1, math.NaN() },
		"goes from 0 to 1":   func(p *Lines, _ *Bars) { p.Y.Max = 1 },
		"no label":           func(p *Lines, _ *Bars) { p.Y.Label = "" },
		"no lines":           func(p *Lines, _ *Bars) { p.Series = nil },
		"no tone of a line":  func(p *Lines, _ *Bars) { p.Series[2].Tone = ink },
		"no kind":            func(p *Lines, _ *Bars) { p.Series[2].Kind = Stems + 1 },
		"no foot":            func(p *Lines, _ *Bars) { p.Series[2].Kind, p.Y.Log = Stems, true },
		"has no name":        func(p *Lines, _ *Bars) { p.Series[2].Name = "" },
		"no points":          func(p *Lines, _ *Bars) { p.Series[2].Points = nil },
		"colour of another":  func(p *Lines, _ *Bars) { p.Series[2].Tone = Blue },
		"(1, NaN)":           func(p *Lines, _ *Bars) { p.Series[2].Points[0].Y = math.NaN() },
		"(0, 3)":             func(p *Lines, _ *Bars) { p.Series[2].Points[0].X = 0 },
		"(1, -3)":            func(p *Lines, _ *Bars) { p.Series[2].Points[0].Y = -3 },
		"no rows":            func(_ *Lines, b *Bars) { b.Rows = nil },
		"no unit":            func(_ *Lines, b *Bars) { b.Unit = "" },
		"row has no name":    func(_ *Lines, b *Bars) { b.Rows[1].Name = "" },
		"-1, 12":             func(_ *Lines, b *Bars) { b.Rows[1].Value = -1 },
		"+Inf in the":        func(_ *Lines, b *Bars) { b.Rows[1].Paper = math.Inf(1) },
		"no tone of a bar":   func(_ *Lines, b *Bars) { b.Rows[1].Tone = muted },
	} {
		p, b := crowd(), bars()
		spoil(p, b)
		_, err := p.SVG()
		if err == nil {
			_, err = b.SVG()
		}
		if as := new(Error); !errors.As(err, &as) || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, not: %v", want, err)
		}
	}
}

// TestStems: a stem goes from the axis to its point and back, and has no mark.
func TestStems(t *testing.T) {
	p := &Lines{X: Axis{Label: "x"}, Y: Axis{Label: "y"}, Series: []Line{{Name: "a", Kind: Stems, Tone: Blue, Points: []Point{{1, 2}, {2, 4}}}}}
	svg, err := p.SVG()
	if err != nil {
		t.Fatal(err)
	}
	path := regexp.MustCompile(`stroke-width="0\.8" d="M(\S+) (\S+)L(\S+) (\S+)L(\S+) (\S+)L(\S+) (\S+)L(\S+) (\S+)L(\S+) (\S+)"`).FindSubmatch(svg)
	if path == nil {
		t.Fatalf("no path of two stems: %s", svg)
	}
	at := make([]string, len(path))
	for i, b := range path {
		at[i] = string(b)
	}
	foot := at[2]
	if at[1] != at[3] || at[3] != at[5] || at[7] != at[9] || at[9] != at[11] || at[6] != foot || at[8] != foot || at[12] != foot || at[4] == foot || at[10] == foot {
		t.Errorf("the path is %s", at[0])
	}
	p.Series[0].Kind = Plain
	marked, err := p.SVG()
	if err != nil {
		t.Fatal(err)
	}
	if plain, stems := bytes.Count(marked, []byte("Z\"")), bytes.Count(svg, []byte("Z\"")); stems != 0 || plain != 2 {
		t.Errorf("%d marks of stems, and %d of a line", stems, plain)
	}
}

// One point, or one row, is enough for a picture.
func TestSmallPictures(t *testing.T) {
	x, y := Axis{Label: "x"}, Axis{Label: "y"}
	logX, logY := Axis{Label: "x", Log: true}, Axis{Label: "y", Log: true}
	for _, p := range []Picture{
		&Lines{X: x, Y: y, Series: []Line{{Name: "a", Points: []Point{{0, 0}}}}},
		&Lines{X: logX, Y: logY, Series: []Line{{Name: "a", Points: []Point{{3, 3}}, Kind: Dashed}}},
		&Lines{X: x, Y: y, Series: []Line{{Name: "a", Points: []Point{{1, -5}, {2, 5}}}}},
		&Bars{Unit: "u", Format: "%.1f", Paper: "%.1f", Rows: []Row{{Name: "a"}}},
	} {
		svgOf(t, p)
	}
}

// Labels do not overlap, and keep within their bounds and in their order. They are where they
// want to be if nothing is in the way.
func TestSpread(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		spans := make([]*span, 1+rng.IntN(8))
		for i := range spans {
			spans[i] = &span{want: vg.Length(rng.Float64() * 200), height: vg.Length(10 + rng.IntN(3)*10)}
		}
		spread(spans, -20, 240)
		free := true
		for i, a := range spans {
			if a.at-a.height/2 < -20.001 || a.at+a.height/2 > 240.001 {
				t.Fatalf("%+v is outside", a)
			}
			for _, b := range spans[:i] {
				if d := (a.at - b.at).Points(); math.Abs(d) < ((a.height+b.height)/2).Points()-1e-6 {
					t.Fatalf("%+v and %+v overlap", a, b)
				} else if a.want != b.want && (d > 0) != (a.want > b.want) {
					t.Fatalf("%+v and %+v have changed places", a, b)
				}
				free = free && math.Abs((a.want-b.want).Points()) >= ((a.height+b.height)/2).Points()
			}
			free = free && a.want-a.height/2 >= -20 && a.want+a.height/2 <= 240
		}
		for _, s := range spans {
			if free && math.Abs((s.at-s.want).Points()) > 1e-6 {
				t.Fatalf("%+v is moved for nothing", s)
			}
		}
	}
}

func TestWrap(t *testing.T) {
	const words = "the quick fox and a-word-that-is-longer-than-a-line-because-it-is-a-path-without-a-space jump"
	s := style(ink, true)
	for width := s.Width("m"); width < 2*s.Width(words); width *= 1.3 {
		lines := wrap(words, s, width)
		for _, l := range lines {
			if s.Width(l) > width {
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
		{Axis{Ticks: []Tick{{2, "two"}, {3, ""}}}, 1, 4, "two"},
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
	// A vertical axis begins at 0, or, logarithmic, a little below the points.
	p := crowd()
	p.Y.Log = false
	if pl, err := p.plot(); err != nil || pl.Y.Min != 0 || pl.Y.Max != 10 {
		t.Errorf("%v, %v", pl.Y, err)
	}
	if pl, err := crowd().plot(); err != nil || pl.Y.Min >= 1 || pl.Y.Min < 0.9 {
		t.Errorf("%v, %v", pl.Y, err)
	}
}
