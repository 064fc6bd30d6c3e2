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

// TestKeysComeDuringRebuild puts more keys during a rebuild than the new filter has room for. The
// rebuild begins again at once, with more room, even if the keys are gone by then.
func TestKeysComeDuringRebuild(t *testing.T) {
	for _, c := range []struct {
		deletes  DeleteMode
		come     []int // keys that come during each try
		gone     bool
		capacity uint64
	}{
		{Exact, []int{4000, 8000, 0}, false, 2 * 12_001},
		{Rebuild, []int{4000, 8000, 0}, false, 2 * 12_001},
		{Rebuild, []int{3000, 3000}, true, 2 * 3001},
	} {
		o := still(t, c.deletes)
		o.Capacity = 20_000
		f := begin(t, o)
		f.put("first")
		f.close()
		o.Capacity = 1000 // so that a rebuild makes the filter smaller
		f.open()
		if !f.g.wants() {
			t.Error("no rebuild is due")
		}
		reads, n := 0, 0
		f.read = func() {
			for range c.come[reads] {
				f.put(fmt.Sprint(n))
				if c.gone {
					f.commit(Changes{}, fmt.Sprint(n), false)
				}
				n++
			}
			reads++
		}
		f.rebuild()
		if st := f.g.Stats(); st.Err != "" || st.Rebuilds != 1 || st.Capacity != c.capacity || reads != len(c.come) {
			t.Errorf("%d snapshots; %+v", reads, st)
		}
		f.mustShow()
		f.close()
	}
}

