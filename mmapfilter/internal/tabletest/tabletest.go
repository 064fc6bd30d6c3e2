// Package tabletest has what tests of several packages need of tables: the layouts and parameters to
// range over, keys, a table in memory, and a check of its items. Only tests import it.
package tabletest

import (
	"encoding/binary"
	"fmt"
	"iter"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
	_ "github.com/mmapfilter/mmapfilter/layout/all"
	"github.com/mmapfilter/mmapfilter/layout/multiset"
	"pgregory.net/rapid"
)

// A Shape is a layout with its parameters.
type Shape struct {
	Kind layout.Kind
	layout.Params
}

// Paper returns the shape of a layout of the paper.
func Paper(k layout.Kind, f, b int) Shape {
	return Shape{k, layout.Params{FingerprintBits: f, BucketSize: b}}
}

// Compact returns a shape of Compact.
func Compact(quotients, remainderBits int) Shape {
	return Shape{layout.Compact, layout.Params{Quotients: quotients, RemainderBits: remainderBits}}
}

func (s Shape) String() string { return fmt.Sprintf("%s,%v", s.Kind, s.Params) }

// Slots returns the slots of a line.
func (s Shape) Slots() uint64 { return uint64(layout.SlotsPerLine(s.Kind, s.Params)) }

// Lines returns how many lines have 40·forties slots, but at least Least.
func (s Shape) Lines(forties uint64) uint64 { return max(forties*40/s.Slots(), s.Least()) }

// Least returns the smallest number of lines in which a filter can get full. With fewer lines, the stash
// has room for an entry of every class, so that any insert can be counted there.
func (s Shape) Least() uint64 { return 1 + 4000/s.Fingerprints() }

// Geometry returns the geometry of that many lines.
func (s Shape) Geometry(tb rapid.TB, lines uint64) layout.Geometry {
	tb.Helper()
	g, err := layout.NewGeometry(s.Kind, s.Params, lines)
	if err != nil {
		tb.Fatal(err)
	}
	return g
}

// Memory returns an empty table of a shape, in memory.
func (s Shape) Memory(tb testing.TB, lines uint64) (layout.Table, layout.View) {
	tb.Helper()
	g := s.Geometry(tb, lines)
	words := make([]uint64, (layout.OffRegion-layout.OffRuntime+g.RegionBytes)/8)
	return layout.NewTable(g), layout.NewView(words, g)
}

// Shapes returns shapes of each layout. For the layouts of the paper, it returns short and long
// fingerprints, each b, and slots and buckets in one word and in several words. For Compact, it returns
// counts in one, two and three words, and remainders that the kernels compare in different ways. In
// short tests, it returns one shape of each layout.
func Shapes() (all []Shape) {
	if testing.Short() {
		return OneEach()
	}
	return []Shape{
		Paper(layout.Packed, 4, 4), Paper(layout.Packed, 32, 1), Paper(layout.Packed, 17, 2),
		Paper(layout.Packed, 12, 4), Paper(layout.Packed, 7, 8), Paper(layout.Packed, 32, 8),
		Paper(layout.SemiSorted, 5, 4), Paper(layout.SemiSorted, 13, 4), Paper(layout.SemiSorted, 25, 4), Paper(layout.SemiSorted, 32, 4),
		Compact(49, 4), Compact(64, 4), Compact(43, 5), Compact(41, 7), Compact(38, 10), Compact(37, 13), Compact(40, 19), Compact(25, 26),
	}
}

// OneEach returns a shape of each layout.
func OneEach() []Shape {
	return []Shape{Paper(layout.Packed, 12, 4), Paper(layout.SemiSorted, 25, 4), Compact(38, 10)}
}

// Numbers yields the 8-byte keys of the numbers [from, to).
func Numbers(from, to uint64) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		var key [8]byte
		for i := from; i < to; i++ {
			binary.LittleEndian.PutUint64(key[:], i)
			if !yield(key[:], nil) {
				return
			}
		}
	}
}

// Check bears C1 and C7: a table holds the items of the hashes, and no others.
func Check(t *testing.T, table layout.Table, v layout.View, hashes []uint64) {
	t.Helper()
	m := multiset.New(table)
	for _, h := range hashes {
		m.Add(h, 1)
	}
	if err := m.Check(&v); err != nil {
		t.Fatal(err)
	}
}
