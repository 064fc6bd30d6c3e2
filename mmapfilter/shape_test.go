package mmapfilter

import (
	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/tabletest"
	"pgregory.net/rapid"
)

// A shape is a tabletest.Shape to make filters of.
type shape struct {
	kind layout.Kind
	layout.Params
}

func (s shape) table() tabletest.Shape      { return tabletest.Shape{Kind: s.kind, Params: s.Params} }
func (s shape) String() string              { return s.table().String() }
func (s shape) slots() uint64               { return s.table().Slots() }
func (s shape) lines(blocked uint64) uint64 { return s.table().Lines(blocked) }

func newShape(k layout.Kind, f, b int) shape {
	return shape{k, layout.Params{FingerprintBits: f, BucketSize: b}}
}

var (
	blocked12 = newShape(layout.Blocked, 12, 5)
	blocked30 = newShape(layout.Blocked, 30, 2)
	compact13 = newShape(layout.Compact, 13, 52)
	compact16 = newShape(layout.Compact, 16, 38)
	compact22 = newShape(layout.Compact, 22, 24)

	// lookShapes are the shapes whose single lookups differ: in Compact, with remainders of at most
	// a byte, with longer ones, and with slots that do not all fit in the words of a register.
	lookShapes = []shape{blocked12, compact13, compact16, compact22}
)

func shapes() []shape  { return shapesOf(tabletest.Shapes()) }
func oneEach() []shape { return shapesOf(tabletest.OneEach()) }

func shapesOf(tables []tabletest.Shape) (all []shape) {
	for _, s := range tables {
		all = append(all, shape{s.Kind, s.Params})
	}
	return all
}

var anyBucket = tabletest.AnyBucket

// planned returns the plan of a filter with that many lines.
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
