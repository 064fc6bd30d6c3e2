package guard

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/guarded"
)

// TestKeysComeDuringRebuild has more keys come during a rebuild than it has room for: it begins
// again at once, with more room.
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
			o.Capacity = 1000 // so it is rebuilt, smaller
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

// TestRebuildIfDue has the background ask for a rebuild while another one mends the filter.
func TestRebuildIfDue(t *testing.T) {
	s, o := newRows(), testOptions(t, Rebuild)
	o.Hooks = newGuard(nil, o).hooks()
	o.Hooks.Manual = true
	g, err := Open(s, o)
	must(t, err)
	fill := func() {
		for n := 0; !g.wants(); n++ {
			s.put(g, fmt.Sprint(g.Stats().Rebuilds, " ", n))
		}
	}
	must(t, g.Rebuild(t.Context()))
	fill()
	background := make(chan error)
	s.read = func() { go func() { background <- g.rebuild(t.Context(), true) }() }
	must(t, g.Rebuild(t.Context()))
	must(t, <-background)
	if n := g.Stats().Rebuilds; n != 2 {
		t.Errorf("%d rebuilds", n)
	}
	s.read = nil
	fill()
	must(t, g.rebuild(t.Context(), true))
	if n := g.Stats().Rebuilds; n != 3 {
		t.Errorf("%d rebuilds, the last of which was due", n)
	}
	must(t, g.Close())
}

// TestRoomForWhatCame has keys come during a rebuild that are gone before the next one: that has
// room for as many nonetheless.
func TestRoomForWhatCame(t *testing.T) {
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
	must(t, g.Rebuild(t.Context()))
	if st := g.Stats(); reads != 2 || st.Capacity != 2*3001 || st.Rebuilds != 1 {
		t.Errorf("%d snapshots; %+v", reads, st)
	}
	s.mustShow(t, g)
	must(t, g.Close())
}

// A fullFilter has no room for a rebuild, whatever its capacity.
type fullFilter struct {
	guarded.Filter
	items      uint64
	during     func(try int)
	capacities []uint64
}

func (f *fullFilter) Rebuild(_ context.Context, o *guarded.RebuildOptions) error {
	if _, err := o.Keys(); err != nil {
		return err
	}
	f.capacities = append(f.capacities, o.CapacityFor(f.items))
	f.during(len(f.capacities))
	return fmt.Errorf("no room: %w", mmapfilter.ErrFull)
}

// TestTriesEnd has no rebuild succeed: there is an end to it, soon if it has had room, and the last
// file is not much larger than what there is.
func TestTriesEnd(t *testing.T) {
	for _, c := range []struct {
		name       string
		items      uint64
		come       uint64 // keys during the first try, twice as many during the second, and so on
		capacities []uint64
	}{
		{"it had room", 1, 0, []uint64{1000}},
		{"it has room then", 300, 0, []uint64{1000, 2000}},
		{"few come", 300, 10, []uint64{1000, 2000}},
		{"too many come", 300, 300, []uint64{1000, 2000, 4000, 8000, 16_000, 32_000}},
		{"too many come at once", 300, 4000, []uint64{1000, 8600, 17_200, 34_400, 68_800, 137_600}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, o := newRows(), testOptions(t, Rebuild)
			f := &fullFilter{items: c.items}
			hooked(o, func(real guarded.Filter) guarded.Filter { f.Filter = real; return f })
			g, err := Open(s, o)
			must(t, err)
			f.during = func(try int) {
				g.mu.Lock()
				defer g.mu.Unlock()
				g.mu.churning.puts += c.come << (try - 1)
			}
			if err := g.Rebuild(t.Context()); !errors.Is(err, mmapfilter.ErrFull) || !slices.Equal(f.capacities, c.capacities) {
				t.Errorf("%v: %v", f.capacities, err)
			}
			must(t, g.Close())
		})
	}
}

// A failingFilter fails when a rebuild has read the snapshot.
type failingFilter struct{ guarded.Filter }

var errFails = errors.New("the rebuild fails")

func (f failingFilter) Rebuild(_ context.Context, o *guarded.RebuildOptions) error {
	keys, err := o.Keys()
	if err != nil {
		return err
	}
	for _, err := range keys {
		if err != nil {
			return err
		}
	}
	return errFails
}

// remove deletes a key, through the guard.
func (r *rows) remove(g *Guard, key string) {
	tx := g.Begin()
	tx.Delete([]byte(key))
	r.commit(tx.Prepare(), key, false)
	tx.Done(Committed)
}

