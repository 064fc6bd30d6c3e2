package builder

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestSortEntries: entries come in the order of their hashes, and equal hashes in that of their
// operations, however many there are and however they are spread.
func TestSortEntries(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var spare []entry
	for _, n := range []int{0, 1, 2, 3, 17, 100, 5000, 100_000} {
		for _, spread := range []uint64{1, 3, 1 << 20, 1 << 54} {
			entries := make([]entry, n)
			for i := range entries {
				entries[i] = entry{5<<54 | rng.Uint64N(spread), operation(i)}
			}
			rng.Shuffle(n, func(i, j int) { entries[i], entries[j] = entries[j], entries[i] })
			want := slices.Clone(entries)
			slices.SortFunc(want, byHash)
			entries, spare = sortEntries(entries, spare, 10)
			if !slices.Equal(entries, want) {
				t.Fatalf("%d entries over %d hashes are out of order", n, spread)
			}
		}
	}
}
