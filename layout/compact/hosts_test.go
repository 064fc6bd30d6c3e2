package compact

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
)

// TestLeavers: whatever a line contains, removing any of its Victims makes room. Leavers returns the
// victims in ascending order of cost and, among equal costs, from the last victim to the first; the new
// item, if it may leave too, comes before all others of its cost. Of each cost and direction, Leavers
// returns only the first.
func TestLeavers(t *testing.T) {
	eachCompact(t, 50, func(t *testing.T, tab *table) {
		rng := rand.New(rand.NewPCG(tab.r, 9))
		lists := 0
		for range 5000 {
			l := tab.picture(nil, nil, rng.Uint64())
			for tab.Place(&l, layout.Item{Line: 7, Bucket: uint32(rng.IntN(8)) / 7, Fp: tab.someFingerprint(rng)}, nil) {
			}
			for range rng.IntN(3) {
				l[rng.IntN(len(l))] ^= 1 << rng.IntN(64)
			}
			it := layout.Item{Line: 7, Fp: tab.someFingerprint(rng)}
			itself := rng.IntN(2) == 0
			if !itself {
				it.Bucket = uint32(rng.IntN(2))
			}
			all := tab.Victims(nil, &l, it)
			for _, v := range all {
				if less := l; !tab.Remove(&less, v, nil) || !tab.Place(&less, it, nil) {
					t.Fatalf("%016x: without %+v there is no room for %+v", l, v, it)
				}
			}
			if itself {
				all = append(all, it)
			}
			var want []layout.Item
			cost := func(v layout.Item) int { // of lookups, if it leaves
				switch {
				case v.Bucket == aGuest:
					return 0
				case tab.overflowed(&l, v):
					return 1
				}
				return 2
			}
			for of := range 3 {
				came := map[uint32]bool{}
				for _, v := range slices.Backward(all) {
					if cost(v) == of && !came[v.Fp%16] {
						came[v.Fp%16] = true
						want = append(want, v)
					}
				}
			}
			if got := tab.Leavers(nil, &l, it, itself); !slices.Equal(got, want) {
				t.Fatalf("%016x: for %+v, itself %t: %+v, want %+v", l, it, itself, got, want)
			}
			if len(want) > 2 {
				lists++
			}
		}
		if lists == 0 {
			t.Error("no line had items to choose from")
		}
	})
}
