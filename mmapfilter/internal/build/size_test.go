package build

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
	_ "github.com/mmapfilter/mmapfilter/layout/all"
)

// superblockOf returns a superblock with the fields that Limit needs.
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

// TestLimitAboveCapacity covers C4: no filter may refuse a key because of its rate before it holds its
// capacity. With a capacity of 100 or more, it must accept 5 % more keys.
func TestLimitAboveCapacity(t *testing.T) {
	const step = 0.03
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
	t.Logf("limits are at least %.3f times the capacity", least)
}

// TestCompactSizes checks the parameters for usual rates, and the bits that lines take for a key.
func TestCompactSizes(t *testing.T) {
	for _, c := range []struct {
		rate        float64
		q, r        int
		percent     float64
		bits, bound float64 // bits for a key; bound limits them
	}{
		{0.1, 49, 4, 93, 6.33, 6.48}, {0.05, 43, 5, 95, 7.38, 7.42}, {0.03, 32, 6, 95, 8.42, 8.43}, {0.02, 46, 6, 95, 8.69, 8.73},
		{0.01, 41, 7, 95, 9.80, 9.85}, {0.005, 37, 8, 95, 11.00, 11.05}, {0.003, 59, 8, 95, 11.47, 11.53}, {0.001, 38, 10, 95, 13.47, 13.54},
		{1e-4, 37, 13, 94, 17.02, 17.11}, {1e-5, 38, 16, 95, 20.73, 20.83}, {1e-6, 40, 19, 95, 24.50, 24.62}, {1e-8, 25, 26, 95, 31.70, 31.86},
	} {
		s, refused := Wish{Rate: c.rate, Capacity: 1_000_000_000}.Size()
		if refused != nil {
			t.Fatal(refused.Reason)
		}
		bits := 512 * float64(s.Geometry.Lines) / 1e9
		if want := (layout.Params{Quotients: c.q, RemainderBits: c.r}); s.Geometry.Params != want || s.DesignLoad != c.percent/100 || bits > c.bound || math.Abs(bits-c.bits) > 0.01 || s.Rate > c.rate {
			t.Errorf("%g: %v, %.3f bits, %+v", c.rate, s.Geometry.Params, bits, s)
		}
	}
}

// TestRoundedRate covers C4: the predicted rate, which is rounded to its first digits, must not be above
// the rate that was asked for.
func TestRoundedRate(t *testing.T) {
	rng := rand.New(rand.NewPCG(51, 1))
	for i := range 1500 {
		asked := math.Pow(10, -8+7.5*rng.Float64())
		if i == 0 {
			asked = 1.4496035873889923e-06 // which must not be rounded up to 1.45e-06
		}
		if s, refused := (Wish{Rate: asked}).Size(); refused != nil || s.Rate > asked {
			t.Fatalf("%g was asked for: %+v", asked, s)
		}
	}
}

// TestNoLimit checks that a filter with a given f has no limit, since no rate is asked for, nor has a
// large filter at the usual rates, where slots and stash are full before the rate is reached.
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
			if kind == layout.Compact {
				break // it has no f
			}
			check(Wish{Layout: kind, FingerprintBits: p.FingerprintBits, BucketSize: p.BucketSize, Capacity: 100})
		}
		for _, rate := range []float64{0.05, 0.01, 0.001, 0.0001} {
			check(Wish{Layout: kind, Rate: rate, Capacity: 100_000})
		}
	}
}

// TestSize checks that a filter has room for its capacity at the design load, and would not have it with
// one line less, and that the predicted rate is at most the rate asked for.
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

// TestRefusals checks that a wish that cannot be met is refused, with the right field, by Check and
// Size.
func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		field string
		wish  Wish
	}{
		{"FalsePositiveRate", Wish{Rate: 1e-12}},
		{"FalsePositiveRate", Wish{Rate: math.NaN()}},
		{"FingerprintBits", Wish{FingerprintBits: 33, Layout: layout.Packed}},
		{"FingerprintBits", Wish{FingerprintBits: 12, BucketSize: 3, Layout: layout.Packed}},
		{"FingerprintBits", Wish{FingerprintBits: 12}},
		{"FingerprintBits", Wish{FingerprintBits: 13, Layout: layout.Compact}},
		{"FingerprintBits", Wish{FingerprintBits: 4, BucketSize: 1, Layout: layout.Packed, Capacity: 1 << 33}},
		{"BucketSize", Wish{Rate: 0.01, BucketSize: 9, Layout: layout.SemiSorted}},
		{"BucketSize", Wish{Rate: 0.01, BucketSize: 4}},
		{"BucketSize", Wish{Rate: 0.01, BucketSize: 55, Layout: layout.Compact}},
	} {
		refused := c.wish.Check()
		if refused == nil || refused.Field != c.field || refused.Reason == "" {
			t.Errorf("%+v: %+v", c.wish, refused)
		}
		if _, r := c.wish.Size(); r == nil || *r != *refused {
			t.Errorf("%+v: Size refuses the wish in another way: %+v", c.wish, r)
		}
	}
	for _, capacity := range []uint64{1 << 46, 1 << 63} {
		if _, refused := (Wish{Rate: 0.01, Capacity: capacity}).Size(); refused == nil || refused.Field != "Capacity" {
			t.Errorf("%d keys: %+v", capacity, refused)
		}
	}
}
