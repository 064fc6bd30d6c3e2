package picture

import (
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

const (
	rowHeight  = vg.Length(44)
	barHeight  = vg.Length(20)
	maxRowName = vg.Length(165)
)

// SVG draws a row for each bar: its name, the bar, its value, and what the paper says.
func (p *Bars) SVG() ([]byte, error) {
	if problem := p.problem(); problem != "" {
		return nil, &Error{p.Title, problem}
	}
	name, value, paper := style(ink, false), style(ink, true), style(muted, false)
	said := func(r Row) string {
		if r.Paper == 0 {
			return ""
		}
		return "paper " + p.said(r.Paper)
	}
	above := wrap(p.Unit, paper, pictureWidth-2*margin)
	left := vg.Length(0)
	for _, r := range p.Rows {
		left = max(left, widest(wrap(r.Name, name, maxRowName), name))
	}
	left += margin + 10
	// Each row has room for its texts behind the bar and the mark.
	const gap = 8
	unit := vg.Length(0)
	for _, r := range p.Rows {
		length := max(r.Value, r.Paper)
		texts := gap + value.Width(p.value(r.Value)) + gap + paper.Width(said(r)) + margin
		if length > 0 {
			if fits := (pictureWidth - left - texts) / vg.Length(length); unit == 0 || fits < unit {
				unit = fits
			}
		}
	}
	top := margin + vg.Length(len(above))*lineHeight + margin
	out := newCanvas(pictureWidth, top+vg.Length(len(p.Rows))*rowHeight+margin)
	c := draw.New(out)
	write(c, above, paper, vg.Point{X: margin, Y: c.Max.Y - margin})
	// No grid: each bar has its value.
	c.StrokeLine2(draw.LineStyle{Color: rule, Width: 1}, left, c.Min.Y+margin, left, c.Max.Y-top)
	for i, r := range p.Rows {
		middle := c.Max.Y - top - (vg.Length(i)+0.5)*rowHeight
		lines := wrap(r.Name, name, maxRowName)
		write(c, lines, name, vg.Point{X: margin, Y: middle + vg.Length(len(lines))*lineHeight/2})
		end := left + vg.Length(r.Value)*unit
		c.SetColor(r.Tone)
		polygon(&c, vg.Point{X: left, Y: middle - barHeight/2}, vg.Point{X: left, Y: middle + barHeight/2}, vg.Point{X: end, Y: middle + barHeight/2}, vg.Point{X: end, Y: middle - barHeight/2})
		// The value is at the end of the bar, and the paper's value behind its mark if there is
		// room between them. Otherwise both are behind the later of the two.
		at := end + gap
		if r.Paper > 0 {
			x := left + vg.Length(r.Paper)*unit
			c.StrokeLine2(draw.LineStyle{Color: ink, Width: 3}, x, middle-barHeight/2-4, x, middle+barHeight/2+4)
			after := at + value.Width(p.value(r.Value)) + gap
			switch {
			case x > after:
				after = x + gap
			case x > end-gap:
				at = max(end, x) + gap
				after = at + value.Width(p.value(r.Value)) + gap
			}
			write(c, []string{said(r)}, paper, vg.Point{X: after, Y: middle + lineHeight/2})
		}
		write(c, []string{p.value(r.Value)}, value, vg.Point{X: at, Y: middle + lineHeight/2})
	}
	return out.svg(p.Title, p.Describe())
}
