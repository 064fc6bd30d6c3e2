package all_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/kernel"
)

// BenchmarkKernels asks for hashes in batches: of a table in the cache of a core,
// and of one of 1 GiB, half full of items. "limit" reads a word of the line of each
// hash, which has been asked for 64 hashes before. All take turns, and the medians
// of the rounds are reported.
//
//	go test ./layout/all -run '^$' -bench Kernels
func BenchmarkKernels(b *testing.B) {
	for _, p := range []layout.Params{{Quotients: 41, RemainderBits: 7}, {Quotients: 38, RemainderBits: 10}, {Quotients: 40, RemainderBits: 19}} {
		large := uint64(1 << 24)
		if testing.Short() {
			large = 1 << 16
		}
		for _, lines := range []uint64{1 << 12, large} {
			g, err := layout.NewGeometry(layout.Compact, p, lines)
			if err != nil {
				b.Fatal(err)
			}
			tab := layout.NewTable(g)
			rng := rand.New(rand.NewPCG(1, lines))
			v := &layout.View{Region: make([]uint64, lines*layout.BlockWords), Stash: make([]uint64, layout.StashWords), Runtime: make([]uint64, layout.RuntimeWords)}
			fill(rng, tab, v)
			for _, batch := range []int{1, 64, 4096} {
				b.Run(fmt.Sprintf("%v/KiB=%d/batch=%d", p, g.RegionBytes>>10, batch), func(b *testing.B) {
					benchmarkKernels(b, rng, tab, v, batch)
				})
			}
		}
	}
}

// fill has the lines be one of a thousand each, full but for one or two slots, with the
// overflow bits of two items.
func fill(rng *rand.Rand, tab layout.Table, v *layout.View) {
	var images [1000]layout.Line
	for i := range images {
		l := &images[i]
		for leave := uint64(rng.IntN(3)); tab.Free(l[:], 0) > leave; {
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

// benchmarkKernels asks in batches; in batches of one, by Contains.
func benchmarkKernels(b *testing.B, rng *rand.Rand, tab layout.Table, v *layout.View, batch int) {
	const rounds, hashes = 15, 1 << 18
	h, found := make([]uint64, hashes), make([]bool, hashes)
	type way struct {
		name string
		ask  func(h []uint64, found []bool)
		took []time.Duration
	}
	ways := []*way{{name: "limit", ask: func(h []uint64, found []bool) { limit(tab, v, h) }}}
	for _, name := range kernel.Names() {
		ways = append(ways, &way{name: name, ask: func(h []uint64, found []bool) {
			kernel.Use(name)
			if batch == 1 {
				for i, h := range h {
					found[i] = layout.Contains(tab, v, h)
				}
				return
			}
			for ; len(h) > 0; h, found = h[batch:], found[batch:] {
				layout.ContainsHashes(tab, v, h[:batch], found[:batch])
			}
		}})
	}
	defer kernel.Use(kernel.InUse().String())
	for range rounds {
		for _, w := range ways {
			for i := range h {
				h[i] = rng.Uint64()
			}
			begun := time.Now()
			w.ask(h, found)
			w.took = append(w.took, time.Since(begun))
		}
	}
	least := 0.0
	for _, w := range ways {
		slices.Sort(w.took)
		ns := float64(w.took[rounds/2]) / hashes
		b.ReportMetric(ns, w.name+"-ns/key")
		if w.name == "limit" {
			least = ns
			continue
		}
		b.ReportMetric(ns/least, w.name+"/limit")
	}
	b.ReportMetric(0, "ns/op")
}

var sum uint64

const ahead = 64

func limit(tab layout.Table, v *layout.View, hashes []uint64) {
	lines := tab.Lines()
	at := func(h uint64) *uint64 {
		line, _ := layout.SplitHash(h, lines)
		return &v.Region[line*layout.BlockWords]
	}
	for _, h := range hashes[:ahead] {
		kernel.Prefetch(at(h))
	}
	for i, h := range hashes[:len(hashes)-ahead] {
		kernel.Prefetch(at(hashes[i+ahead]))
		sum += *at(h)
	}
}
