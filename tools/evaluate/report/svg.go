package report

import (
	"bytes"
	"fmt"
	"strings"

	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/vgsvg"
)

// An svgCanvas remembers how wide its texts are.
type svgCanvas struct {
	*vgsvg.Canvas
	widths []vg.Length
}

func (c *svgCanvas) FillString(face font.Face, at vg.Point, text string) {
	c.widths = append(c.widths, face.Width(text))
	c.Canvas.FillString(face, at, text)
}

// svg is the picture, in which every text is as wide as it was measured, whatever
// face who looks at it has instead of Liberation Sans. To put the face itself into
// each picture would take half a megabyte.
func (c *svgCanvas) svg() ([]byte, error) {
	var out bytes.Buffer
	if _, err := c.WriteTo(&out); err != nil {
		return nil, err
	}
	parts := strings.Split(out.String(), "<text ")
	if len(parts) != len(c.widths)+1 {
		return nil, fmt.Errorf("%d texts were written of %d", len(parts)-1, len(c.widths))
	}
	for i, width := range c.widths {
		parts[i] += fmt.Sprintf(`<text textLength="%.2f" lengthAdjust="spacingAndGlyphs" `, width.Points())
	}
	picture := strings.Join(parts, "")
	picture = strings.ReplaceAll(picture, "font-family:Liberation Sans;", "font-family:Liberation Sans,Arial,Helvetica,sans-serif;")
	return []byte(picture), nil
}
