package layout

import "math"

// PredictKeys is Predict for a number of keys, no two of the same class, in a table
// that may be full: then the keys that found no slot are in the stash.
//
// Only a layout that wears out ([Wears]) needs more than Predict. In the others an item
// matches the same keys wherever it is.
//
// In a layout that wears out, a stash entry matches the absent keys of its class
// with the same home, and those whose home is its other line if they go on. It also
// sets two overflow bits in its home: if a share x of all bits is set before, and each
// line then gets k more items that are away, 1 - (1-x)·(1-2/bits)^k are set after that;
// a lookup goes on if both of its bits are set. An item in its alternate line matches
// the keys of both homes. An item at home matches those of the other home only if they
// go on. In a table of n lines, one item in n has no other line.
func PredictKeys(g Geometry, keys uint64) Overflow {
	s := specs[g.Kind]
	load := float64(keys) / float64(g.Slots())
	if s.Figures == nil {
		return s.Predict(g.Params, load)
	}
	inLines := min(load, 1)
	inStash := load - inLines
	m := s.Figures(g.Params)
	set := math.Sqrt(pastTable(m.Second, inLines))
	set = 1 - (1-set)*math.Pow(1-2/m.Bits, inStash*float64(SlotsPerLine(g.Kind, g.Params)))
	twoLines := 1 - 1/float64(g.Lines)
	second := set * set * twoLines
	return Overflow{
		Match:  s.Predict(g.Params, inLines).Match,
		Second: second,
		Away:   pastTable(m.Away, inLines)*twoLines*(1-second) + inStash*(1+second),
	}
}

// pastTable is AtLoad, but extrapolates past the last figure from the last two.
func pastTable(table []uint16, load float64) float64 {
	last := len(table) - 1
	past := max(load-(tableFirst+float64(last)*tableStep), 0) / tableStep
	return AtLoad(table, load) + past*tableScale*float64(int(table[last])-int(table[last-1]))
}
