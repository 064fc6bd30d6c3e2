package all_test

import (
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/layouttest"
)

// TestEpochFallsBack: the epoch of a file that is superseded falls again if the other file cannot
// take its place. A lookup that saw the high epoch and later sees a higher counter must not conclude
// that nothing has changed. In the test, an item comes home, a replacement of the file fails, and the
// next move begins; some stores happen before one load of a lookup, and others before another load.
func TestEpochFallsBack(t *testing.T) {
	tab := layouttest.Table(t, layout.Packed, layout.Params{FingerprintBits: 12, BucketSize: 4}, 200)
	const hash = 0x9e3779b97f4a7c15
	home := tab.Split(hash)
	other := tab.Alternate(home)
	place := func(v *layout.View, it layout.Item) {
		layouttest.Change(tab, v.Region, it.Line, func(l *layout.Line) { tab.Place(l, it, nil) })
	}
	leave := func(v *layout.View) {
		layouttest.Change(tab, v.Region, other.Line, func(l *layout.Line) { tab.Remove(l, other, nil) })
	}
	turn := func(v *layout.View) {
		first, _ := tab.Words(other.Line)
		v.Runtime[layout.CounterOf(layout.WordRegion+first)]++
	}
	epoch := func(value uint64) func(*layout.View) {
		return func(v *layout.View) { v.Runtime[layout.RuntimeEpoch] = value }
	}
	stores := []func(*layout.View){
		func(v *layout.View) { place(v, home) }, turn, leave, turn,
		epoch(layout.Superseded), epoch(2),
		turn, // the next move begins
	}
	run := func(first, second, k, m int) (found bool) {
		v := layouttest.View(tab)
		place(v, other)
		epoch(2)(v)
		done, loads := 0, 0
		until := func(n int) {
			for ; done < n; done++ {
				stores[done](v)
			}
		}
		return layout.Lookup(tab, func(word uint64) uint64 {
			if loads == k {
				until(first)
			}
			if loads == m {
				until(second)
			}
			loads++
			return v.At(word)
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
