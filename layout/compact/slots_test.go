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

// TestBySlots: a table has vectors, which load its slots into a register, if a line has at most 64
// slots, or at most 32 if remainders are long. This holds at all rates from 3 % to 1e-8.
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
			t.Errorf("%v has no vectors", p)
		}
	}
}

// TestLongestRun looks fingerprints up in lines where all items have one quotient and, except the last,
// one remainder.
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

// TestOneQuotient looks fingerprints up in lines where all items have one quotient and the highest
// remainder. With any other quotient, neither the highest remainder is found nor the lowest, which is
// what free slots contain.
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

// eachQuotient runs a test for all kernels, tables of Compact and quotients; a short run skips most
// quotients. contains looks a fingerprint up in a line in both ways that a single lookup may take.
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
					t.Fatalf("%#x: the Direct answers %t, the table %t", fp, found, !found)
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

// TestVectorsAreLines: each vector that a kernel loads at once is in one cache line.
func TestVectorsAreLines(t *testing.T) {
	layouttest.InOneCacheLine(t, func() any { return new(slotVectors) }, "from", "shifts", "values")
}
