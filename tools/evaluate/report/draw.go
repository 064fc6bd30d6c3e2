package report

import (
	"bytes"
	"image/color"
	"math"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

// A picture is as wide as a phone is, in points of 1/72 inch, so that its text can
// be read there; on a larger screen it grows.
const (
	pictureWidth = vg.Length(280)
	margin       = vg.Length(6)
	textWidth    = pictureWidth - 2*margin
	linesHeight  = vg.Length(180) // of a plot of lines, with its axes
	rowHeight    = vg.Length(13)  // of a bar
	rowGap       = vg.Length(7)
	axisHeight   = vg.Length(40) // below the rows of bars
	thumbnail    = vg.Length(26)
	pngDPI       = 216
)

// palette are colours that most colour-blind people can tell apart, of Okabe and
// Ito, "Color Universal Design" (2008), those that contrast most with white first.
// Its yellow contrasts too little. Seven colours and eight marks: 56 series look
// different.
var palette = []color.RGBA{
	{0x00, 0x72, 0xB2, 0xFF}, // blue
	{0xD5, 0x5E, 0x00, 0xFF}, // vermillion
	{0x00, 0x9E, 0x73, 0xFF}, // bluish green
	{0xCC, 0x79, 0xA7, 0xFF}, // reddish purple
	{0x00, 0x00, 0x00, 0xFF}, // black
	{0xE6, 0x9F, 0x00, 0xFF}, // orange
	{0x56, 0xB4, 0xE9, 0xFF}, // sky blue
}

var marks = []draw.GlyphDrawer{
	draw.CircleGlyph{}, draw.BoxGlyph{}, draw.PyramidGlyph{}, draw.RingGlyph{},
	draw.SquareGlyph{}, draw.TriangleGlyph{}, draw.CrossGlyph{}, draw.PlusGlyph{},
}

var dashes = [][]vg.Length{{6, 2}, {2, 2}, {9, 2, 2, 2}, {4, 4}, {9, 2, 2, 2, 2, 2}}

var (
	titleStyle = textStyle(11, true)
	panelStyle = textStyle(10, true)
	plainStyle = textStyle(9.5, false)
)

// textStyle is a face of Liberation Sans, which is as wide as Arial and Helvetica.
func textStyle(size float64, bold bool) text.Style {
	f := font.Font{Typeface: "Liberation", Variant: "Sans", Size: font.Length(size)}
	if bold {
		f.Weight = 3 // bold, as golang.org/x/image/font counts
	}
	return text.Style{Color: color.Black, Font: f, XAlign: text.XLeft, YAlign: text.YTop, Handler: plot.DefaultTextHandler}
}

// A line of text above or below the plot.
type line struct {
	text  string
	style text.Style
}

// A legendEntry is the sample of a series and its name.
type legendEntry struct {
	thumbnails []plot.Thumbnailer
	name       string
}

// A picture is a plot with text above it that says what was run, and the names of
// its series below it, where they hide nothing.
type picture struct {
	above  []line
	yLabel []string // above the vertical axis: a label of any length has room there
	plot   *plot.Plot
	height vg.Length // of the plot
	legend []legendEntry
}

// draw draws a plot of the figure.
func (f *Figure) draw(i int) (svg, png []byte, err error) {
	p := f.Plots[i]
	pic := &picture{plot: newPlot()}
	pic.add(f.Title, titleStyle)
	if p.Title != f.Title {
		pic.add(p.Title, panelStyle)
	}
	pic.add(f.Run, plainStyle)
	if p.Names != nil {
		err = pic.addBars(p)
	} else {
		err = pic.addLines(p)
	}
	if err != nil {
		return nil, nil, err
	}
	height := pic.totalHeight()
	vector := &svgCanvas{Canvas: vgsvg.New(pictureWidth, height)}
	pic.drawTo(draw.New(vector))
	pixels := vgimg.NewWith(vgimg.UseWH(pictureWidth, height), vgimg.UseDPI(pngDPI))
	pic.drawTo(draw.New(pixels))
	if svg, err = vector.svg(); err != nil {
		return nil, nil, err
	}
	var image bytes.Buffer
	if _, err := (vgimg.PngCanvas{Canvas: pixels}).WriteTo(&image); err != nil {
		return nil, nil, err
	}
	return svg, image.Bytes(), nil
}

// add puts a text above the plot, in as many lines as it takes.
func (pic *picture) add(words string, style text.Style) {
	for _, l := range wrap(words, style, textWidth) {
		pic.above = append(pic.above, line{l, style})
	}
}

func newPlot() *plot.Plot {
	p := plot.New()
	p.BackgroundColor = nil
	for _, axis := range []*plot.Axis{&p.X, &p.Y} {
		axis.Label.TextStyle.Font = plainStyle.Font
		axis.Tick.Label.Font = plainStyle.Font
	}
	grid := plotter.NewGrid()
	grid.Vertical.Color, grid.Horizontal.Color = color.Gray{0xDD}, color.Gray{0xDD}
	p.Add(grid)
	return p
}

// addLines adds the series of p, a colour each.
func (pic *picture) addLines(p Plot) error {
	pic.height = linesHeight
	pic.yLabel = wrap(p.Y.Label, plainStyle, textWidth)
	pic.plot.X.Label.Text = strings.Join(wrap(p.X.Label, plainStyle, textWidth), "\n")
	pic.plot.X.Scale, pic.plot.X.Tick.Marker = p.X.scale(), p.X.ticker()
	pic.plot.Y.Scale, pic.plot.Y.Tick.Marker = p.Y.scale(), p.Y.ticker()
	var xs, ys []float64
	formulas, marked := 0, 0
	for i, s := range p.Series {
		points := make(plotter.XYs, len(s.Points))
		for j, at := range s.Points {
			points[j] = plotter.XY{X: at.X, Y: at.Y}
			xs, ys = append(xs, at.X), append(ys, at.Y)
		}
		l, scatter, err := plotter.NewLinePoints(points)
		if err != nil {
			return err
		}
		colour := palette[i%len(palette)]
		l.Color, l.Width = colour, 1.5
		scatter.GlyphStyle = draw.GlyphStyle{Color: colour, Radius: 3, Shape: marks[marked%len(marks)]}
		entry := legendEntry{name: s.Name}
		if s.Style == Formula {
			l.Dashes = dashes[formulas%len(dashes)]
			formulas++
		} else {
			marked++
		}
		if s.Style != Marks {
			pic.plot.Add(l)
			entry.thumbnails = append(entry.thumbnails, l)
		}
		if s.Style != Formula {
			pic.plot.Add(scatter)
			entry.thumbnails = append(entry.thumbnails, scatter)
		}
		pic.legend = append(pic.legend, entry)
	}
	// Adding a series has moved these.
	pic.plot.X.Min, pic.plot.X.Max = p.X.between(xs)
	pic.plot.Y.Min, pic.plot.Y.Max = p.Y.between(ys)
	return nil
}

// addBars adds a bar of each series to each row, and its length in figures. In
// grey every second series is lighter.
func (pic *picture) addBars(p Plot) error {
	rows, series := len(p.Names), len(p.Series)
	pic.height = vg.Length(rows)*(vg.Length(series)*rowHeight+rowGap) + axisHeight
	pic.plot.X.Label.Text = strings.Join(wrap(p.Y.Label, plainStyle, textWidth), "\n")
	longest := 0.0
	for i, s := range p.Series {
		colour := palette[i%len(palette)]
		fill := colour
		if i%2 == 1 {
			fill = lighter(colour)
		}
		offset := (vg.Length(series-1)/2 - vg.Length(i)) * rowHeight
		var bar *plotter.BarChart
		var ends plotter.XYLabels
		for _, at := range s.Points {
			row := float64(rows - 1 - int(at.X)) // they are counted from below
			longest = max(longest, at.Y)
			var err error
			if bar, err = plotter.NewBarChart(plotter.Values{at.Y}, rowHeight-2); err != nil {
				return err
			}
			bar.Horizontal, bar.XMin, bar.Offset = true, row, offset
			bar.Color, bar.LineStyle = fill, draw.LineStyle{Color: colour, Width: 1}
			pic.plot.Add(bar)
			ends.XYs = append(ends.XYs, plotter.XY{X: at.Y, Y: row})
			ends.Labels = append(ends.Labels, label(at.Y))
		}
		numbers, err := plotter.NewLabels(ends)
		if err != nil {
			return err
		}
		for j := range numbers.TextStyle {
			numbers.TextStyle[j].Font = plainStyle.Font
			numbers.TextStyle[j].YAlign = text.YCenter
		}
		numbers.Offset = vg.Point{X: 3, Y: offset}
		pic.plot.Add(numbers)
		pic.legend = append(pic.legend, legendEntry{[]plot.Thumbnailer{bar}, s.Name})
	}
	names := make([]string, rows)
	for i, name := range p.Names {
		names[rows-1-i] = strings.Join(wrap(name, plainStyle, textWidth/3), "\n")
	}
	pic.plot.NominalY(names...)
	pic.plot.X.Tick.Marker = plot.TickerFunc(linearTicks)
	pic.plot.Y.Min, pic.plot.Y.Max = -0.5, float64(rows)-0.5
	pic.plot.X.Min, pic.plot.X.Max = 0, p.Y.Max
	if p.Y.Max == 0 {
		pic.plot.X.Max = max(longest, 1e-9) * 1.25 // room for the figures
	}
	return nil
}

// lighter is the colour under two parts of white.
func lighter(c color.RGBA) color.RGBA {
	mix := func(x uint8) uint8 { return uint8((int(x) + 2*255) / 3) }
	return color.RGBA{mix(c.R), mix(c.G), mix(c.B), 0xFF}
}

func lineHeight(style text.Style) vg.Length { return 1.25 * style.Font.Size }

// columns is how many names of the legend stand side by side, and the lines of
// each: where two do not fit, a name may take several.
func (pic *picture) columns() (n int, names [][]string) {
	n = 2
	for _, e := range pic.legend {
		if plainStyle.Width(e.name) > textWidth/2-thumbnail-2*margin {
			n = 1
		}
	}
	for _, e := range pic.legend {
		names = append(names, wrap(e.name, plainStyle, textWidth/vg.Length(n)-thumbnail-margin))
	}
	return n, names
}

func (pic *picture) totalHeight() vg.Length {
	height := 4*margin + vg.Length(len(pic.yLabel))*lineHeight(plainStyle) + pic.height
	for _, l := range pic.above {
		height += lineHeight(l.style)
	}
	n, names := pic.columns()
	rows := vg.Length(0)
	for i, lines := range names {
		if i%n == 0 {
			rows += vg.Length(len(lines))
		}
	}
	return height + rows*lineHeight(plainStyle)
}

// drawTo draws from the top: the text, the plot, the names of the series.
func (pic *picture) drawTo(c draw.Canvas) {
	c.SetColor(color.White)
	c.Fill(c.Rectangle.Path())
	y := c.Max.Y - margin
	left := c.Min.X + margin
	for _, l := range pic.above {
		c.FillText(l.style, vg.Point{X: left, Y: y}, l.text)
		y -= lineHeight(l.style)
	}
	y -= margin
	for _, l := range pic.yLabel {
		c.FillText(plainStyle, vg.Point{X: left, Y: y}, l)
		y -= lineHeight(plainStyle)
	}
	area := draw.Canvas{Canvas: c.Canvas, Rectangle: vg.Rectangle{
		Min: vg.Point{X: left, Y: y - pic.height},
		Max: vg.Point{X: c.Max.X - margin, Y: y},
	}}
	pic.plot.Draw(area)
	y -= pic.height + margin
	n, names := pic.columns()
	for i, e := range pic.legend {
		x := left + vg.Length(i%n)*textWidth/vg.Length(n)
		sample := draw.Canvas{Canvas: c.Canvas, Rectangle: vg.Rectangle{
			Min: vg.Point{X: x, Y: y - 10},
			Max: vg.Point{X: x + thumbnail - margin, Y: y - 2},
		}}
		for _, t := range e.thumbnails {
			t.Thumbnail(&sample)
		}
		for j, part := range names[i] {
			c.FillText(plainStyle, vg.Point{X: x + thumbnail, Y: y - vg.Length(j)*lineHeight(plainStyle)}, part)
		}
		if i%n == n-1 {
			y -= vg.Length(len(names[i])) * lineHeight(plainStyle)
		}
	}
}

// wrap cuts a text into lines of at most the width, at spaces, or where a word is
// longer than a line, anywhere.
func wrap(words string, style text.Style, width vg.Length) (lines []string) {
	current := ""
	for _, word := range strings.Fields(words) {
		joined := strings.TrimSpace(current + " " + word)
		if style.Width(joined) <= width {
			current = joined
			continue
		}
		if current != "" {
			lines = append(lines, current)
		}
		for style.Width(word) > width {
			runes := []rune(word)
			fits := max(1, int(math.Floor(float64(len(runes))*float64(width/style.Width(word)))))
			for fits > 1 && style.Width(string(runes[:fits])) > width {
				fits--
			}
			lines = append(lines, string(runes[:fits]))
			word = string(runes[fits:])
		}
		current = word
	}
	if current != "" {
		lines = append(lines, current)
	}
	return lines
}