// mostlyDeleted opens a guard whose rebuilds fail, and has 3000 of 4000 keys deleted.
func mostlyDeleted(t *testing.T, mode DeleteMode) (*rows, *Options, *Guard) {
	t.Helper()
	s, o := newRows(), testOptions(t, mode)
	o.Capacity = 10_000
	hooked(o, func(real guarded.Filter) guarded.Filter { return failingFilter{real} })
	o.Hooks.Manual = true
	g, err := Open(s, o)
	must(t, err)
	for i := range 4000 {
		s.put(g, fmt.Sprint(i))
	}
	for i := range 3000 {
		s.remove(g, fmt.Sprint(i))
	}
	return s, o, g
}

// TestDueStays covers G3: most keys are deleted, and the rebuild fails, or a kill interrupts it. It
// is due still, also after another kill.
func TestDueStays(t *testing.T) {
	s, o, g := mostlyDeleted(t, Rebuild)
	var err error
	for _, when := range []string{"at first", "killed", "killed again"} {
		if st := g.Stats(); !g.wants() || st.Gone != 3000 {
			t.Errorf("%s: %t; %+v", when, g.wants(), st)
		}
		if when != "killed" { // then again at once
			if err := g.Rebuild(t.Context()); !errors.Is(err, errFails) {
				t.Fatal(err)
			}
		}
		if st := g.Stats(); !g.wants() || st.Gone != 3000 {
			t.Errorf("%s, later: %t; %+v", when, g.wants(), st)
		}
		s.mustShow(t, g)
		must(t, g.filter.Close()) // no more than that
		g.end()
		g, err = Open(s, o)
		must(t, err)
	}
	must(t, g.Close())
	hooked(o, func(real guarded.Filter) guarded.Filter { return real })
	o.Hooks.Manual = true
	for _, when := range []string{"built", "killed"} {
		g, err = Open(s, o)
		must(t, err)
		if when == "built" {
			must(t, g.Rebuild(t.Context()))
		}
		if st := g.Stats(); g.wants() || st.Gone != 0 || st.Keys != 1000 {
			t.Errorf("%s: %t; %+v", when, g.wants(), st)
		}
		s.mustShow(t, g)
		must(t, g.filter.Close())
		g.end()
	}
}

// TestDroppedDeletesCount has a rebuild fail that has dropped deletes: the old filter keeps these
// keys for good, so they count as gone, also after a kill.
func TestDroppedDeletesCount(t *testing.T) {
	s, o, g := mostlyDeleted(t, Exact)
	var err error
	if err := g.Rebuild(t.Context()); !errors.Is(err, errFails) {
		t.Fatal(err)
	}
	for _, when := range []string{"at first", "killed"} {
		must(t, g.Work())
		if st := g.Stats(); !g.wants() || st.Gone != 3000 || st.Keys != 4000 {
			t.Errorf("%s: %t; %+v", when, g.wants(), st)
		}
		s.mustShow(t, g)
		must(t, g.filter.Close())
		g.end()
		g, err = Open(s, o)
		must(t, err)
	}
	must(t, g.Close())
}

// TestDeleteDuringRebuild covers C9: a delete is visible and not done when a rebuild takes its snapshot.
// The new filter never had the key, so it does not delete it: that would hide a later put.
func TestDeleteDuringRebuild(t *testing.T) {
	s, o := newRows(), testOptions(t, Exact)
	g, err := Open(s, o)
	must(t, err)
	s.put(g, "a")
	tx := g.Begin()
	tx.Delete([]byte("a"))
	s.commit(tx.Prepare(), "a", false)
	s.read = func() { tx.Done(Committed) }
	must(t, g.Rebuild(t.Context()))
	s.put(g, "a")
	must(t, g.Work())
	if st := g.Stats(); st.State != "serving" || st.Keys != 1 || st.Pending != 0 {
		t.Errorf("%+v", st)
	}
	s.mustShow(t, g)
	must(t, g.Close())
}

