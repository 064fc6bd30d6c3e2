package peer

import (
	"math"
	"testing"
)

// TestRivals: in a full filter no key is absent, and the rate is that of the formula. After deletes of
// half of the keys the others are found; after deletes of all, every bit of the table is 0.
func TestRivals(t *testing.T) {
	const bytes, absent = 3 << 17, 1_000_000
	counting, err := NewCounting(bytes, bytes*2/13)
	must(t, err)
	quotient, err := NewQuotient(18, 9)
	must(t, err)
	dleft, err := NewDLeft(bytes, 12)
	must(t, err)
	k := float64(counting.k)
	for _, c := range []struct {
		name   string
		filter interface {
			Insert(key uint64) bool
			Contains(key uint64) bool
			Delete(key uint64) bool
			Bytes() uint64
		}
		keys  uint64
		rate  func(n float64) float64
		words []uint64
	}{
		{"counting", counting, bytes * 2 / 13, func(n float64) float64 { return math.Pow(1-math.Exp(-k*n/float64(counting.counters)), k) }, counting.words},
		{"quotient", quotient, math.MaxUint64, func(n float64) float64 { return 1 - math.Exp(-n/float64(quotient.last+1)/512) }, quotient.slots.words},
		{"d-left", dleft, math.MaxUint64, func(n float64) float64 { return n / float64(dleft.buckets) / 4096 }, dleft.halves.words},
	} {
		n := uint64(0)
		for n < c.keys && c.filter.Insert(n) {
			n++
		}
		if c.filter.Bytes() > bytes || c.filter.Bytes() < bytes-64 || n < bytes/8 {
			t.Errorf("%s: %d keys in %d bytes", c.name, n, c.filter.Bytes())
		}
		found := 0
		for i := range uint64(absent) {
			if c.filter.Contains(1<<32 + i) {
				found++
			}
		}
		want, got := c.rate(float64(n)), float64(found)/absent
		// Five standard deviations of the sample, and 2 % for the choice of the table.
		if band := 5*math.Sqrt(want*(1-want)/absent) + 0.02*want; math.Abs(got-want) > band {
			t.Errorf("%s: rate %.5f, want %.5f ± %.5f", c.name, got, want, band)
		}
		for i := uint64(1); i < n; i += 2 {
			if !c.filter.Delete(i) {
				t.Fatalf("%s: key %d is not there to be deleted", c.name, i)
			}
		}
		for i := uint64(0); i < n; i += 2 {
			if !c.filter.Contains(i) || !c.filter.Delete(i) {
				t.Fatalf("%s: key %d went with another", c.name, i)
			}
		}
		for i, w := range c.words {
			if w != 0 {
				t.Fatalf("%s: all keys are deleted, and word %d is %#x", c.name, i, w)
			}
		}
	}
}

func TestParameters(t *testing.T) {
	for i, f := range []func() error{
		func() error { _, err := NewCounting(7, 1); return err },
		func() error { _, err := NewCounting(64, 0); return err },
		func() error { _, err := NewQuotient(2, 9); return err },
		func() error { _, err := NewQuotient(20, 45); return err },
		func() error { _, err := NewDLeft(1<<20, 15); return err },
		func() error { _, err := NewDLeft(55, 12); return err },
	} {
		if f() == nil {
			t.Errorf("case %d gives a filter", i)
		}
	}
}
