package picture

import (
	"math"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Width and TextSize are those of a picture, in its own units. It is as wide as a column
// of a page: on a telephone, 336 pixels of it, a text has 10.8 pixels; on a desktop it is
// a little larger than the text beside it.
const (
	Width    = 560.0
	TextSize = 18.0

	pictureWidth = vg.Length(Width)
	margin       = vg.Length(4)
	textSize     = vg.Length(TextSize)
	lineHeight   = 1.2 * textSize
)

// style is a text in a tone: Liberation Sans, which is as wide as Arial and Helvetica.
func style(tone Tone, bold bool) text.Style {
	f := font.Font{Typeface: "Liberation", Variant: "Sans", Size: textSize}
	if bold {
		f.Weight = 3 // bold, as golang.org/x/image/font counts
	}
	return text.Style{Color: tone, Font: f, XAlign: text.XLeft, YAlign: text.YTop, Handler: plot.DefaultTextHandler}
}

// write writes lines of text from a place down; it is that of their left upper corner.
func write(c draw.Canvas, lines []string, s text.Style, at vg.Point) {
	for i, l := range lines {
		c.FillText(s, vg.Point{X: at.X, Y: at.Y - vg.Length(i)*lineHeight}, l)
	}
}

// widest is the width of the widest line.
func widest(lines []string, s text.Style) (width vg.Length) {
	for _, l := range lines {
		width = max(width, s.Width(l))
	}
	return width
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
