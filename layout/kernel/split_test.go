package kernel_test

import (
	"math"
	"math/bits"
	"math/rand/v2"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout/kernel"
	"github.com/mmapfilter/mmapfilter/layout/kernel/kerneltest"
)

// TestSplitLines compares with products of 128 bits, where sums of the halves carry most too.
func TestSplitLines(t *testing.T) {
	kerneltest.Each(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(17, 18))
		extremes := []uint64{0, 1, 1<<32 - 1, 1 << 32, 1<<32 + 1, math.MaxUint64 - 1<<32, math.MaxUint64}
		for round := range 2000 {
			n := rng.Uint64() >> rng.IntN(64)
			if round < len(extremes) {
				n = extremes[round]
			}
			hashes, lines := make([]uint64, round%70), make([]uint64, round%70+1)
			for i := range hashes {
				if hashes[i] = rng.Uint64(); i < len(extremes) {
					hashes[i] = extremes[i]
				}
			}
			kernel.SplitLines(hashes, lines, n)
			for i, h := range hashes {
				if want, _ := bits.Mul64(h, n); lines[i] != want {
					t.Fatalf("the line of %#x of %#x is %#x, want %#x", h, n, lines[i], want)
				}
			}
			if lines[len(hashes)] != 0 {
				t.Fatalf("the line after %d is stored to", len(hashes))
			}
		}
	})
}
