package all_test

import (
	"math/rand/v2"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/layouttest"
)

// A moving table calls move right after the first look at the home line.
type moving struct {
	layout.Table
	home uint64
	move func()
}

func (m *moving) Look(words []uint64, it layout.Item) (found, beyond bool) {
	found, beyond = m.Table.Look(words, it)
	if it.Line == m.home && m.move != nil {
		m.move()
		m.move = nil
	}
	return found, beyond
}

// TestSecondLookSeesAMove: if an item comes home after a look has read the home line, the second look
// sees a counter go up, whichever counter of its places this is.
func TestSecondLookSeesAMove(t *testing.T) {
	layouttest.Each(t, 250, func(t *testing.T, tab layout.Table) {
		rng := rand.New(rand.NewPCG(19, 20))
		h := rng.Uint64()
		for tab.Alternate(tab.Split(h)).Line == tab.Split(h).Line {
			h = rng.Uint64()
		}
		home := tab.Split(h)
		other := tab.Alternate(home)
		counters := map[string]uint64{"epoch": layout.RuntimeEpoch, "stash": layout.RuntimeStashCounter}
		for name, line := range map[string]uint64{"home": home.Line, "other": other.Line} {
			first, n := tab.Words(line)
			counters[name+" begins"] = blockCounter(first / layout.BlockWords)
			counters[name+" ends"] = blockCounter((first + uint64(n) - 1) / layout.BlockWords)
		}
		for name, word := range counters {
			lookUp := map[string]func(layout.Looks, *layout.View) bool{
				"alone": func(tab layout.Looks, v *layout.View) bool { return layout.Contains(tab, v, h) },
				"in a batch": func(tab layout.Looks, v *layout.View) bool {
					found := make([]bool, 1)
					layout.ContainsHashes(tab, v, []uint64{h}, found)
					return found[0]
				},
			}
			for how, lookUp := range lookUp {
				v := layouttest.View(tab)
				layouttest.Change(tab, v.Region, other.Line, func(l *layout.Line) { tab.Place(l, other, nil) })
				layouttest.Change(tab, v.Region, home.Line, func(l *layout.Line) { layouttest.SetOverflow(tab, l, home) })
				moved := false
				if m := (&moving{tab, home.Line, func() {
					layouttest.Change(tab, v.Region, home.Line, func(l *layout.Line) { tab.Place(l, home, nil) })
					v.Runtime[word] += 2
					layouttest.Change(tab, v.Region, other.Line, func(l *layout.Line) { tab.Remove(l, other, nil) })
					moved = true
				}}); !lookUp(m, v) || !moved {
					t.Errorf("%s, counter %q: moved: %t, and not found", how, name, moved)
				}
			}
		}
	})
}
