// Package tabletest has what tests of several packages need of tables: the layouts and
// parameters to range over, keys, a table in memory, and a check of what it holds. Only tests
// import it.
package tabletest

import (
	"encoding/binary"
	"fmt"
	"iter"
	"math/rand/v2"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
	_ "github.com/mmapfilter/mmapfilter/layout/all"
	"github.com/mmapfilter/mmapfilter/layout/multiset"
)

// A Shape is a layout with its f and b.
type Shape struct {
	Kind layout.Kind
	layout.Params
}

// New returns the shape of a layout with that f and b.
func New(k layout.Kind, f, b int) Shape {
	return Shape{k, layout.Params{FingerprintBits: f, BucketSize: b}}
}

func (s Shape) String() string {
	return fmt.Sprintf("%s,f=%d,b=%d", s.Kind, s.FingerprintBits, s.BucketSize)
}

// Slots returns the slots of a line.
func (s Shape) Slots() uint64 { return uint64(layout.SlotsPerLine(s.Kind, s.Params)) }

// Lines returns as many lines as have about the slots of that many lines of 64 bytes.
func (s Shape) Lines(blocked uint64) uint64 {
	if s.Kind == layout.Blocked {
		return blocked
	}
	return max(blocked*40/s.Slots(), s.Least())
}

// Least returns how many lines there must be for an insert to be refused some day. In
// fewer lines, the stash has entries for all classes there are, and counts their items.
func (s Shape) Least() uint64 {
	if s.Kind == layout.Blocked {
		return 1
	}
	return 1 + 4000/(1<<s.FingerprintBits)
}

// Memory returns an empty table of a shape, in memory.
func (s Shape) Memory(tb testing.TB, lines uint64) (layout.Table, layout.View) {
	tb.Helper()
	g, err := layout.NewGeometry(s.Kind, s.Params, lines)
	if err != nil {
		tb.Fatal(err)
	}
	words := make([]uint64, (layout.OffRegion-layout.OffRuntime+g.RegionBytes)/8)
	return layout.NewTable(g), layout.NewView(words, g)
}

// Shapes returns every f and b of Blocked. Of the layouts that have many, it returns
// each b with a short fingerprint and a long one, and slots and buckets in one word and
// in several, up to the most there are. In short tests, one shape of each layout is
// enough.
func Shapes() (all []Shape) {
	if testing.Short() {
		return OneEach()
	}
	for _, p := range layout.LegalParams(layout.Blocked) {
		all = append(all, Shape{layout.Blocked, p})
	}
	return append(all,
		New(layout.Packed, 4, 4), New(layout.Packed, 32, 1), New(layout.Packed, 17, 2),
		New(layout.Packed, 12, 4), New(layout.Packed, 7, 8), New(layout.Packed, 32, 8),
		New(layout.SemiSorted, 5, 4), New(layout.SemiSorted, 13, 4), New(layout.SemiSorted, 25, 4), New(layout.SemiSorted, 32, 4),
		New(layout.Compact, 10, 84), New(layout.Compact, 13, 52), New(layout.Compact, 16, 38), New(layout.Compact, 22, 24))
}

// OneEach returns a shape of each layout.
func OneEach() []Shape {
	return []Shape{New(layout.Blocked, 12, 5), New(layout.Packed, 12, 4), New(layout.SemiSorted, 25, 4), New(layout.Compact, 16, 38)}
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

// AnyBucket draws one of the buckets of a line.
func AnyBucket(t layout.Table, rng *rand.Rand) uint32 {
	if t.Kind() != layout.Blocked {
		return 0
	}
	return rng.Uint32N(8)
}
