// Package layouttest has what tests of layouts share.
package layouttest

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
)

// Each runs a test for every layout that has registered, with the parameters of Params.
func Each(t *testing.T, lines uint64, f func(t *testing.T, tab layout.Table)) {
	for _, k := range layout.Kinds() {
		for _, p := range Params(k) {
			t.Run(fmt.Sprintf("%s/%v", k, p), func(t *testing.T) { f(t, Table(t, k, p, lines)) })
		}
	}
}

// compact has parameters of Compact: for usual rates, with the smallest and largest numbers of
// quotients and remainder bits, and some in between that differ in the kernel or the form of a line.
var compact = []layout.Params{
	{Quotients: 16, RemainderBits: 4},
	{Quotients: 49, RemainderBits: 4},
	{Quotients: 64, RemainderBits: 4},
	{Quotients: 43, RemainderBits: 5},
	{Quotients: 17, RemainderBits: 6},
	{Quotients: 46, RemainderBits: 6},
	{Quotients: 41, RemainderBits: 7},
	{Quotients: 37, RemainderBits: 8},
	{Quotients: 59, RemainderBits: 8},
	{Quotients: 64, RemainderBits: 9},
	{Quotients: 38, RemainderBits: 10},
	{Quotients: 55, RemainderBits: 11},
	{Quotients: 33, RemainderBits: 12},
	{Quotients: 37, RemainderBits: 13},
	{Quotients: 38, RemainderBits: 16},
	{Quotients: 16, RemainderBits: 17},
	{Quotients: 40, RemainderBits: 19},
	{Quotients: 22, RemainderBits: 23},
	{Quotients: 64, RemainderBits: 25},
	{Quotients: 25, RemainderBits: 26},
}

// Params returns the parameters of a layout that tests use. Compact has too many parameters to
// test all, so Params returns a selection. In short tests it returns even fewer.
func Params(k layout.Kind) (all []layout.Params) {
	all = layout.LegalParams(k)
	apart := 11
	if k == layout.Compact {
		all, apart = compact, 6
	}
	if !testing.Short() || len(all) <= 10 {
		return all
	}
	var few []layout.Params
	for i := 0; i < len(all); i += apart {
		few = append(few, all[i])
	}
	return few
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

// slots returns the number of slots in a line.
func slots(tab layout.Table) int { return layout.SlotsPerLine(tab.Kind(), tab.Params()) }

// Both reports whether every lookup goes on to the second line.
func Both(tab layout.Table) bool {
	_, ends := tab.(layout.Hosts)
	return !ends
}

// SetOverflow sets the overflow bits of an item, if the table has such bits.
func SetOverflow(tab layout.Table, l *layout.Line, it layout.Item) {
	if marks, ok := tab.(layout.Hosts); ok {
		marks.SetOverflow(l, it, nil)
	}
}

// Into returns a function that stores into a stash.
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

// FillRandom fills the lines of a view at random: some stay empty, some become full. The lines get the
// items of hashes, and random items. A quarter of the random items have fingerprint 1, so that there
// are long runs of equal fingerprints. FillRandom also sets some overflow bits.
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
