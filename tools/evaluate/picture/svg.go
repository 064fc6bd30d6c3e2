package picture

import (
	"errors"
	"fmt"
	"html"
	"image"
	"image/color"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg"
)

// A canvas is an SVG whose colours are classes. Package plot draws on it. It supports only what
// is needed here; it cannot rotate, for example.
type canvas struct {
	width, height vg.Length
	body          strings.Builder
	classes       map[string][2]string // declarations of a class on a light and on a dark ground
	stack         []state
	texts         []textBox
	err           error // the first error
}

// A textBox is a text and its place.
type textBox struct {
	text string
	vg.Rectangle
}

type state struct {
	tone   Tone
	width  vg.Length
	dashes []vg.Length
	moved  vg.Point
}

func newCanvas(width, height vg.Length) *canvas {
	return &canvas{width: width, height: height, classes: map[string][2]string{}, stack: []state{{tone: ink, width: 1}}}
}

func (c *canvas) top() *state { return &c.stack[len(c.stack)-1] }

func (c *canvas) fail(err error) {
	if c.err == nil {
		c.err = err
	}
}

func (c *canvas) SetLineWidth(w vg.Length)               { c.top().width = w }
func (c *canvas) SetLineDash(d []vg.Length, _ vg.Length) { c.top().dashes = d }
func (c *canvas) Translate(by vg.Point)                  { c.top().moved = c.top().moved.Add(by) }
func (c *canvas) Push()                                  { c.stack = append(c.stack, *c.top()) }
func (c *canvas) Pop()                                   { c.stack = c.stack[:len(c.stack)-1] }
func (c *canvas) Rotate(float64)                         { c.fail(errors.New("the canvas cannot turn")) }
func (c *canvas) Scale(_, _ float64)                     { c.fail(errors.New("the canvas cannot stretch")) }
func (c *canvas) DrawImage(_ vg.Rectangle, _ image.Image) {
	c.fail(errors.New("the canvas has no images"))
}
func (c *canvas) Size() (width, height vg.Length) { return c.width, c.height }

func (c *canvas) SetColor(to color.Color) {
	tone, ok := to.(Tone)
	if !ok {
		c.fail(fmt.Errorf("%v is no tone", to))
	}
	c.top().tone = tone
}

// class returns the name of the class of the current tone, and adds the class to the style
// sheet.
func (c *canvas) class(u use) string {
	tone := c.top().tone
	name := string(u) + shades[tone].class
	light, dark := tone.rules(u)
	c.classes[name] = [2]string{light, dark}
	return name
}

func (c *canvas) Stroke(p vg.Path) {
	s := c.top()
	if s.width <= 0 {
		return
	}
	fmt.Fprintf(&c.body, `<path class="%s" stroke-width="%s"`, c.class(stroke), length(s.width))
	if len(s.dashes) > 0 {
		var parts []string
		for _, d := range s.dashes {
			parts = append(parts, length(d))
		}
		fmt.Fprintf(&c.body, ` stroke-dasharray="%s"`, strings.Join(parts, " "))
	}
	fmt.Fprintf(&c.body, " d=\"%s\"/>\n", c.path(p))
}

func (c *canvas) Fill(p vg.Path) {
	fmt.Fprintf(&c.body, "<path class=\"%s\" d=\"%s\"/>\n", c.class(fill), c.path(p))
}

// FillString writes a text and fixes its width, since a reader may have another face than
// Liberation Sans. Embedding the face would add half a megabyte to each picture.
func (c *canvas) FillString(face font.Face, at vg.Point, text string) {
	from := at.Add(c.top().moved)
	box := textBox{text, vg.Rectangle{
		Min: from.Add(vg.Point{Y: -0.2 * face.Font.Size}),
		Max: from.Add(vg.Point{X: face.Width(text), Y: 0.75 * face.Font.Size}),
	}}
	c.place(box)
	class := c.class(letter)
	if face.Font.Weight > 0 {
		class += " bold"
	}
	if face.Font.Size != textSize {
		c.fail(errors.New("the canvas has texts of one size"))
	}
	fmt.Fprintf(&c.body, `<text class="%s" x="%s" y="%s" textLength="%s"`, class, c.x(at), c.y(at), length(face.Width(text)))
	fmt.Fprintf(&c.body, " lengthAdjust=\"spacingAndGlyphs\">%s</text>\n", html.EscapeString(text))
}

