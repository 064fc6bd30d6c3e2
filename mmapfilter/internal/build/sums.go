package build

import (
	"math/bits"

	"github.com/mmapfilter/mmapfilter/layout"
)

// classSums tell two multisets of items apart, in pieces of the file: for each piece they have two
// sums of a mix of the classes of items. Items that differ have equal sums with a probability of
// 2^-128.
type classSums struct {
	table  layout.Table
	pieces [][2]uint64
}

func newClassSums(t layout.Table, pieces int) *classSums {
	return &classSums{t, make([][2]uint64, pieces)}
}

// add adds n items of a class.
func (s *classSums) add(c layout.Class, n uint64) {
	high, low := bits.Mul64(c.Line*layout.MixFirst+uint64(c.Bucket)+1, layout.MixSecond^uint64(c.Fp)*layout.MixFirst)
	over, under := bits.Mul64(c.Line, uint64(len(s.pieces)))
	at, _ := bits.Div64(over, under, s.table.Lines())
	sum := &s.pieces[at]
	sum[0] += n * mixed(high^low)
	sum[1] += n * mixed(high+low)
}

// mixed is the finaliser of SplitMix64 (Steele, Lea and Flood, 2014).
func mixed(x uint64) uint64 {
	x = (x ^ x>>30) * 0xBF58476D1CE4E5B9
	x = (x ^ x>>27) * 0x94D049BB133111EB
	return x ^ x>>31
}

// subtract takes away all items of a table.
func (s *classSums) subtract(v *layout.View) {
	var l layout.Line
	var items []layout.Item
	for line := range s.table.Lines() {
		layout.Load(s.table, v.Region, line, &l)
		items = s.table.Items(items[:0], &l, line)
		for _, it := range items {
			s.add(s.table.Class(it), ^uint64(0))
		}
	}
	layout.StashClasses(v.Stash, func(c layout.Class, n uint64) { s.add(c, -n) })
}
