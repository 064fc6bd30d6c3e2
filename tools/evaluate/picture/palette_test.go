package picture

import (
	"image/color"
	"math"
	"testing"
)

// linear returns the light of a colour, each component from 0 to 1.
func linear(c color.RGBA) (rgb [3]float64) {
	for i, v := range []uint8{c.R, c.G, c.B} {
		if s := float64(v) / 255; s <= 0.04045 {
			rgb[i] = s / 12.92
		} else {
			rgb[i] = math.Pow((s+0.055)/1.055, 2.4)
		}
	}
	return rgb
}

func times(m [3][3]float64, v [3]float64) (r [3]float64) {
	for i := range r {
		for j := range v {
			r[i] += m[i][j] * v[j]
		}
	}
	return r
}

// sights are the ways people see light: all of it, or without one of the three kinds of cones
// (Machado, Oliveira and Fernandes, IEEE TVCG 2009, severity 1).
var sights = map[string][3][3]float64{
	"usual":        {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}},
	"protanopia":   {{0.152286, 1.052583, -0.204868}, {0.114503, 0.786281, 0.099216}, {-0.003882, -0.048116, 1.051998}},
	"deuteranopia": {{0.367322, 0.860646, -0.227968}, {0.280085, 0.672501, 0.047413}, {-0.011820, 0.042940, 0.968881}},
	"tritanopia":   {{1.255528, -0.076749, -0.178779}, {-0.078411, 0.930809, 0.147602}, {0.004733, 0.691367, 0.303900}},
}

// lab converts light to CIELAB.
func lab(rgb [3]float64) [3]float64 {
	xyz := times([3][3]float64{{0.4124, 0.3576, 0.1805}, {0.2126, 0.7152, 0.0722}, {0.0193, 0.1192, 0.9505}}, rgb)
	var f [3]float64
	for i, white := range []float64{0.9505, 1, 1.089} {
		if t := xyz[i] / white; t > 216.0/24389 {
			f[i] = math.Cbrt(t)
		} else {
			f[i] = (t*24389/27 + 16) / 116
		}
	}
	return [3]float64{116*f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])}
}

// Any two tones of lines look different to everyone, on both grounds.
func TestTonesDiffer(t *testing.T) {
	const least = 15 // least difference in CIELAB; 2.3 is just visible side by side
	for name, sight := range sights {
		for ground, colour := range map[string]func(Tone) color.RGBA{"light": Tone.Light, "dark": Tone.Dark} {
			for a := Grey; a <= Purple; a++ {
				for b := Grey; b < a; b++ {
					p, q := lab(times(sight, linear(colour(a)))), lab(times(sight, linear(colour(b))))
					if d := math.Sqrt((p[0]-q[0])*(p[0]-q[0]) + (p[1]-q[1])*(p[1]-q[1]) + (p[2]-q[2])*(p[2]-q[2])); d < least {
						t.Errorf("%s, on a %s ground: tones %d and %d differ by %.1f", name, ground, a, b, d)
					}
				}
			}
		}
	}
}

// contrast returns the contrast of two colours as defined by WCAG 2.
func contrast(a, b color.RGBA) float64 {
	luminance := func(c color.RGBA) float64 {
		l := linear(c)
		return 0.2126*l[0] + 0.7152*l[1] + 0.0722*l[2]
	}
	x, y := luminance(a), luminance(b)
	return (max(x, y) + 0.05) / (min(x, y) + 0.05)
}

// Texts are legible and lines visible, on white and on the dark ground of a page.
func TestContrast(t *testing.T) {
	light, dark := parseColour("#ffffff"), parseColour("#0d1117")
	for tone, s := range shades {
		if Tone(tone) == rule || Tone(tone) == grid {
			continue
		}
		for _, c := range []struct {
			colour string
			ground color.RGBA
			least  float64
		}{{s.light, light, 3}, {s.dark, dark, 3}, {s.lightLetter, light, 4.5}, {s.darkLetter, dark, 4.5}} {
			if got := contrast(parseColour(c.colour), c.ground); got < c.least {
				t.Errorf("tone %d: %s has a contrast of %.2f, less than %v", tone, c.colour, got, c.least)
			}
		}
	}
}
