package all_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/kernel"
	"github.com/mmapfilter/mmapfilter/layout/layouttest"
)

// BenchmarkKernels looks hashes up in batches and one by one, in a table that fits in the cache of a
// core and in one of 1 GiB. The lines are full except for up to two slots.
//
//	go test ./layout/all -run '^$' -bench Kernels
func BenchmarkKernels(b *testing.B) {
	defer kernel.Use(kernel.InUse().String())
	for _, p := range []layout.Params{{Quotients: 41, RemainderBits: 7}, {Quotients: 38, RemainderBits: 10}, {Quotients: 40, RemainderBits: 19}} {
		large := uint64(1 << 24)
		if testing.Short() {
			large = 1 << 16
		}
		for _, lines := range []uint64{1 << 12, large} {
			tab, rng := layouttest.Table(b, layout.Compact, p, lines), rand.New(rand.NewPCG(1, lines))
			v := layouttest.View(tab)
			fill(rng, tab, v)
			for _, batch := range []int{1, 64, 4096} {
				hashes, found := make([]uint64, batch), make([]bool, batch)
				for _, name := range kernel.Names() {
					b.Run(fmt.Sprintf("%v/KiB=%d/batch=%d/kernel=%s", p, lines*layout.LineBytes>>10, batch, name), func(b *testing.B) {
						kernel.Use(name)
						keys := 0
						for b.Loop() {
							for i := range hashes {
								hashes[i] = rng.Uint64()
							}
							if batch == 1 {
								found[0] = layout.Contains(tab, v, hashes[0])
							} else {
								layout.ContainsHashes(tab, v, hashes, found)
							}
							keys += batch
						}
						b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(keys), "ns/key")
					})
				}
			}
		}
	}
}

// fill makes each line a copy of one of a thousand lines, which are full except for up to two slots
// and have the overflow bits of two items.
func fill(rng *rand.Rand, tab layout.Table, v *layout.View) {
	var images [1000]layout.Line
	for i := range images {
		l := &images[i]
		slots := layout.SlotsPerLine(tab.Kind(), tab.Params())
		for leave := rng.IntN(3); slots-len(tab.Items(nil, l, 0)) > leave; {
			it := tab.Split(rng.Uint64())
			it.Line = 0
			tab.Place(l, it, nil)
		}
		for range 2 {
			it := tab.Split(rng.Uint64())
			it.Line = 0
			tab.(layout.Hosts).SetOverflow(l, it, nil)
		}
	}
	for line := range tab.Lines() {
		*layout.LineAt(v.Region, line) = images[rng.IntN(len(images))]
	}
}
