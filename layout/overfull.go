package layout

import "math"

// marks is what Blocked and Compact have of overflow, which tells lookups apart that go
// on to a second line: figures of a table at loads up to that of the last of them, and
// the overflow bits of a line. Each item that is away from home has set two of them.
type marks struct {
	second, away []uint16
	bits         float64
}

// PredictKeys is [Predict] for so many keys, no two of the same class, in a table that may
// be full: what has no slot is in the stash.
//
// Only the layouts with overflow bits need more than Predict. In the others every lookup
// goes on to the stash, and an item gives a match wherever it is.
//
// Otherwise, a stash entry gives a match to the absent keys of its class with its home,
// and to those with its other line as home if they go on. It also sets two overflow bits
// of its home: if a share x of all bits is set before, and each line then gets k items
// more that are away, 1 - (1-x)·(1-2/bits)^k are set after that, and a lookup goes on
// where both of its bits are set. An item that is in its alternate line gives a match to
// the keys of both homes, where one at home gives those of the other home one only if
// they go on. In a table of n lines, one item in n has no other line.
func PredictKeys(g Geometry, keys uint64) Overflow {
	s := specs[g.Kind]
	load := float64(keys) / float64(g.Slots())
	if s.marks == nil {
		return s.predict(g.Params, load)
	}
	inLines := min(load, 1)
	inStash := load - inLines
	m := s.marks(g.Params)
	set := math.Sqrt(pastTable(m.second, inLines))
	set = 1 - (1-set)*math.Pow(1-2/m.bits, inStash*float64(SlotsPerLine(g.Kind, g.Params)))
	twoLines := 1 - 1/float64(g.Lines)
	second := set * set * twoLines
	return Overflow{
		Match:  s.predict(g.Params, inLines).Match,
		Second: second,
		Away:   pastTable(m.away, inLines)*twoLines*(1-second) + inStash*(1+second),
	}
}

// pastTable is atLoad, but goes on after the last figure as the last two differ.
func pastTable(table []uint16, load float64) float64 {
	last := len(table) - 1
	past := max(load-(tableFirst+float64(last)*tableStep), 0) / tableStep
	return atLoad(table, load) + past*tableScale*float64(int(table[last])-int(table[last-1]))
}
