package build

import (
	"math/rand/v2"
	"testing"
)

func TestSortHashes(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	for _, n := range []int{0, 1, 2, 31, 32, 33, 100, 5000, 300_000} {
		for _, prefix := range []uint{0, 1, 10, 40, 63, 64} {
			for _, spread := range []uint64{^uint64(0), 0, 7, 1 << 40} {
				hashes := make([]uint64, n)
				fixed := ^(^uint64(0) >> prefix) // the top prefix bits
				for i := range hashes {
					hashes[i] = 0xABCDEF0123456789&fixed | rng.Uint64()&spread&^fixed
				}
				var sum, want uint64
				for _, h := range hashes {
					want += h
				}
				sorted := sortHashes(hashes, make([]uint64, n), prefix)
				for i, h := range sorted {
					sum += h
					if i > 0 && sorted[i-1] > h {
						t.Fatalf("%d hashes, prefix %d: not sorted at %d", n, prefix, i)
					}
				}
				if sum != want || len(sorted) != n {
					t.Fatalf("%d hashes, prefix %d: the sorted hashes are not the same hashes", n, prefix)
				}
			}
		}
	}
}
