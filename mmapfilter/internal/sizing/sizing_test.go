package sizing

import (
	"math"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
	_ "github.com/mmapfilter/mmapfilter/layout/all"
)

// superblockOf returns what a Limit needs of the superblock of a filter.
func superblockOf(w Wish, s Size) *layout.Superblock {
	sb := new(layout.Superblock)
	sb.SetCapacity(w.Capacity)
	sb.SetTargetRate(w.Rate)
	if w.FingerprintBits != 0 {
		sb.SetTargetRate(ImpliedRate(s.Geometry, s.DesignLoad))
	}
	sb.SetDesignLoad(s.DesignLoad)
	return sb
}

// TestLimitAboveCapacity covers C4: no filter refuses a key for its rate before it holds its capacity,
// and with 100 keys or more it takes a few more.
func TestLimitAboveCapacity(t *testing.T) {
	step := 0.01
	if testing.Short() {
		step = 0.05
	}
	least := math.Inf(1)
	for _, kind := range layout.Kinds() {
		for exponent := -0.3; exponent > -9; exponent -= step {
			for _, capacity := range []uint64{1, 10, 100, 237, 1000, 12_345, 1_000_000} {
				w := Wish{Layout: kind, Rate: math.Pow(10, exponent), Capacity: capacity}
				s, refused := w.Size()
				if refused != nil {
					break // no layout has that rate
				}
				limit := Limit(superblockOf(w, s), s.Geometry)
				if limit < capacity || capacity >= 100 && float64(limit) < 1.05*float64(capacity) {
					t.Errorf("%s, rate %g: %d keys at most, the capacity is %d", kind, w.Rate, limit, capacity)
				}
				least = min(least, float64(limit)/float64(capacity))
			}
		}
	}
	t.Logf("at least %.3f times the capacity", least)
}

// TestNoLimit: if f is given, no rate is requested; in a large filter at the usual rates, the
// slots and the stash are the limit.
func TestNoLimit(t *testing.T) {
	check := func(w Wish) {
		s, refused := w.Size()
		if refused != nil {
			t.Fatal(refused.Reason)
		}
		if limit := Limit(superblockOf(w, s), s.Geometry); limit != NoLimit {
			t.Errorf("%+v: %d keys at most", w, limit)
		}
	}
	for _, kind := range layout.Kinds() {
		for _, p := range layout.LegalParams(kind) {
			check(Wish{Layout: kind, FingerprintBits: p.FingerprintBits, BucketSize: p.BucketSize, Capacity: 100})
		}
		for _, rate := range []float64{0.05, 0.01, 0.001, 0.0001} {
			check(Wish{Layout: kind, Rate: rate, Capacity: 100_000})
		}
	}
}

// TestSize: the capacity has room at the design load, and one line less would not do; and the rate is
// predicted to be at most the one asked for, with a margin.
func TestSize(t *testing.T) {
	for _, kind := range append(layout.Kinds(), layout.Auto) {
		for _, rate := range []float64{0.09, 0.01, 1e-3, 1e-5} {
			for _, capacity := range []uint64{1, 99, 12_345, 10_000_000} {
				w := Wish{Layout: kind, Rate: rate, Capacity: capacity}
				s, refused := w.Size()
				if refused != nil {
					if refused.Field != "FalsePositiveRate" {
						t.Errorf("%+v: %+v", w, refused)
					}
					continue
				}
				percent := uint64(math.Round(100 * s.DesignLoad))
				slots := uint64(layout.SlotsPerLine(s.Geometry.Kind, s.Geometry.Params))
				if kind != layout.Auto && s.Geometry.Kind != kind || capacity*100 > percent*s.Geometry.Slots() || s.Rate > rate {
					t.Errorf("%+v: %+v", w, s)
				}
				lines, refused := linesFor(capacity, slots*percent, 512)
				if refused != nil || capacity < 10_000 && lines > 1 && (lines-1)*slots*percent >= capacity*100 {
					t.Errorf("%+v: %d lines of %d slots, %+v", w, lines, slots, refused)
				}
			}
		}
	}
}

// TestRefusals: what cannot be met is refused, by its field, whether or not a size is asked for.
func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		field string
		wish  Wish
	}{
		{"FalsePositiveRate", Wish{Rate: 1e-12}},
		{"FalsePositiveRate", Wish{Rate: math.NaN()}},
		{"FingerprintBits", Wish{FingerprintBits: 33}},
		{"FingerprintBits", Wish{FingerprintBits: 12, BucketSize: 3}},
		{"FingerprintBits", Wish{FingerprintBits: 13, Layout: layout.Blocked}},
		{"FingerprintBits", Wish{FingerprintBits: 4, BucketSize: 1, Layout: layout.Packed, Capacity: 1 << 33}},
		{"BucketSize", Wish{Rate: 0.01, BucketSize: 9}},
		{"BucketSize", Wish{Rate: 0.01, BucketSize: 53, Layout: layout.Compact}},
	} {
		refused := c.wish.Check()
		if refused == nil || refused.Field != c.field || refused.Reason == "" {
			t.Errorf("%+v: %+v", c.wish, refused)
		}
		if _, r := c.wish.Size(); r == nil || *r != *refused {
			t.Errorf("%+v: the size is refused otherwise: %+v", c.wish, r)
		}
	}
	for _, capacity := range []uint64{1 << 46, 1 << 63} {
		if _, refused := (Wish{Rate: 0.01, Capacity: capacity}).Size(); refused == nil || refused.Field != "Capacity" {
			t.Errorf("%d keys: %+v", capacity, refused)
		}
	}
}
