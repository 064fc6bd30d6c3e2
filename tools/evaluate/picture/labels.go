package picture

import (
	"cmp"
	"slices"

	"gonum.org/v1/plot/vg"
)

// A span is the place of a label on a vertical line.
type span struct {
	want, height vg.Length
	at           vg.Length // its middle, set by spread
}

// spread moves overlapping spans apart, as little as possible, between low and high. They keep
// their order. There must be room for all.
func spread(spans []*span, low, high vg.Length) {
	spans = slices.Clone(spans)
	slices.SortStableFunc(spans, func(a, b *span) int { return cmp.Compare(a.want, b.want) })
	// A group is spans that touch. Its place is the mean of what they want.
	type group struct {
		spans  []*span
		height vg.Length
		start  vg.Length
	}
	place := func(g *group) {
		sum, above := vg.Length(0), vg.Length(0)
		for _, s := range g.spans {
			sum += s.want - above - s.height/2
			above += s.height
		}
		g.height = above
		g.start = max(low, min(high-g.height, sum/vg.Length(len(g.spans))))
	}
	var groups []*group
	for _, s := range spans {
		g := &group{spans: []*span{s}}
		place(g)
		groups = append(groups, g)
		for n := len(groups); n > 1 && groups[n-2].start+groups[n-2].height > groups[n-1].start; n = len(groups) {
			groups[n-2].spans = append(groups[n-2].spans, groups[n-1].spans...)
			groups = groups[:n-1]
			place(groups[n-2])
		}
	}
	for _, g := range groups {
		at := g.start
		for _, s := range g.spans {
			s.at = at + s.height/2
			at += s.height
		}
	}
}
