package compact

import (
	"math/bits"
	"math/rand/v2"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/kernel"
	"github.com/mmapfilter/mmapfilter/layout/kernel/kerneltest"
	"github.com/mmapfilter/mmapfilter/layout/layouttest"
)

// TestBySlots: the slots of a line get into bytes of a register, wherever there are at most 64, and 32
// if remainders are long; so they do at all rates from 3 % to 1e-8.
func TestBySlots(t *testing.T) {
	if !kernel.HasVBMI {
		t.Skip("no VBMI")
	}
	for _, p := range layout.LegalParams(layout.Compact) {
		c := newTable(p, 1)
		room := uint64(64)
		if p.RemainderBits >= apart {
			room = 32
		}
		if (c.vectors != nil) != (c.b <= room) || c.vectors != nil && uint64(bits.OnesCount64(c.inUse)) != c.b {
			t.Errorf("%v: %d of %d slots", p, bits.OnesCount64(c.inUse), c.b)
		}
		if c.vectors == nil && p.RemainderBits > 5 && p.Quotients > 31 {
			t.Errorf("%v has none", p)
		}
	}
}

// TestLongestRun: lines where all items have one quotient, and the last one another remainder.
func TestLongestRun(t *testing.T) {
	eachQuotient(t, func(t *testing.T, c *table, quotient, _ uint32, contains func(l *layout.Line, fp uint32) bool) {
		fp := quotient<<c.r | 1
		for n := range int(c.b) {
			var l layout.Line
			for range n {
				c.Place(&l, layout.Item{Fp: fp - 1}, nil)
			}
			c.Place(&l, layout.Item{Fp: fp}, nil)
			for other, want := range map[uint32]bool{fp: true, fp - 1: n > 0, fp + 1: false, fp ^ 1<<c.r: false} {
				if uint64(other) >= c.fingerprints {
					continue
				}
				if got := contains(&l, other); got != want {
					t.Fatalf("%#x %d times, and %#x; %#x: %t", fp-1, n, fp, other, got)
				}
			}
		}
	})
}

// TestOneQuotient: lines where all items have one quotient and the highest remainder. No other
// quotient has that one, nor the lowest, which free slots seem to have.
func TestOneQuotient(t *testing.T) {
	eachQuotient(t, func(t *testing.T, c *table, quotient, step uint32, contains func(l *layout.Line, fp uint32) bool) {
		var l layout.Line
		for n := range int(c.b) {
			c.Place(&l, layout.Item{Fp: quotient<<c.r | uint32(c.values)}, nil)
			for other := uint32(0); other < uint32(c.quotients); other += step {
				for _, fp := range []uint32{other << c.r, other<<c.r | uint32(c.values)} {
					want := other == quotient && fp != other<<c.r
					if got := contains(&l, fp); got != want {
						t.Fatalf("%d of quotient %d; %#x: %t", n+1, quotient, fp, got)
					}
				}
			}
		}
	})
}

// eachQuotient runs a test for all kernels, tables of Compact and quotients; or for those a step
// apart, where the time is short. contains looks a fingerprint up in a line, in both ways that a
// single lookup may take.
func eachQuotient(t *testing.T, test func(t *testing.T, c *table, quotient, step uint32, contains func(l *layout.Line, fp uint32) bool)) {
	kerneltest.Each(t, func(t *testing.T) {
		layouttest.Each(t, 50, func(t *testing.T, tab layout.Table) {
			c, ok := tab.(*table)
			if !ok {
				return
			}
			const line = 7
			v, h := layouttest.View(tab), layout.NewHasher(1)
			layouttest.FillRandom(rand.New(rand.NewPCG(15, 16)), tab, v, nil)
			d := layout.NewDirect(tab, v, &h, func(h uint64) bool { return layout.Contains(tab, v, h) })
			contains := func(l *layout.Line, fp uint32) bool {
				layout.Store(tab, v.Region, line, l)
				hash := tab.Hash(layout.Item{Line: line, Fp: fp})
				found := d.ContainsHash(hash)
				if layout.Contains(tab, v, hash) != found {
					t.Fatalf("%#x: %t, and %t by the table", fp, found, !found)
				}
				return found
			}
			step := uint32(1)
			if testing.Short() {
				step = 21
			}
			for quotient := uint32(0); quotient < uint32(c.quotients); quotient += step {
				test(t, c, quotient, step, contains)
			}
		})
	})
}

// TestVectorsAreLines: what a kernel loads at once is in one line of the cache.
func TestVectorsAreLines(t *testing.T) {
	layouttest.InOneCacheLine(t, func() any { return new(slotVectors) }, "from", "shifts", "values")
}