// place checks that a text is inside the picture and does not overlap another text.
func (c *canvas) place(box textBox) {
	if box.Min.X < 0 || box.Min.Y < 0 || box.Max.X > c.width || box.Max.Y > c.height {
		c.fail(fmt.Errorf("the edge cuts %q", box.text))
	}
	for _, other := range c.texts {
		if box.Min.X < other.Max.X && other.Min.X < box.Max.X && box.Min.Y < other.Max.Y && other.Min.Y < box.Max.Y {
			c.fail(fmt.Errorf("%q is over %q", box.text, other.text))
		}
	}
	c.texts = append(c.texts, box)
}

func (c *canvas) x(at vg.Point) string { return length(at.X + c.top().moved.X) }
func (c *canvas) y(at vg.Point) string { return length(c.height - at.Y - c.top().moved.Y) }

// path formats a path of lines and circles.
func (c *canvas) path(p vg.Path) string {
	var b strings.Builder
	point := func(command string, at vg.Point) { b.WriteString(command + c.x(at) + " " + c.y(at)) }
	for _, part := range p {
		switch part.Type {
		case vg.MoveComp:
			point("M", part.Pos)
		case vg.LineComp:
			point("L", part.Pos)
		case vg.CloseComp:
			b.WriteString("Z")
		case vg.ArcComp:
			if math.Abs(part.Angle) < 2*math.Pi {
				c.fail(errors.New("the canvas has no arcs but circles"))
			}
			r := part.Radius
			point("M", vg.Point{X: part.Pos.X + r, Y: part.Pos.Y})
			for _, x := range []vg.Length{part.Pos.X - r, part.Pos.X + r} {
				fmt.Fprintf(&b, "A%s %s 0 0 0 ", length(r), length(r))
				point("", vg.Point{X: x, Y: part.Pos.Y})
			}
		default:
			c.fail(errors.New("the canvas has no curves"))
		}
	}
	return b.String()
}

// length formats a length to a tenth of a unit, finer than anyone sees, so that a picture does
// not depend on the last bits of a sum.
func length(l vg.Length) string {
	text := strings.TrimSuffix(strconv.FormatFloat(l.Points(), 'f', 1, 64), ".0")
	if text == "-0" {
		return "0"
	}
	return text
}

const family = `"Liberation Sans",Arial,Helvetica,sans-serif`

// svg returns the drawing.
func (c *canvas) svg(title, description string) ([]byte, error) {
	if c.err != nil {
		return nil, &Error{title, c.err.Error()}
	}
	var out, dark strings.Builder
	fmt.Fprintf(&out, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %s %s\" role=\"img\" aria-labelledby=\"title desc\">\n", length(c.width), length(c.height))
	fmt.Fprintf(&out, "<title id=\"title\">%s</title>\n<desc id=\"desc\">%s</desc>\n", html.EscapeString(title), html.EscapeString(description))
	fmt.Fprintf(&out, "<style>\ntext{font:%spx %s}\n.bold{font-weight:bold}\npath{stroke-linejoin:round}\n", length(textSize), family)
	for _, name := range slices.Sorted(maps.Keys(c.classes)) {
		fmt.Fprintf(&out, ".%s{%s}\n", name, c.classes[name][0])
		fmt.Fprintf(&dark, ".%s{%s}\n", name, c.classes[name][1])
	}
	fmt.Fprintf(&out, "@media (prefers-color-scheme:dark){\n%s}\n</style>\n%s</svg>\n", dark.String(), c.body.String())
	return []byte(out.String()), nil
}
