package mmapfilter

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/wal"
	"pgregory.net/rapid"
)

// A shape is a layout with its f and b, as tests range over them.
type shape struct {
	kind layout.Kind
	layout.Params
}

func (s shape) String() string {
	return fmt.Sprintf("%s,f=%d,b=%d", s.kind, s.FingerprintBits, s.BucketSize)
}

func (s shape) slots() uint64 { return uint64(layout.SlotsPerLine(s.kind, s.Params)) }

func newShape(k layout.Kind, f, b int) shape {
	return shape{k, layout.Params{FingerprintBits: f, BucketSize: b}}
}

var (
	blocked12 = newShape(layout.Blocked, 12, 5)
	blocked30 = newShape(layout.Blocked, 30, 2)
	compact13 = newShape(layout.Compact, 13, 54)
	compact16 = newShape(layout.Compact, 16, 39)
	compact22 = newShape(layout.Compact, 22, 25)

	// lookShapes are those whose single lookups differ: of Compact those of remainders of a byte at
	// most, of more, and of slots that do not all get into the words of a register.
	lookShapes = []shape{blocked12, compact13, compact16, compact22}
)

// shapes lists every f and b of Blocked; and of the layouts that have many, each b
// with a short fingerprint and a long one, slots and buckets in one word and in
// several, up to the most there are. Of short tests one for each layout is enough.
func shapes() (all []shape) {
	if testing.Short() {
		return oneEach()
	}
	for _, p := range layout.LegalParams(layout.Blocked) {
		all = append(all, shape{layout.Blocked, p})
	}
	return append(all,
		newShape(layout.Packed, 4, 4), newShape(layout.Packed, 32, 1), newShape(layout.Packed, 17, 2),
		newShape(layout.Packed, 12, 4), newShape(layout.Packed, 7, 8), newShape(layout.Packed, 32, 8),
		newShape(layout.SemiSorted, 5, 4), newShape(layout.SemiSorted, 13, 4), newShape(layout.SemiSorted, 25, 4), newShape(layout.SemiSorted, 32, 4),
		newShape(layout.Compact, 10, 86), compact13, compact16, compact22)
}

// oneEach is a shape of each layout.
func oneEach() []shape {
	return []shape{blocked12, newShape(layout.Packed, 12, 4), newShape(layout.SemiSorted, 25, 4), compact16}
}

// lines gives as many lines as have about the slots of so many lines of 64 bytes.
func (s shape) lines(blocked uint64) uint64 {
	if s.kind == layout.Blocked {
		return blocked
	}
	return max(blocked*40/s.slots(), s.least())
}

// least is how many lines there must be for an insert to be refused some day: in
// fewer, all items are of classes that the stash has an entry for, which counts
// them.
func (s shape) least() uint64 {
	if s.kind == layout.Blocked {
		return 1
	}
	return 1 + 4000/(1<<s.FingerprintBits)
}

// anyBucket draws one of the buckets of a line.
func anyBucket(t layout.Table, rng *rand.Rand) uint32 {
	if t.Kind() != layout.Blocked {
		return 0
	}
	return rng.Uint32N(8)
}

// hashOf gives a hash of an item: the inverse of Table.Split. The fraction that
// the fingerprint is made of is in the middle of those that make it.
func hashOf(tb rapid.TB, t layout.Table, it layout.Item) uint64 {
	f := t.Params().FingerprintBits
	var rest uint64
	if t.Kind() == layout.Compact { // 0 is a fingerprint
		rest, _ = bits.Div64(uint64(it.Fp), 1<<63, 1<<f)
	} else {
		rest, _ = bits.Div64(uint64(it.Fp)-1, 1<<63, 1<<f-1)
	}
	if t.Kind() == layout.Blocked {
		rest = uint64(it.Bucket)<<61 | rest>>3
	}
	h, _ := bits.Div64(it.Line, rest, t.Lines())
	if h++; t.Split(h) != it {
		tb.Fatalf("the hash made for %+v is that of %+v", it, t.Split(h))
	}
	return h
}

// planned gives the plan of a filter of so many lines.
func (s shape) planned(tb rapid.TB, lines uint64, opts Options) (Plan, Options) {
	tb.Helper()
	opts.Layout, opts.FingerprintBits, opts.BucketSize = s.kind, s.FingerprintBits, s.BucketSize
	load := float64(layout.DesignLoads(s.kind, s.Params).Usual) / 100
	opts.Capacity = max(uint64(float64(lines*s.slots())*load), 1)
	o := opts.withDefaults()
	plan, err := o.plan(o.Capacity)
	if err == nil {
		plan.Lines = lines
		plan.geometry, err = layout.NewGeometry(s.kind, s.Params, lines)
	}
	if err != nil {
		tb.Fatal(err)
	}
	return plan, o
}

// TestOperationFitsTheLog: the smallest log has room for the longest operation,
// with half of it to spare for others.
func TestOperationFitsTheLog(t *testing.T) {
	for _, kind := range layout.Kinds() {
		for _, p := range layout.LegalParams(kind) {
			g, err := layout.NewGeometry(kind, p, 100)
			if err != nil {
				t.Fatal(err)
			}
			table := layout.NewTable(g)
			const room = (wal.MinBytes/wal.PageBytes - 2) * (wal.PageBytes / wal.RecordBytes)
			if n := maxOperationStores(table); n > room*6/10 {
				t.Errorf("%s %+v: %d stores in one operation, and room for %d", kind, p, n, room)
			}
		}
	}
}
