package compact

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/layouttest"
	"github.com/mmapfilter/mmapfilter/layout/multiset"
)

// TestFillLines covers P9: of any number of items, each is at home, or in its other line, or left. An
// item is left only if its home line is full, and its other line has no room or is in another range. If
// there is room at home for all, all are there. Exactly the overflow bits are set that guests need, and
// other ranges stay empty. Without items, FillLines stores nothing.
func TestFillLines(t *testing.T) {
	const lines, from, to = 100, 20, 90
	eachCompact(t, lines, func(t *testing.T, tab *table) {
		tab.FillLines(nil, from, to, nil, nil)
		rng := rand.New(rand.NewPCG(tab.r, 5))
		for _, percent := range []uint64{0, 30, 80, 93, 98, 150} {
			v, m := layouttest.View(tab), multiset.New(tab)
			hashes := make([]uint64, percent*tab.b*(to-from)/100)
			for i := range hashes {
				line := from + rng.Uint64N(to-from)
				if rng.IntN(50) == 0 {
					line = from + rng.Uint64N(3)
				}
				if hashes[i] = layout.JoinHash(line, rng.Uint64()/2, lines); rng.IntN(50) == 0 {
					hashes[i] = hashes[rng.IntN(i+1)]
				}
				m.Add(hashes[i], 1)
			}
			slices.Sort(hashes)
			left := tab.FillLines(v.Region, from, to, hashes, []uint64{7})[1:]
			for _, h := range left {
				m.Add(h, -1)
				it := tab.Split(h)
				away := tab.Alternate(it)
				l := *layout.LineAt(v.Region, away.Line)
				if away.Line >= from && away.Line < to && tab.Place(&l, away, nil) {
					t.Fatalf("at %d %%, %+v is left, with room in line %d", percent, it, away.Line)
				}
				if n := tab.items(layout.LineAt(v.Region, it.Line)); n != tab.b {
					t.Fatalf("at %d %%, %+v is left, with %d items at home", percent, it, n)
				}
			}
			if percent <= 80 && len(left) > len(hashes)/10 || percent == 150 && len(left) < len(hashes)/4 {
				t.Errorf("at %d %%, %d items of %d are left", percent, len(left), len(hashes))
			}
			if err := m.Check(v); err != nil {
				t.Fatalf("at %d %%: %v", percent, err)
			}
			tab.MakeBits(v, 0, lines, func(word, value uint64) {
				t.Fatalf("at %d %%, word %d needs to be %#x", percent, word, value)
			})
			for line := range uint64(lines) {
				l := layout.LineAt(v.Region, line)
				if *l != (layout.Line{}) && (line < from || line >= to) {
					t.Fatalf("line %d is filled", line)
				}
				if percent <= 30 && tab.Probe(l, line).Second > 0 {
					t.Fatalf("at %d %%, items have left line %d", percent, line)
				}
			}
		}
	})
}

// TestFillAll covers P9: at design load, nearly all items of a range that is the whole table find room,
// since lines that have none make some.
func TestFillAll(t *testing.T) {
	const lines = 3000
	eachCompact(t, lines, func(t *testing.T, tab *table) {
		rng, v := rand.New(rand.NewPCG(tab.r, 6)), layouttest.View(tab)
		hashes := make([]uint64, lines*tab.b*uint64(loads(tab.Params()).Usual)/100)
		for i := range hashes {
			hashes[i] = rng.Uint64()
		}
		slices.Sort(hashes)
		if left := tab.FillLines(v.Region, 0, lines, hashes, nil); len(left) > len(hashes)/2000 {
			t.Errorf("%d items of %d are left", len(left), len(hashes))
		}
	})
}
