package guard

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/guarded"
)

// TestKeysComeDuringRebuild has more keys come during a rebuild than it has room for: it begins again at
// once, with more room.
func TestKeysComeDuringRebuild(t *testing.T) {
	for _, deletes := range []DeleteMode{Exact, Rebuild} {
		t.Run(deletes.String(), func(t *testing.T) {
			s, o := newRows(), testOptions(t, deletes)
			o.Capacity = 20_000
			g, err := Open(s, o)
			must(t, err)
			s.put(g, "first")
			must(t, g.Close())
			opened := make(chan bool)
			var reads, n int
			s.read = func() {
				<-opened
				if reads++; reads <= 2 {
					for range 4000 * reads {
						s.put(g, fmt.Sprint(n))
						n++
					}
				}
			}
			o.Capacity = 1000 // so it is built anew, smaller
			g, err = Open(s, o)
			must(t, err)
			close(opened)
			eventually(t, g, "a rebuild", func(st Stats) bool { return st.Rebuilds > 0 })
			if st := g.Stats(); st.Err != "" || st.Capacity != 2*12_001 || reads != 3 {
				t.Errorf("%d snapshots; %+v", reads, st)
			}
			s.mustShow(t, g)
			must(t, g.Close())
		})
	}
}

// TestRoomDoubles has keys come during a rebuild that are gone before the next one: that has more room
// nonetheless.
func TestRoomDoubles(t *testing.T) {
	s, o := newRows(), testOptions(t, Rebuild)
	o.Capacity = 20_000
	g, err := Open(s, o)
	must(t, err)
	s.put(g, "first")
	must(t, g.Close())
	o.Capacity = 1000
	system := newGuard(nil, o).hooks()
	system.Manual = true
	o.Hooks = system
	g, err = Open(s, o)
	must(t, err)
	var reads, n int
	s.read = func() {
		reads++
		for range 3000 {
			s.put(g, fmt.Sprint(n))
			s.commit(Changes{}, fmt.Sprint(n), false)
			n++
		}
	}
	begun := time.Now()
	must(t, g.Rebuild(t.Context()))
	if st := g.Stats(); reads != 3 || st.Capacity != 4000 || st.Rebuilds != 1 || time.Since(begun) > retryAfter {
		t.Errorf("%d snapshots; %+v", reads, st)
	}
	s.mustShow(t, g)
	must(t, g.Close())
}

// A fullFilter has no room for a rebuild, whatever its capacity.
type fullFilter struct {
	guarded.Filter
	capacities []uint64
}

func (f *fullFilter) Rebuild(_ context.Context, o *mmapfilter.RebuildOptions) error {
	if _, err := o.Keys(); err != nil {
		return err
	}
	f.capacities = append(f.capacities, o.CapacityFor(1))
	return fmt.Errorf("no room: %w", mmapfilter.ErrFull)
}

// TestTriesEnd has no rebuild succeed: there is an end to it.
func TestTriesEnd(t *testing.T) {
	s, o := newRows(), testOptions(t, Rebuild)
	f := new(fullFilter)
	hooked(o, func(real guarded.Filter) guarded.Filter { f.Filter = real; return f })
	g, err := Open(s, o)
	must(t, err)
	if err := g.Rebuild(t.Context()); !errors.Is(err, mmapfilter.ErrFull) || len(f.capacities) != mostTries {
		t.Errorf("%v: %v", f.capacities, err)
	}
	for i, c := range f.capacities {
		if c != 1000<<i {
			t.Errorf("capacities: %v", f.capacities)
		}
	}
	must(t, g.Close())
}
