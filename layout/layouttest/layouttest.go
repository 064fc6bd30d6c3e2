// Package layouttest has what tests of layouts share.
package layouttest

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
)

// Each runs a test for every layout that has registered, with all its parameters; if tests are
// short, with some of the parameters of the layouts that have many.
func Each(t *testing.T, lines uint64, f func(t *testing.T, tab layout.Table)) {
	for _, k := range layout.Kinds() {
		all := layout.LegalParams(k)
		for i, p := range all {
			if testing.Short() && len(all) > 10 && i%11 != 0 {
				continue
			}
			t.Run(fmt.Sprintf("%s/f=%d,b=%d", k, p.FingerprintBits, p.BucketSize), func(t *testing.T) {
				f(t, Table(t, k, p, lines))
			})
		}
	}
}

// Table returns the table of a layout with that many lines.
func Table(t testing.TB, k layout.Kind, p layout.Params, lines uint64) layout.Table {
	t.Helper()
	g, err := layout.NewGeometry(k, p, lines)
	if err != nil {
		t.Fatal(err)
	}
	return layout.NewTable(g)
}

// View returns a view of an empty table.
func View(tab layout.Table) *layout.View {
	first, n := tab.Words(tab.Lines() - 1)
	return &layout.View{
		Region:  make([]uint64, (first+uint64(n)+layout.BlockWords-1)/layout.BlockWords*layout.BlockWords),
		Stash:   make([]uint64, layout.StashWords),
		Runtime: make([]uint64, layout.RuntimeWords),
	}
}

// Victims returns all victims of the table, or a few.
func Victims(tab layout.Table, l *layout.Line, it layout.Item, all bool) []layout.Item {
	victims, more := tab.Victims(nil, l, it, all)
	if all && more {
		panic("there are more victims than all")
	}
	return victims
}

// slots returns the number of slots in a line.
func slots(tab layout.Table) int { return layout.SlotsPerLine(tab.Kind(), tab.Params()) }

// Both reports whether every lookup goes on to the second line.
func Both(tab layout.Table) bool {
	_, ends := tab.(layout.Overflows)
	return !ends
}

// SetOverflow sets the overflow bits of an item, if there are any.
func SetOverflow(tab layout.Table, l *layout.Line, it layout.Item) {
	if marks, ok := tab.(layout.Overflows); ok {
		marks.SetOverflow(l, it, nil)
	}
}

// Into stores into a stash.
func Into(stash []uint64) layout.StashStore {
	return func(word, value uint64, _ bool) { stash[word-layout.WordStash] = value }
}

// Change changes the image of a line of a region.
func Change(tab layout.Table, region []uint64, line uint64, do func(l *layout.Line)) {
	var l layout.Line
	layout.Load(tab, region, line, &l)
	do(&l)
	layout.Store(tab, region, line, &l)
}

// FillRandom fills the lines of a view: empty, full or between, with long runs of equal
// fingerprints among them, with the items of the hashes that are given and others, and
// with some overflow bits.
func FillRandom(rng *rand.Rand, tab layout.Table, v *layout.View, hashes []uint64) {
	for line := range tab.Lines() {
		Change(tab, v.Region, line, func(l *layout.Line) {
			for range slots(tab) * rng.IntN(6) / 5 {
				it := tab.Split(rng.Uint64())
				if it.Line = line; rng.IntN(4) == 0 {
					it.Fp = 1
				}
				tab.Place(l, it, nil)
			}
		})
	}
	for _, h := range hashes {
		it := tab.Split(h)
		Change(tab, v.Region, it.Line, func(l *layout.Line) { tab.Place(l, it, nil) })
		if it = tab.Split(rng.Uint64()); rng.IntN(4) == 0 {
			Change(tab, v.Region, it.Line, func(l *layout.Line) { SetOverflow(tab, l, it) })
		}
	}
}
