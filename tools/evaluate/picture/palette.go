package picture

import (
	"fmt"
	"image/color"
)

// A Tone is a colour with variants for a light and a dark ground.
type Tone uint8

// The tones of lines and bars. Blue points out a filter of ours; Grey is for what a picture is
// not about.
const (
	Grey Tone = iota
	Blue
	Orange
	Green
	Purple

	ink   // texts
	muted // texts that say less
	rule  // the horizontal axis
	grid
)

// A shade holds the colours of a tone, for lines and areas and for texts, which need more
// contrast. Blue, orange and green are from Okabe and Ito, "Color Universal Design" (2008). The
// others, and those for a dark ground, are chosen so that colour-blind readers can tell any two
// apart.
type shade struct {
	class                                string
	light, dark, lightLetter, darkLetter string
}

var shades = [...]shade{
	Grey:   {"y", "#8c959f", "#7d8793", "#57606a", "#9aa4af"},
	Blue:   {"b", "#0072b2", "#56b4e9", "#0068a3", "#56b4e9"},
	Orange: {"o", "#d55e00", "#e69f00", "#b24e00", "#e69f00"},
	Green:  {"n", "#009e73", "#7ee0b0", "#00734f", "#7ee0b0"},
	Purple: {"p", "#882d71", "#e3a3c9", "#882d71", "#e3a3c9"},
	ink:    {"i", "#24292f", "#e6edf3", "#24292f", "#e6edf3"},
	muted:  {"m", "#57606a", "#9aa4af", "#57606a", "#9aa4af"},
	rule:   {"r", "#8c959f", "#6e7681", "#8c959f", "#6e7681"},
	grid:   {"g", "#d8dee4", "#30363d", "#d8dee4", "#30363d"},
}

// Light and Dark return the colour of lines and areas on a light and a dark ground.
func (t Tone) Light() color.RGBA { return parseColour(shades[t].light) }
func (t Tone) Dark() color.RGBA  { return parseColour(shades[t].dark) }

// RGBA makes a Tone a color.Color, so that package plot passes it to the canvas. It returns the
// tone on a light ground.
func (t Tone) RGBA() (r, g, b, a uint32) { return t.Light().RGBA() }

func parseColour(text string) (c color.RGBA) {
	c.A = 0xFF
	if _, err := fmt.Sscanf(text, "#%02x%02x%02x", &c.R, &c.G, &c.B); err != nil {
		panic(err)
	}
	return c
}

// A use is what a tone is for. It is the prefix of the class name.
type use string

const (
	stroke use = "s"
	fill   use = "f"
	letter use = "t"
)

// rules returns the declarations of a class in a style sheet, for a light and a dark ground.
func (t Tone) rules(u use) (light, dark string) {
	s := shades[t]
	switch u {
	case stroke:
		return "fill:none;stroke:" + s.light, "stroke:" + s.dark
	case letter:
		return "fill:" + s.lightLetter, "fill:" + s.darkLetter
	}
	return "fill:" + s.light, "fill:" + s.dark
}
