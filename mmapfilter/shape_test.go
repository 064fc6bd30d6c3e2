package mmapfilter

import (
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/tabletest"
)

// A shape is a tabletest.Shape with methods that make options and plans of filters.
type shape struct{ tabletest.Shape }

// newShape returns a shape of a layout of the paper.
func newShape(k layout.Kind, f, b int) shape { return shape{tabletest.Paper(k, f, b)} }

func newCompact(quotients, remainderBits int) shape {
	return shape{tabletest.Compact(quotients, remainderBits)}
}

var (
	packed12  = newShape(layout.Packed, 12, 4)
	compact5  = newCompact(43, 5)  // 5 %
	compact7  = newCompact(41, 7)  // 1 %
	compact10 = newCompact(38, 10) // 0.1 %
	compact19 = newCompact(40, 19) // one in a million
	compact26 = newCompact(25, 26) // one in 100 million, the lowest rate

	// lookShapes has a shape for each way to look up a single key in Compact: in the run of a quotient,
	// and with one, two or four bytes of each remainder.
	lookShapes = []shape{compact5, compact7, compact10, compact19}
)

func shapes() []shape  { return shapesOf(tabletest.Shapes()) }
func oneEach() []shape { return shapesOf(tabletest.OneEach()) }

func shapesOf(tables []tabletest.Shape) (all []shape) {
	for _, s := range tables {
		all = append(all, shape{s})
	}
	return all
}

// load returns the usual design load.
func (s shape) load() float64 { return float64(layout.DesignLoads(s.Kind, s.Params).Usual) / 100 }

// options returns options that lead to the shape. A shape of Compact must be the one planned for its
// rate.
func (s shape) options(o Options) Options {
	if o.Layout = s.Kind; s.Kind == layout.Compact {
		o.FalsePositiveRate = layout.Predict(s.Kind, s.Params, s.load()).Rate
		return o
	}
	o.FingerprintBits, o.BucketSize = s.FingerprintBits, s.BucketSize
	return o
}

// planned returns a plan for a filter with so many lines.
func (s shape) planned(tb testing.TB, lines uint64, opts Options) (Plan, Options) {
	tb.Helper()
	if opts = s.options(opts); s.Kind == layout.Compact {
		opts.FalsePositiveRate = 0.9 // with so high a rate there is no limit on keys
	}
	opts.Capacity = max(uint64(float64(lines*s.Slots())*s.load()), 1)
	o := opts.withDefaults()
	plan, err := o.plan(o.Capacity)
	must(tb, err)
	plan.Lines, plan.geometry = lines, s.Geometry(tb, lines)
	return plan, o
}
