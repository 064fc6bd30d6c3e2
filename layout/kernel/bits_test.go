package kernel_test

import (
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout/kernel"
	"github.com/mmapfilter/mmapfilter/layout/kernel/kerneltest"
)

// TestTestBits compares TestBits with its definition, bit by bit. Bits that were set before stay set.
func TestTestBits(t *testing.T) {
	kerneltest.Each(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(15, 16))
		for round := range 2000 {
			words := make([]uint64, 1<<rng.IntN(6))
			for i := range words {
				words[i] = rng.Uint64() & rng.Uint64()
			}
			positions := make([]uint64, round%70)
			want := make([]uint8, len(positions)/kernel.Group+2)
			for i := range want {
				want[i] = uint8(rng.Uint64() & rng.Uint64() & rng.Uint64())
			}
			set := slices.Clone(want)
			for i := range positions {
				positions[i] = rng.Uint64() >> rng.IntN(64)
				at := positions[i] % uint64(64*len(words))
				want[i/8] |= uint8(words[at/64]>>(at%64)&1) << (i % 8)
			}
			kernel.TestBits(words, positions, set)
			if !slices.Equal(set, want) {
				t.Fatalf("%d positions in %d words: %x, want %x", len(positions), len(words), set, want)
			}
		}
	})
}

// TestSplitLines compares SplitLines with products of 128 bits, including those with the most carries.
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
				t.Fatalf("SplitLines stored a line after the last of %d", len(hashes))
			}
		}
	})
}
