package picture

import (
	"cmp"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

const (
	plotHeight = vg.Length(320) // with the horizontal axis; more if labels need it
	axisHeight = vg.Length(60)  // at least, of that axis and its label
	maxLabel   = vg.Length(165) // width of a label
	leaderGap  = vg.Length(26)  // between the end of the axis and the labels
	maxMarks   = 8              // of a line
)

var glyphs = []draw.GlyphDrawer{
	draw.CircleGlyph{}, draw.BoxGlyph{}, draw.PyramidGlyph{}, diamond{}, bar{}, draw.CircleGlyph{}, draw.BoxGlyph{}, draw.PyramidGlyph{},
}

// A diamond stands on a corner; a bar stands upright.
type (
	diamond struct{}
	bar     struct{}
)

func (diamond) DrawGlyph(c *draw.Canvas, s draw.GlyphStyle, at vg.Point) {
	r := 1.3 * s.Radius
	polygon(c, vg.Point{X: at.X - r, Y: at.Y}, vg.Point{X: at.X, Y: at.Y + r}, vg.Point{X: at.X + r, Y: at.Y}, vg.Point{X: at.X, Y: at.Y - r})
}

func (bar) DrawGlyph(c *draw.Canvas, s draw.GlyphStyle, at vg.Point) {
	w, h := 0.5*s.Radius, 1.4*s.Radius
	polygon(c, vg.Point{X: at.X - w, Y: at.Y - h}, vg.Point{X: at.X - w, Y: at.Y + h}, vg.Point{X: at.X + w, Y: at.Y + h}, vg.Point{X: at.X + w, Y: at.Y - h})
}

// polygon fills an area in the colour of the canvas.
func polygon(c *draw.Canvas, corners ...vg.Point) {
	var p vg.Path
	p.Move(corners[0])
	for _, at := range corners[1:] {
		p.Line(at)
	}
	p.Close()
	c.Fill(p)
}

// A lineLabel is the name of a line, and the end of the line.
type lineLabel struct {
	span
	lines []string
	line  Line
	end   vg.Point
}

func (l *lineLabel) style() text.Style {
	if l.line.Tone == Grey {
		return style(muted, false)
	}
	return style(l.line.Tone, l.line.Kind == Emphasis)
}

// SVG draws the lines, with the label of the vertical axis above and the names of the lines
// right of their ends.
func (p *Lines) SVG() ([]byte, error) {
	if problem := p.problem(); problem != "" {
		return nil, &Error{p.Title, problem}
	}
	var labels []*lineLabel
	needed, labelWidth := vg.Length(0), vg.Length(0)
	for _, s := range p.Series {
		l := &lineLabel{line: s}
		l.lines = wrap(s.Name, l.style(), maxLabel)
		l.height = vg.Length(len(l.lines)) * lineHeight
		needed += l.height
		labelWidth = max(labelWidth, widest(l.lines, l.style()))
		labels = append(labels, l)
	}
	above := wrap(p.Y.Label, style(muted, false), pictureWidth-2*margin)
	high := max(plotHeight, needed+axisHeight)
	top := margin + vg.Length(len(above))*lineHeight + margin
	out := newCanvas(pictureWidth, top+high+margin)
	c := draw.New(out)
	write(c, above, style(muted, false), vg.Point{X: margin, Y: c.Max.Y - margin})
	area := draw.Crop(c, margin, -(margin + labelWidth + leaderGap), margin, -top)
	// Package plot would leave room beside a label of a logarithmic axis.
	below := wrap(p.X.Label, style(muted, false), area.Size().X)
	area.Min.Y += vg.Length(len(below)) * lineHeight

	pl, err := p.plot()
	if err != nil {
		return nil, err
	}
	// The plot leaves room for tick labels that stick out on the right, but not on the left.
	data := pl.DataCanvas(area)
	for _, tick := range pl.X.Tick.Marker.Ticks(pl.X.Min, pl.X.Max) {
		half := pl.X.Tick.Label.Width(tick.Label) / 2
		area.Min.X += max(0, area.Min.X+half-data.X(pl.X.Norm(tick.Value)))
	}
	pl.Draw(area)
	data = pl.DataCanvas(area)
	for i, l := range below {
		at := data.Center().X - style(muted, false).Width(l)/2
		write(c, []string{l}, style(muted, false), vg.Point{X: at, Y: area.Min.Y - vg.Length(i)*lineHeight})
	}
	x, y := pl.Transforms(&data)
	var spans []*span
	for _, l := range labels {
		last := l.line.Points[0]
		for _, at := range l.line.Points {
			if at.X >= last.X && at.X <= pl.X.Max {
				last = at
			}
		}
		l.end = vg.Point{X: x(last.X), Y: y(last.Y)}
		l.want = l.end.Y
		if len(l.lines) > 0 {
			spans = append(spans, &l.span)
		}
	}
	// A label may be half a line higher than the highest point.
	spread(spans, c.Min.Y+margin, data.Max.Y+lineHeight/2)
	left := area.Max.X + leaderGap
	for _, l := range labels {
		if len(l.lines) == 0 {
			continue
		}
		c.StrokeLine2(draw.LineStyle{Color: l.line.Tone, Width: 1}, l.end.X+7, l.end.Y, left-4, l.at)
		write(c, l.lines, l.style(), vg.Point{X: left, Y: l.at + l.height/2})
	}
	return out.svg(p.Title, p.Describe())
}

// plot returns the axes and the lines, with the important lines on top.
func (p *Lines) plot() (*plot.Plot, error) {
	pl := plot.New()
	pl.BackgroundColor = nil
	pl.Legend.TextStyle.Font = style(muted, false).Font
	for _, axis := range []*plot.Axis{&pl.X, &pl.Y} {
		axis.Padding = 3
		axis.Tick.Label.Font, axis.Tick.Label.Color = style(muted, false).Font, muted
		axis.LineStyle = draw.LineStyle{Color: rule, Width: 1}
		axis.Tick.LineStyle = axis.LineStyle
		axis.Tick.Length = 5
	}
	pl.Y.LineStyle.Width, pl.Y.Tick.LineStyle.Width, pl.Y.Tick.Length = 0, 0, 0
	pl.X.Scale, pl.X.Tick.Marker = p.X.scale(), p.X.ticker()
	pl.Y.Scale, pl.Y.Tick.Marker = p.Y.scale(), p.Y.ticker()
	lines := plotter.NewGrid()
	lines.Vertical.Color = nil
	lines.Horizontal = draw.LineStyle{Color: grid, Width: 1}
	pl.Add(lines)

	var xs, ys []float64
	type drawn struct {
		Line
		number int // selects the glyph
	}
	var order []drawn
	for i, s := range p.Series {
		order = append(order, drawn{s, i})
		for _, at := range s.Points {
			xs, ys = append(xs, at.X), append(ys, at.Y)
		}
	}
	rank := func(d drawn) int {
		switch {
		case d.Kind == Emphasis:
			return 3
		case d.Kind == Dashed:
			return 1
		case d.Tone == Grey:
			return 0
		}
		return 2
	}
	slices.SortStableFunc(order, func(a, b drawn) int { return rank(a) - rank(b) })
	for _, d := range order {
		var points plotter.XYs
		for _, at := range d.Points {
			if d.Kind == Stems {
				points = append(points, plotter.XY{X: at.X})
			}
			points = append(points, plotter.XY{X: at.X, Y: at.Y})
			if d.Kind == Stems { // along the axis to the next one
				points = append(points, plotter.XY{X: at.X})
			}
		}
		l, err := plotter.NewLine(points)
		if err != nil {
			return nil, err
		}
		l.LineStyle = draw.LineStyle{Color: d.Tone, Width: 2}
		radius := vg.Length(4)
		switch {
		case d.Kind == Emphasis:
			l.Width, radius = 3.5, 5
		case d.Kind == Dashed:
			l.Dashes = []vg.Length{6, 5}
		case d.Kind == Stems:
			l.Width = 0.8
		case d.Tone == Grey:
			l.Width, radius = 1.5, 3.5
		}
		pl.Add(l)
		if d.Kind == Dashed || d.Kind == Stems {
			continue
		}
		scatter, err := plotter.NewScatter(some(points))
		if err != nil {
			return nil, err
		}
		scatter.GlyphStyle = draw.GlyphStyle{Color: d.Tone, Radius: radius, Shape: glyphs[d.number%len(glyphs)]}
		pl.Add(scatter)
	}
	// Adding a line changes these.
	pl.X.Min, pl.X.Max = p.X.between(xs)
	pl.Y.Min, pl.Y.Max = p.Y.between(ys)
	if p.Y.Min == 0 && p.Y.Max == 0 {
		if p.Y.Log {
			pl.Y.Min, pl.Y.Max = pl.Y.Min/1.05, pl.Y.Max*1.05
		} else {
			pl.Y.Min = min(pl.Y.Min, 0)
		}
	}
	return pl, nil
}

// some selects points, from the right, few enough that each mark is visible.
func some(points plotter.XYs) (marked plotter.XYs) {
	points = slices.Clone(points)
	slices.SortStableFunc(points, func(a, b plotter.XY) int { return cmp.Compare(b.X, a.X) })
	step := (len(points) + maxMarks - 1) / maxMarks
	for i := 0; i < len(points); i += step {
		marked = append(marked, points[i])
	}
	return marked
}
