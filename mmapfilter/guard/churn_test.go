package guard

import (
	"errors"
	"fmt"
	"testing"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
)

// TestRebuildsOfAQueue has keys put and soon deleted, many of them during each rebuild. That has
// room for what comes meanwhile, and until the next one, which comes after many times as much: the
// store at its instant has next to nothing.
func TestRebuildsOfAQueue(t *testing.T) {
	const during, all, there = 1000, 60_000, 100
	for _, deletes := range []DeleteMode{Exact, Rebuild} {
		t.Run(deletes.String(), func(t *testing.T) {
			s, o := newRows(), testOptions(t, deletes)
			o.Hooks = newGuard(nil, o).hooks()
			o.Hooks.Manual = true
			g, err := Open(s, o)
			must(t, err)
			puts := 0
			put := func(n int) {
				for range n {
					s.put(g, fmt.Sprint(puts))
					if puts >= there {
						s.remove(g, fmt.Sprint(puts-there))
					}
					puts++
				}
			}
			snapshots := 0
			s.read = func() { snapshots++; put(during) }
			most := 0
			for puts < all && snapshots < all/during {
				for g.wants() && snapshots < all/during {
					if err := g.Rebuild(t.Context()); err != nil && !errors.Is(err, mmapfilter.ErrFull) {
						t.Fatal(err)
					}
				}
				put(50)
				if puts/50%50 == 0 { // what is deleted leaves the filter, and the outbox is trimmed
					must(t, g.Work())
				}
				most = max(most, int(g.Stats().Capacity))
			}
			// The first fails. From then on there is one for each churn/2-1 times what comes during
			// one.
			if st := g.Stats(); snapshots > 3+all/during/(churn/2-1) || most > 2*churn*during {
				t.Errorf("%d snapshots for %d puts, capacity up to %d; %+v", snapshots, puts, most, st)
			}
			s.mustShow(t, g)
			// When it is idle, the room is given back.
			must(t, g.Work())
			for range idle + 1 {
				o.Hooks.Tick()
			}
			s.read = nil
			for n := 0; g.wants() && n < 3; n++ {
				must(t, g.Rebuild(t.Context()))
			}
			if st := g.Stats(); g.wants() || st.Capacity > tooLarge*o.Capacity {
				t.Errorf("idle: %t; %+v", g.wants(), st)
			}
			s.mustShow(t, g)
			must(t, g.Close())
		})
	}
}
