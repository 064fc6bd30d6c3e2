package all

import (
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
)

// TestEpochFallsBack: the epoch of a file that is superseded falls again if the other file cannot
// take its place. A lookup that sees the high epoch and, later, a counter that has risen does not
// take them for what they were. An item comes home, its file is superseded in vain, and the next
// move begins: some of the stores are made before one load of a lookup, others before another one.
func TestEpochFallsBack(t *testing.T) {
	g, err := layout.NewGeometry(layout.Packed, layout.Params{FingerprintBits: 12, BucketSize: 4}, 200)
	if err != nil {
		t.Fatal(err)
	}
	table := layout.NewTable(g)
	const hash = 0x9e3779b97f4a7c15
	home := table.Split(hash)
	other := table.Alternate(home)
	words := func() (runtime, stash, region []uint64) {
		return make([]uint64, layout.RuntimeWords), make([]uint64, layout.StashBytes/8), make([]uint64, g.RegionBytes/8)
	}
	image := func(it layout.Item) []uint64 {
		_, _, region := words()
		var l layout.Line
		layout.Load(table, region, it.Line, &l)
		if !table.Place(&l, it, nil) {
			t.Fatal("no room")
		}
		layout.Store(table, region, it.Line, &l)
		return region
	}
	here, there := image(home), image(other)
	type store struct{ word, value uint64 }
	var stores []store
	counterOf := func(it layout.Item) uint64 {
		first, _ := table.Words(it.Line)
		return layout.WordRuntime + layout.CounterOf(layout.WordRegion+first)
	}
	counters := map[uint64]uint64{}
	turn := func(it layout.Item) {
		c := counterOf(it)
		counters[c]++
		stores = append(stores, store{c, counters[c]})
	}
	put := func(it layout.Item, region []uint64) {
		first, n := table.Words(it.Line)
		for w := first; w < first+uint64(n); w++ {
			stores = append(stores, store{layout.WordRegion + w, region[w]})
		}
	}
	_, _, empty := words()
	epoch := uint64(layout.WordRuntime + layout.RuntimeEpoch)
	put(home, here)
	turn(other)
	put(other, empty)
	turn(other)
	stores = append(stores, store{epoch, layout.Superseded}, store{epoch, 2})
	turn(other) // the next move begins
	run := func(first, second, k, m int) (found bool) {
		runtime, stash, region := words()
		copy(region, there)
		runtime[layout.RuntimeEpoch] = 2
		view := layout.ViewOf(region, stash, runtime)
		done, loads := 0, 0
		until := func(n int) {
			for ; done < n; done++ {
				switch s := stores[done]; {
				case s.word >= layout.WordRegion:
					region[s.word-layout.WordRegion] = s.value
				default:
					runtime[s.word-layout.WordRuntime] = s.value
				}
			}
		}
		return layout.Lookup(table, func(word uint64) uint64 {
			if loads == k {
				until(first)
			}
			if loads == m {
				until(second)
			}
			loads++
			return view.At(word)
		}, hash)
	}
	const loads = 26 // two looks
	tried := 0
	for first := range len(stores) {
		for second := first; second <= len(stores); second++ {
			for k := range loads {
				for m := k; m < loads; m++ {
					tried++
					if !run(first, second, k, m) {
						t.Fatalf("certainly not, with %d stores before load %d and %d before load %d", first, k, second, m)
					}
				}
			}
		}
	}
	t.Logf("%d schedules of %d stores and %d loads", tried, len(stores), loads)
}