// TestUnknownStays covers G3 with deletes: Rebuild, where keys are deleted that nobody knows: that
// too many absent keys pass is found out also after the store was closed, or its process killed.
func TestUnknownStays(t *testing.T) {
	const keys = 2000
	for _, when := range []string{"closed", "killed", "killed before"} {
		t.Run(when, func(t *testing.T) {
			s, o := newRows(), testOptions(t, Rebuild)
			o.Capacity = 10_000
			g, err := Open(s, o)
			must(t, err)
			for i := range keys {
				s.put(g, fmt.Sprint(i))
			}
			for i := range keys {
				s.commit(Changes{}, fmt.Sprint(i), false)
			}
			if when != "killed before" {
				g.Begin().DeleteUnknown()
			}
			if when == "closed" {
				must(t, g.Close())
			} else {
				must(t, g.filter.Close())
				g.end()
				g.background.Wait()
			}
			g, err = Open(s, o)
			must(t, err)
			for i := range keys {
				if key := fmt.Append(nil, i); !g.Absent(key) {
					g.Found(key, false)
				}
			}
			eventually(t, g, "a rebuild", func(st Stats) bool { return st.Rebuilds > 0 })
			must(t, g.Close())
		})
	}
	s, o := newRows(), testOptions(t, Rebuild)
	for range 2 {
		g, err := Open(s, o)
		must(t, err)
		if s.put(g, "a"); g.mu.unknown {
			t.Error("a guard that was closed does not know what was deleted")
		}
		must(t, g.Close())
	}
	// What was put once more may be what was deleted.
	g, err := Open(s, o)
	must(t, err)
	s.put(g, "b")
	s.remove(g, "a")
	s.put(g, "b")
	must(t, g.Close())
	g, err = Open(s, o)
	must(t, err)
	if st := g.Stats(); st.Gone != 0 || !g.mu.unknown {
		t.Errorf("unknown: %t; %+v", g.mu.unknown, st)
	}
	must(t, g.Close())
}

// A fullCounter counts inserts for which a filter had no room.
type fullCounter struct {
	guarded.Filter
	full int
}

func (f *fullCounter) InsertHash(hash uint64) error {
	err := f.Filter.InsertHash(hash)
	if errors.Is(err, mmapfilter.ErrFull) {
		f.full++
	}
	return err
}

func (f *fullCounter) InsertUniqueHashes(hashes []uint64) (n, added int, err error) {
	n, added, err = f.Filter.InsertUniqueHashes(hashes)
	if errors.Is(err, mmapfilter.ErrFull) {
		f.full++
	}
	return n, added, err
}

// TestManyOverflow has the keys overflow that come during a rebuild, many more than the new filter
// has room for: of these not each is tried, since to find no room takes long.
func TestManyOverflow(t *testing.T) {
	for _, deletes := range []DeleteMode{Exact, Rebuild} {
		t.Run(deletes.String(), func(t *testing.T) {
			s, o := newRows(), testOptions(t, deletes)
			o.Capacity = 100
			f := new(fullCounter)
			hooked(o, func(real guarded.Filter) guarded.Filter { f.Filter = real; return f })
			o.Hooks.Manual = true
			g, err := Open(s, o)
			must(t, err)
			n := 0
			put := func(keys int) {
				for range keys {
					s.put(g, fmt.Sprint(n))
					n++
				}
			}
			for !g.overflow.any.Load() { // so the new filter learns of nothing that comes
				put(1)
			}
			before := 0
			s.read = func() { put(5000); before = f.full }
			must(t, g.Rebuild(t.Context()))
			if st := g.Stats(); f.full != before+1 || st.Overflow < 1000 || st.Capacity > 1000 || !g.wants() {
				t.Errorf("%d times no room; %+v", f.full-before, st)
			}
			s.mustShow(t, g)
			s.read = nil
			must(t, g.Rebuild(t.Context()))
			if st := g.Stats(); st.Overflow != 0 || st.Keys < 5000 || g.wants() {
				t.Errorf("%t; %+v", g.wants(), st)
			}
			s.mustShow(t, g)
			must(t, g.Close())
		})
	}
}

// TestClosedWhenFull closes a store, or kills its process, while keys wait for a larger filter:
// those are in the outbox, so the filter serves when it is opened again, and is rebuilt.
func TestClosedWhenFull(t *testing.T) {
	for _, deletes := range []DeleteMode{Exact, Rebuild} {
		for _, killed := range []bool{false, true} {
			s, o := newRows(), testOptions(t, deletes)
			o.Hooks = newGuard(nil, o).hooks()
			o.Hooks.Manual = true
			g, err := Open(s, o)
			must(t, err)
			for i := range 3000 {
				s.put(g, fmt.Sprint(i))
			}
			if killed {
				must(t, g.filter.Close())
				g.end()
			} else {
				must(t, g.Close())
			}
			g, err = Open(s, o)
			must(t, err)
			if st := g.Stats(); st.State != "serving" || st.Overflow < 1000 || !g.wants() {
				t.Errorf("%s, killed %t: %t; %+v", deletes, killed, g.wants(), st)
			}
			s.mustShow(t, g)
			must(t, g.Rebuild(t.Context()))
			if st := g.Stats(); st.Overflow != 0 || st.Keys != 3000 {
				t.Errorf("%s, killed %t: %+v", deletes, killed, st)
			}
			s.mustShow(t, g)
			must(t, g.Close())
		}
	}
}
