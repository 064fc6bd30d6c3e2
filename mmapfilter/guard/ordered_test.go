package guard

import (
	"fmt"
	"iter"
	"strings"
	"testing"

	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/guarded"
)

// orderedRows are rows with positions, which tells of no key.
type orderedRows struct {
	*rows
	at *uint64
}

func (r orderedRows) Position() (uint64, error) { *r.at++; return *r.at, nil }

func (orderedRows) Since(uint64) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) { yield(nil, ErrGone) }
}

// A brokenFilter takes nothing in.
type brokenFilter struct{ guarded.Filter }

func (brokenFilter) InsertUniqueHashes([]uint64) (n, added int, err error) { return 0, 0, errStuck }

// TestDrainFails has the filter not take in what is on its way there: Stats say so, whoever has
// noticed, and no key is hidden.
func TestDrainFails(t *testing.T) {
	for name, notice := range map[string]func(g *Guard) error{
		"the background": func(g *Guard) error { g.positions.many <- struct{}{}; return nil },
		"Work":           (*Guard).Work,
		"Sync": func(g *Guard) error {
			if err := g.Sync(); err != errStuck {
				return fmt.Errorf("it has not failed: %w", err)
			}
			return nil
		},
		"Rebuild": func(g *Guard) error {
			if err := g.Rebuild(t.Context()); err != errStuck {
				return fmt.Errorf("it has not failed: %w", err)
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, o := orderedRows{newRows(), new(uint64)}, testOptions(t, Rebuild)
			hooked(o, func(real guarded.Filter) guarded.Filter { return brokenFilter{real} })
			g, err := Open(s, o)
			must(t, err)
			s.put(g, "a")
			must(t, notice(g))
			eventually(t, g, "the error", func(st Stats) bool { return st.State == "off" && strings.Contains(st.Err, errStuck.Error()) })
			s.mustShow(t, g)
			must(t, g.Close())
		})
	}
}

// TestGone covers G2: the store cannot tell what came after the position of the filter, so that is
// rebuilt.
func TestGone(t *testing.T) {
	s, o := orderedRows{newRows(), new(uint64)}, testOptions(t, Rebuild)
	o.Hooks = newGuard(nil, o).hooks()
	o.Hooks.Manual = true
	g, err := Open(s, o)
	must(t, err)
	s.put(g, "a")
	must(t, g.Close())
	g, err = Open(s, o)
	must(t, err)
	if st := g.Stats(); st.State != "building" || st.Err != ErrGone.Error() {
		t.Errorf("%+v", st)
	}
	s.mustShow(t, g)
	must(t, g.Close())
}

// TestOverflowIsNotDurable covers G5: keys that found no room in the filter wait, though the others are
// durable, until a rebuild has made a larger one.
func TestOverflowIsNotDurable(t *testing.T) {
	s, o := orderedRows{newRows(), new(uint64)}, testOptions(t, Rebuild)
	o.Capacity, o.Hooks = 12, newGuard(nil, o).hooks()
	o.Hooks.Manual = true
	g, err := Open(s, o)
	must(t, err)
	for i := 0; g.Stats().Overflow == 0; i++ {
		s.put(g, fmt.Sprint(i))
		must(t, g.Sync())
	}
	if st := g.Stats(); st.Outbox != 1 {
		t.Errorf("a key finds no room: %+v", st)
	}
	must(t, g.Rebuild(t.Context()))
	if st := g.Stats(); st.Outbox != 0 || st.Age != 0 {
		t.Errorf("rebuilt: %+v", st)
	}
	must(t, g.Close())
}

// TestLargePositions covers G2: positions that a filter has no room for leave it to the outbox, and
// those that outgrow it later stay what they were.
func TestLargePositions(t *testing.T) {
	for _, c := range []struct {
		at     uint64
		outbox bool
	}{{mostPosition - 1, true}, {mostPosition - 4, false}} {
		s, o := orderedRows{newRows(), &c.at}, testOptions(t, Rebuild)
		g, err := Open(s, o)
		must(t, err)
		for i := range 6 {
			s.put(g, fmt.Sprint(i))
			must(t, g.Sync())
		}
		if g.positions == nil != c.outbox {
			t.Errorf("position %d: there is an outbox: %t", c.at, g.positions == nil)
		}
		if _, at := unpack(g.filter.DurableSeq()); !c.outbox && (at > mostPosition || at < mostPosition-1) {
			t.Errorf("the filter is at %d", at)
		}
		must(t, g.Close())
		g, err = Open(s, o)
		must(t, err)
		s.mustShow(t, g)
		must(t, g.Close())
	}
}
