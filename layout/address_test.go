package layout

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestSplitLines compares with SplitHash, where sums of the halves carry most too.
func TestSplitLines(t *testing.T) {
	eachKernel(t, func(t *testing.T) {
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
			splitLines(hashes, lines, n)
			for i, h := range hashes {
				if want, _ := SplitHash(h, n); lines[i] != want {
					t.Fatalf("the line of %#x of %#x is %#x, want %#x", h, n, lines[i], want)
				}
			}
			if lines[len(hashes)] != 0 {
				t.Fatalf("the line after %d is stored to", len(hashes))
			}
		}
	})
}
