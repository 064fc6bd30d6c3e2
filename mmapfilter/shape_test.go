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
func (s shape) lines(forties uint64) uint64 { return s.table().Lines(forties) }

// newShape returns a shape of a layout of the paper.
func newShape(k layout.Kind, f, b int) shape {
	return shape{k, layout.Params{FingerprintBits: f, BucketSize: b}}
}

func newCompact(quotients, remainderBits int) shape {
	return shape{layout.Compact, layout.Params{Quotients: quotients, RemainderBits: remainderBits}}
}

var (
	packed12  = newShape(layout.Packed, 12, 4)
	compact5  = newCompact(43, 5)  // 5 %
	compact7  = newCompact(41, 7)  // 1 %
	compact10 = newCompact(38, 10) // 0.1 %
	compact19 = newCompact(40, 19) // one in a million
	compact26 = newCompact(25, 26) // one in 100 million, the lowest rate there is

	// lookShapes are the shapes whose single lookups differ: in Compact, with the run of a quotient, and
	// with one byte, two and four of each remainder.
	lookShapes = []shape{compact5, compact7, compact10, compact19}
)

func shapes() []shape  { return shapesOf(tabletest.Shapes()) }
func oneEach() []shape { return shapesOf(tabletest.OneEach()) }

func shapesOf(tables []tabletest.Shape) (all []shape) {
	for _, s := range tables {
		all = append(all, shape{s.Kind, s.Params})
	}
	return all
}

// options returns options that lead to the shape. One of Compact must be what is planned for its rate.
func (s shape) options(o Options) Options {
	o.Layout = s.kind
	if s.kind != layout.Compact {
		o.FingerprintBits, o.BucketSize = s.FingerprintBits, s.BucketSize
		return o
	}
	load := float64(layout.DesignLoads(s.kind, s.Params).Usual) / 100
	o.FalsePositiveRate = layout.Predict(s.kind, s.Params, load).Rate
	return o
}

// planned returns the plan of a filter with that many lines.
func (s shape) planned(tb rapid.TB, lines uint64, opts Options) (Plan, Options) {
	tb.Helper()
	if opts = s.options(opts); s.kind == layout.Compact {
		opts.FalsePositiveRate = 0.9 // then there is no limit on keys
	}
	load := float64(layout.DesignLoads(s.kind, s.Params).Usual) / 100
	opts.Capacity = max(uint64(float64(lines*s.slots())*load), 1)
	o := opts.withDefaults()
	plan, err := o.plan(o.Capacity)
	if err == nil {
		plan.Lines = lines
		plan.geometry, err = layout.NewGeometry(s.kind, s.Params, lines)
	}
	must(tb, err)
	return plan, o
}
