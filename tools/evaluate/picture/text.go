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

// Width and TextSize are in the units of a picture, which is as wide as a column of a page. On
// a telephone, where the column has 336 pixels, a text has 10.8 pixels; on a desktop it is a
// little larger than the text beside it.
const (
	Width    = 560.0
	TextSize = 18.0

	pictureWidth = vg.Length(Width)
	margin       = vg.Length(4)
	textSize     = vg.Length(TextSize)
	lineHeight   = 1.2 * textSize
)

// style returns the style of a text in a tone, in Liberation Sans, which is as wide as Arial
// and Helvetica.
func style(tone Tone, bold bool) text.Style {
	f := font.Font{Typeface: "Liberation", Variant: "Sans", Size: textSize}
	if bold {
		f.Weight = 3 // bold, as golang.org/x/image/font counts
	}
	return text.Style{Color: tone, Font: f, XAlign: text.XLeft, YAlign: text.YTop, Handler: plot.DefaultTextHandler}
}

// write writes lines of text from their upper left corner down.
func write(c draw.Canvas, lines []string, s text.Style, at vg.Point) {
	for i, l := range lines {
		c.FillText(s, vg.Point{X: at.X, Y: at.Y - vg.Length(i)*lineHeight}, l)
	}
}

// widest returns the width of the widest line.
func widest(lines []string, s text.Style) (width vg.Length) {
	for _, l := range lines {
		width = max(width, s.Width(l))
	}
	return width
}

// wrap breaks a text into lines of at most the given width, at spaces, or anywhere in a word
// that is longer than a line.
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
