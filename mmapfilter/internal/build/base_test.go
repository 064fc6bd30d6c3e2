package build

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout/hashes"
	"github.com/mmapfilter/mmapfilter/recovery"
)

// TestBase counts hashes in bases of no, one and many pages, first in any order, and then in ascending
// order. It asks for hashes that the base has, up to a thousand times each, and for others.
func TestBase(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{0, 1, hashes.BaseItems, hashes.BaseItems + 1, 40_000} {
		var all []uint64
		for len(all) < n {
			copies := 1
			if rng.IntN(n) < 30 {
				copies = rng.IntN(1000)
			}
			h := rng.Uint64()
			if rng.IntN(20) == 0 {
				h = ^uint64(0) << rng.IntN(64)
			}
			for range min(copies, n-len(all)) {
				all = append(all, h)
			}
		}
		slices.Sort(all)
		h := keptBase(t, all)
		counts := map[uint64]int{}
		for _, hash := range all {
			counts[hash]++
		}
		asked := []uint64{0, ^uint64(0)}
		for _, hash := range all {
			if rng.IntN(8) == 0 || counts[hash] > 1 {
				asked = append(asked, hash-1, hash, hash+1)
			}
		}
		for range 2 {
			b := baseReader{kept: h}
			for _, hash := range asked {
				if n, err := b.count(hash); err != nil || n != counts[hash] {
					t.Fatalf("of %d items, %d have hash %#x, not %d; %v", len(all), n, hash, counts[hash], err)
				}
			}
			slices.Sort(asked)
		}
	}
}

// TestBaseReadsLittle: to count a hash in a base of many pages, count reads only a few of them.
func TestBaseReadsLittle(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	all := make([]uint64, 200*hashes.BaseItems)
	for i := range all {
		all[i] = rng.Uint64()
	}
	slices.Sort(all)
	h := keptBase(t, all)
	damaged := 0
	for range 50 { // count fails if it reads a damaged page
		i := rng.IntN(len(all))
		page := uint64(hashes.FirstBase + i/hashes.BaseItems)
		h.File.(*keptFile).pages[hashes.FirstBase+(page+100)%200][250] = 0
		n, err := (&baseReader{kept: h}).count(all[i])
		if err != nil {
			damaged++
		} else if n != 1 {
			t.Errorf("%d of %#x", n, all[i])
		}
	}
	if damaged > 15 {
		t.Errorf("for %d of 50 hashes, count read a damaged page far away", damaged)
	}
}

// keptBase returns a file with a base of the given hashes.
func keptBase(t *testing.T, sorted []uint64) *recovery.Kept {
	t.Helper()
	f := new(keptFile)
	b := hashes.NewBase(hashes.Header{Identity: 7, Ages: []hashes.Age{{}}}, f.WritePages)
	for _, h := range sorted {
		must(t, b.Add(hashes.Item{Hash: h}))
	}
	header, _, err := b.End()
	must(t, err)
	return &recovery.Kept{File: f, Header: header}
}