// TestRebuildIfDue makes the background ask for a rebuild during another rebuild, after which none is
// due.
func TestRebuildIfDue(t *testing.T) {
	f := begin(t, still(t, Rebuild))
	fill := func() {
		for n := 0; !f.g.wants(); n++ {
			f.put(fmt.Sprint(f.g.Stats().Rebuilds, " ", n))
		}
	}
	f.rebuild()
	fill()
	background := make(chan error)
	f.read = func() { go func() { background <- f.g.rebuild(t.Context(), true) }() }
	f.rebuild()
	must(t, <-background)
	if n := f.g.Stats().Rebuilds; n != 2 {
		t.Errorf("%d rebuilds", n)
	}
	f.read = nil
	fill()
	must(t, f.g.rebuild(t.Context(), true))
	if n := f.g.Stats().Rebuilds; n != 3 {
		t.Errorf("%d rebuilds, though the last one was due", n)
	}
	f.close()
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

// TestTriesEnd makes every try of a rebuild fail. The number of tries is bounded, and small if the
// filter had room, and the last file is not much larger than the keys need.
func TestTriesEnd(t *testing.T) {
	for _, c := range []struct {
		name       string
		items      uint64
		come       uint64 // keys during the first try, twice as many during the second, and so on
		capacities []uint64
	}{
		{"the filter had room", 1, 0, []uint64{1000}},
		{"the second filter had room", 300, 0, []uint64{1000, 2000}},
		{"few come", 300, 10, []uint64{1000, 2000}},
		{"too many come", 300, 300, []uint64{1000, 2000, 4000, 8000, 16_000, 32_000}},
		{"too many come at once", 300, 4000, []uint64{1000, 8600, 17_200, 34_400, 68_800, 137_600}},
	} {
		filter := &fullFilter{items: c.items}
		f := begin(t, hooked(quiet(t, Rebuild), func(real guarded.Filter) guarded.Filter { filter.Filter = real; return filter }))
		filter.during = func(try int) {
			f.g.mu.Lock()
			defer f.g.mu.Unlock()
			f.g.mu.churning.puts += c.come << (try - 1)
		}
		if err := f.g.Rebuild(t.Context()); !errors.Is(err, mmapfilter.ErrFull) || !slices.Equal(filter.capacities, c.capacities) {
			t.Errorf("%s: %v: %v", c.name, filter.capacities, err)
		}
		f.close()
	}
}

// TestReserve covers G3: a filter keeps its reserve for keys that come and go until more than idle
// intervals in a row have had no put.
func TestReserve(t *testing.T) {
	c := churning{reserve: 100}
	for range 3 {
		c.puts++
		for range idle {
			if c.tick(); c.reserve == 0 {
				t.Fatalf("the reserve is gone %d intervals after a put", c.idle)
			}
		}
	}
	if c.tick(); c.reserve != 0 {
		t.Error("the reserve is still there")
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

// TestDueStays covers G3: most keys are deleted, and the rebuild fails, or a kill interrupts it. It is
// still due, even after another kill. With Exact, keys whose deletes a failed rebuild has dropped never
// leave the old filter.
func TestDueStays(t *testing.T) {
	both(t, func(t *testing.T, deletes DeleteMode) {
		o := quiet(t, deletes)
		o.Capacity = 10_000
		hooked(o, func(real guarded.Filter) guarded.Filter { return failingFilter{real} })
		o.Hooks.Manual = true
		f := begin(t, o)
		for i := range 4000 {
			f.put(fmt.Sprint(i))
		}
		for i := range 3000 {
			f.remove(fmt.Sprint(i))
		}
		due := func(when string) {
			t.Helper()
			if st := f.g.Stats(); !f.g.wants() || st.Gone != 3000 {
				t.Errorf("%s: %t; %+v", when, f.g.wants(), st)
			}
		}
		for _, when := range []string{"at first", "killed", "killed again"} {
			if when == "at first" || when == "killed again" && deletes == Rebuild {
				if err := f.g.Rebuild(t.Context()); !errors.Is(err, errFails) { // then again at once
					t.Fatal(err)
				}
			}
			due(when)
			if deletes == Exact {
				f.work()
			}
			due(when + ", later")
			f.mustShow()
			f.kill()
			f.open()
		}
		f.close()
		hooked(o, func(real guarded.Filter) guarded.Filter { return real })
		o.Hooks.Manual = true
		f.open()
		f.rebuild()
		for _, when := range []string{"built", "killed"} {
			if st := f.g.Stats(); f.g.wants() || st.Gone != 0 || st.Keys != 1000 {
				t.Errorf("%s: %t; %+v", when, f.g.wants(), st)
			}
			f.mustShow()
			f.kill()
			f.open()
		}
		f.close()
	})
}

// TestPutAgainDuringRebuild covers G1: the instant of a rebuild comes after a transaction has deleted a
// key, and before it puts the key again. The filter had the key before, so the transaction did not
// insert it.
func TestPutAgainDuringRebuild(t *testing.T) {
	both(t, func(t *testing.T, deletes DeleteMode) {
		f := begin(t, quiet(t, deletes))
		f.put("a")
		tx := f.g.Begin()
		tx.DeleteUnknown()
		tx.Put([]byte("a"))
		changes := tx.Prepare()
		f.commit(Changes{}, "a", false)
		f.read = func() {
			f.commit(changes, "a", true)
			tx.Done(Committed)
		}
		f.rebuild()
		f.mustBe("serving")
		if !f.g.mu.unknown {
			t.Error("the guard has forgotten that keys may have been deleted")
		}
		f.close()
	})
}

// TestDeleteDuringRebuild covers C9: a delete is visible, but its transaction has not ended, when a
// rebuild takes its snapshot. The new filter never had the key, so the delete must not be done there,
// which would hide a later put.
func TestDeleteDuringRebuild(t *testing.T) {
	f := begin(t, quiet(t, Exact))
	f.put("a")
	tx := f.g.Begin()
	tx.Delete([]byte("a"))
	f.commit(tx.Prepare(), "a", false)
	f.read = func() { tx.Done(Committed) }
	f.rebuild()
	f.put("a")
	f.work()
	if st := f.g.Stats(); st.Keys != 1 || st.Pending != 0 {
		t.Errorf("%+v", st)
	}
	f.mustBe("serving")
	f.close()
}

// TestUnknownStays covers G3 with Rebuild and deletes of unknown keys: even after the store was closed,
// or its process killed, the guard notices that too many absent keys pass.
func TestUnknownStays(t *testing.T) {
	const keys = 2000
	for _, when := range []string{"closed", "killed", "killed before"} {
		o := quiet(t, Rebuild)
		o.Capacity = 10_000
		f := begin(t, o)
		for i := range keys {
			f.put(fmt.Sprint(i))
		}
		for i := range keys {
			f.commit(Changes{}, fmt.Sprint(i), false)
		}
		if when != "killed before" {
			f.g.Begin().DeleteUnknown()
		}
		f.end(when != "closed")
		f.open()
		for i := range keys {
			if key := fmt.Append(nil, i); !f.g.Absent(key) {
				f.g.Found(key, false)
			}
		}
		f.eventually(when+": a rebuild", rebuilt)
		f.close()
	}
	f := begin(t, quiet(t, Rebuild))
	f.put("a")
	f.close()
	f.open()
	if f.put("a"); f.g.mu.unknown {
		t.Error("a guard that was closed does not know what was deleted")
	}
	// The key that is put once more may be the key that was deleted.
	f.put("b")
	f.remove("a")
	f.put("b")
	f.close()
	f.open()
	if st := f.g.Stats(); st.Gone != 0 || !f.g.mu.unknown {
		t.Errorf("unknown: %t; %+v", f.g.mu.unknown, st)
	}
	f.close()
}

// A fullCounter counts inserts for which a filter had no room.
type fullCounter struct {
	guarded.Filter
	full int
}

func (f *fullCounter) InsertHashes(hashes []uint64, unique bool) (n, added int, err error) {
	n, added, err = f.Filter.InsertHashes(hashes, unique)
	if errors.Is(err, mmapfilter.ErrFull) {
		f.full++
	}
	return n, added, err
}

// TestManyOverflow puts many more keys during a rebuild than the new filter has room for, and they
// overflow. The rebuild does not try to insert all of them, since a search that finds no room takes
// long.
func TestManyOverflow(t *testing.T) {
	both(t, func(t *testing.T, deletes DeleteMode) {
		o, filter := quiet(t, deletes), new(fullCounter)
		o.Capacity = 100
		hooked(o, func(real guarded.Filter) guarded.Filter { filter.Filter = real; return filter })
		o.Hooks.Manual = true
		f := begin(t, o)
		n := 0
		put := func(keys int) {
			for range keys {
				f.put(fmt.Sprint(n))
				n++
			}
		}
		for !f.g.overflow.any.Load() { // then all later keys overflow, too
			put(1)
		}
		before := 0
		f.read = func() { put(5000); before = filter.full }
		f.rebuild()
		if st := f.g.Stats(); filter.full != before+1 || st.Overflow < 1000 || st.Capacity > 1000 || !f.g.wants() {
			t.Errorf("%d inserts found no room; %+v", filter.full-before, st)
		}
		f.mustShow()
		f.read = nil
		f.rebuild()
		if st := f.g.Stats(); st.Overflow != 0 || st.Keys < 5000 || f.g.wants() {
			t.Errorf("%t; %+v", f.g.wants(), st)
		}
		f.mustShow()
		f.close()
	})
}

// TestClosedWhenFull closes a store, or kills its process, while keys wait for a larger filter: the
// outbox or the store has them, so the filter serves when it is opened again, and is rebuilt.
func TestClosedWhenFull(t *testing.T) {
	both(t, func(t *testing.T, deletes DeleteMode) {
		for _, positions := range []bool{false, true} {
			for _, killed := range []bool{false, true} {
				r := newRows()
				store, keys := Store(r), 3000
				if positions { // Open takes them in several times
					store, keys = ordered{rows: r}, 3000+mostIncoming
				}
				f := beginWith(t, r, store, still(t, deletes))
				for i := range keys {
					f.put(fmt.Sprint(i))
				}
				f.work()
				f.end(killed)
				f.open()
				if st := f.g.Stats(); st.Overflow < 1000 || !f.g.wants() {
					t.Errorf("positions %t, killed %t: %t; %+v", positions, killed, f.g.wants(), st)
				}
				f.mustBe("serving")
				f.rebuild()
				if st := f.g.Stats(); st.Overflow != 0 || st.Keys != uint64(keys) {
					t.Errorf("positions %t, killed %t: %+v", positions, killed, st)
				}
				f.mustShow()
				f.close()
			}
		}
	})
}

// TestRebuildsOfAQueue puts keys and soon deletes them, many during each rebuild. At the instant of a
// rebuild, the store has very few keys. But the new filter has room for the keys that come during the
// rebuild, and for many times as many until the next rebuild.
func TestRebuildsOfAQueue(t *testing.T) {
	const during, all, there = 1000, 60_000, 100
	both(t, func(t *testing.T, deletes DeleteMode) {
		f := begin(t, still(t, deletes))
		g := f.g
		puts := 0
		put := func(n int) {
			for range n {
				f.put(fmt.Sprint(puts))
				if puts >= there {
					f.remove(fmt.Sprint(puts - there))
				}
				puts++
			}
		}
		snapshots := 0
		f.read = func() { snapshots++; put(during) }
		most := 0
		for puts < all && snapshots < all/during {
			for g.wants() && snapshots < all/during {
				if err := g.Rebuild(t.Context()); err != nil && !errors.Is(err, mmapfilter.ErrFull) {
					t.Fatal(err)
				}
			}
			put(50)
			if puts/50%50 == 0 { // deleted keys leave the filter, and the outbox is trimmed
				f.work()
			}
			most = max(most, int(g.Stats().Capacity))
		}
		// The first rebuild fails. After that, a rebuild comes once churn/2-1 times as many keys have
		// been put as come during a rebuild.
		if st := g.Stats(); snapshots > 3+all/during/(churn/2-1) || most > 2*churn*during {
			t.Errorf("%d snapshots for %d puts, capacity up to %d; %+v", snapshots, puts, most, st)
		}
		f.mustShow()
		// When the store is idle, the guard gives the room back.
		f.work()
		for range idle + 1 {
			f.o.Hooks.Tick()
		}
		f.read = nil
		for n := 0; g.wants() && n < 3; n++ {
			f.rebuild()
		}
		if st := g.Stats(); g.wants() || st.Capacity > tooLarge*f.o.Capacity {
			t.Errorf("idle: %t; %+v", g.wants(), st)
		}
		f.mustShow()
		f.close()
	})
}
