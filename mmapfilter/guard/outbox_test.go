package guard

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"testing"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/guarded"
)

// An unmarkedFilter takes no token.
type unmarkedFilter struct{ guarded.Filter }

func (unmarkedFilter) SyncAtFunc(func(uint64) uint64) error { return errStuck }

// TestKilledInMark covers G2: a kill interrupts an Open that has put a new token into the store and
// emptied the outbox, but has not yet put the token into the filter. The filter serves, but an older
// copy of it does not.
func TestKilledInMark(t *testing.T) {
	for _, older := range []bool{false, true} {
		f := begin(t, quiet(t, Exact))
		before := f.backup()
		f.put("a")
		f.kill()
		unmarked := *f.o
		hooked(&unmarked, func(real guarded.Filter) guarded.Filter { return unmarkedFilter{real} })
		if _, err := Open(f.store, &unmarked); !errors.Is(err, errStuck) {
			t.Fatalf("the filter has taken a token: %v", err)
		}
		o, want := f.o, "serving"
		if older {
			o, want = before, "building"
		}
		f.openWith(o)
		f.mustBe(want)
		f.close()
	}
}

// A busyFilter calls synced as soon as it is durable.
type busyFilter struct {
	guarded.Filter
	synced func()
}

func (f *busyFilter) Sync() error {
	err := f.Filter.Sync()
	if do := f.synced; do != nil {
		f.synced = nil
		do()
	}
	return err
}

// TestTrim covers G2: what the filter has durably leaves the outbox. Keys that a transaction puts
// between the sync of the filter and the trim of the outbox stay in the outbox.
func TestTrim(t *testing.T) {
	both(t, func(t *testing.T, deletes DeleteMode) {
		filter := new(busyFilter)
		f := begin(t, hooked(quiet(t, deletes), func(real guarded.Filter) guarded.Filter { filter.Filter = real; return filter }))
		f.put("a", "b")
		for n := 1; n >= 0; n-- {
			if n > 0 {
				filter.synced = func() { f.put("c") }
			}
			f.work()
			entries, err := f.Entries()
			must(t, err)
			inserts := slices.DeleteFunc(entries, func(e Entry) bool { return e.Key[0] != keyInserts })
			if st := f.g.Stats(); st.Outbox != uint64(n) || len(inserts) != n {
				t.Errorf("%d entries, not %d; %+v", len(inserts), n, st)
			}
		}
		f.close()
	})
}

// A brokenFilter fails at every insert.
type brokenFilter struct{ guarded.Filter }

func (brokenFilter) InsertHashes([]uint64, bool) (n, added int, err error) { return 0, 0, errStuck }

// TestDrainFails makes inserts of incoming hashes into the filter fail. Whoever notices it first, Stats
// say so, and no key is hidden.
func TestDrainFails(t *testing.T) {
	for name, notice := range map[string]func(g *Guard) error{
		"the background": func(g *Guard) error { g.positions.many <- struct{}{}; return errStuck },
		"Work":           func(g *Guard) error { return errors.Join(g.Work(), errStuck) },
		"Sync":           (*Guard).Sync,
		"Rebuild":        func(g *Guard) error { return g.Rebuild(t.Context()) },
	} {
		r := newRows()
		f := beginWith(t, r, ordered{rows: r}, hooked(quiet(t, Rebuild), func(real guarded.Filter) guarded.Filter { return brokenFilter{real} }))
		f.put("a")
		if err := notice(f.g); !errors.Is(err, errStuck) {
			t.Errorf("%s has not failed: %v", name, err)
		}
		f.eventually("the error", func(st Stats) bool { return st.Err == errStuck.Error() })
		f.mustBe("off")
		f.close()
	}
}

// TestFailedForgets checks that a guard whose filter has failed keeps nothing about later transactions,
// since nothing would ever take it out of memory.
func TestFailedForgets(t *testing.T) {
	both(t, func(t *testing.T, deletes DeleteMode) {
		f := begin(t, hooked(quiet(t, deletes), func(real guarded.Filter) guarded.Filter { return brokenFilter{real} }))
		f.put("a") // fails, and leaves one record
		for _, key := range []string{"b", "c", "d"} {
			f.put(key)
			for _, put := range []bool{true, false} {
				tx := f.g.Begin()
				tx.change([]byte(key), put)
				tx.Prepare()
				tx.Done(Unknown)
			}
			f.remove(key)
		}
		for what, n := range map[string]int{
			"records": len(f.g.order.records) - 1, "deletes": len(f.g.mu.deletes), "dropped": len(f.g.mu.dropped), "unsure": len(f.g.mu.unsure),
		} {
			if n != 0 {
				t.Errorf("%s: %d", what, n)
			}
		}
		f.mustBe("off")
		f.close()
	})
}

// An idler is rows that may have readers.
type idler struct {
	*rows
	readers bool
}

func (r *idler) WriteIdle(c Changes) error {
	if r.readers {
		return ErrBusy
	}
	return r.Write(c)
}

// TestBusy checks that the work of an interval does not wait for readers, even if the filter has failed.
// A later interval does it.
func TestBusy(t *testing.T) {
	for _, fails := range []bool{false, true} {
		r := &idler{rows: newRows()}
		f := beginWith(t, r.rows, r, still(t, Exact))
		f.put("a", "b")
		f.remove("a")
		if fails {
			f.g.fail(errStuck)
		}
		for _, r.readers = range []bool{true, false} {
			f.rows.write = func(Changes) {
				if r.readers {
					t.Errorf("failed %t: the guard waits for readers", fails)
				}
			}
			f.o.Hooks.Tick()
			if st := f.g.Stats(); fails && f.g.failureIsDurable.Load() == r.readers || !fails && (st.Outbox > 0 || st.Pending > 0) != r.readers {
				t.Errorf("failed %t, readers %t: %+v", fails, r.readers, st)
			}
		}
		f.rows.write = nil
		f.mustShow()
		f.close()
	}
}

// TestGone covers G2: the store cannot tell which keys came after the position of the filter, so the
// filter is rebuilt.
func TestGone(t *testing.T) {
	r := newRows()
	f := beginWith(t, r, ordered{rows: r, gone: true}, still(t, Rebuild))
	f.put("a")
	f.close()
	f.open()
	if st := f.g.Stats(); st.Err != ErrGone.Error() {
		t.Errorf("%+v", st)
	}
	f.mustBe("building")
	f.close()
}

// TestOverflowIsNotDurable covers G5: keys that found no room in the filter count as not durable,
// unlike the keys in it, until a rebuild has built a larger filter.
func TestOverflowIsNotDurable(t *testing.T) {
	r, o := newRows(), still(t, Rebuild)
	o.Capacity = 12
	f := beginWith(t, r, ordered{rows: r}, o)
	for i := 0; f.g.Stats().Overflow == 0; i++ {
		f.put(fmt.Sprint(i))
		must(t, f.g.Sync())
	}
	if st := f.g.Stats(); st.Outbox != 1 {
		t.Errorf("a key finds no room: %+v", st)
	}
	f.rebuild()
	if st := f.g.Stats(); st.Outbox != 0 || st.Age != 0 {
		t.Errorf("rebuilt: %+v", st)
	}
	f.close()
}

// TestLargePositions covers G2: if a filter has no room for the positions of a store, the guard uses an
// outbox. If positions become too large later, the filter keeps the last one that fits.
func TestLargePositions(t *testing.T) {
	for at, outbox := range map[uint64]bool{mostPosition: true, mostPosition - 4: false} {
		r := newRows()
		r.last = at
		f := beginWith(t, r, ordered{rows: r}, quiet(t, Rebuild))
		for i := range 6 {
			f.put(fmt.Sprint(i))
			must(t, f.g.Sync())
		}
		if f.g.positions == nil != outbox {
			t.Errorf("position %d: an outbox is used: %t", at, !outbox)
		}
		if _, at := unpack(f.g.filter.DurableSeq()); !outbox && (at > mostPosition || at < mostPosition-1) {
			t.Errorf("the filter is at %d", at)
		}
		f.close()
		f.open()
		f.mustShow()
		f.close()
	}
}

// snapshot takes a snapshot of the filter while the guard uses it, and returns options for the copy.
func (f *fixture) snapshot() (copied *Options) {
	f.t.Helper()
	o := *f.o
	o.Path = filepath.Join(f.t.TempDir(), filepath.Base(f.o.Path))
	r, err := mmapfilter.OpenReadOnly(f.o.Path, nil)
	must(f.t, err)
	defer r.Close()
	_, err = r.Snapshot(f.t.Context(), o.Path)
	must(f.t, err)
	_, err = mmapfilter.Verify(f.t.Context(), o.Path)
	must(f.t, err)
	return &o
}

// openWith opens the guard of a filter that was restored, and builds nothing in the background.
func (f *fixture) openWith(restored *Options) {
	f.t.Helper()
	f.o, restored.Hooks = restored, nil
	f.o.Hooks = newGuard(nil, f.o).hooks()
	f.o.Hooks.Manual = true
	f.open()
}

// TestSnapshotRestored covers G2: a snapshot of the filter is what a crash at that instant might have
// left. If the store knows all keys that came since, the snapshot serves with them. But if the store
// was opened again since, the snapshot and the store no longer have the same token.
func TestSnapshotRestored(t *testing.T) {
	both(t, func(t *testing.T, deletes DeleteMode) {
		for name, again := range map[string]bool{"killed": false, "opened again": true} {
			f := begin(t, quiet(t, deletes))
			f.put("a", "gone")
			must(t, f.g.Sync())
			copied := f.snapshot()
			f.put("b", "c")
			f.remove("gone")
			if again {
				f.close()
				f.open()
				f.put("d")
				f.close()
			} else {
				f.kill()
			}
			f.openWith(copied)
			want := map[bool]string{false: "serving", true: "building"}[again]
			if st := f.g.Stats(); st.State != want || !again && (st.Replayed != 2 || st.Keys != map[DeleteMode]uint64{Exact: 3, Rebuild: 4}[deletes]) {
				t.Errorf("%s: the guard should be %s; %+v", name, want, st)
			}
			f.mustShow()
			f.close()
		}
	})
}

// TestRestoredFromBeforeDoubt covers C9: a filter from before a call of Doubt is restored, or the old
// filter as it was when a rebuild after Doubt had given it a new token. It lacks a key that has bypassed
// the guard, so it does not serve.
func TestRestoredFromBeforeDoubt(t *testing.T) {
	both(t, func(t *testing.T, deletes DeleteMode) {
		for _, late := range []bool{false, true} {
			o, filter := quiet(t, deletes), new(markedFilter)
			hooked(o, func(real guarded.Filter) guarded.Filter { filter.Filter = real; return filter })
			f := begin(t, o)
			f.put("a")
			f.work()
			old := f.backup()
			must(t, f.g.Doubt())
			f.commit(Changes{}, "past", true)
			if late {
				filter.marked = func() { old = f.backup() }
			}
			f.rebuild()
			f.kill()
			f.openWith(old)
			f.mustBe("building")
			f.close()
		}
	})
}

// TestReplacedFilter covers G2: a filter takes the place of a stale one, which has done operations. A
// crash loses a key that the new filter does not have durably, so Open takes the key from the outbox.
func TestReplacedFilter(t *testing.T) {
	both(t, func(t *testing.T, deletes DeleteMode) {
		f := begin(t, still(t, deletes))
		f.put("a", "b", "c")
		f.kill()
		f.commit(Changes{Remove: []Range{just(entryKey(keyStamp))}}, "", false)
		f.open()
		f.rebuild()
		copied := f.snapshot()
		f.put("d")
		f.kill()
		f.openWith(copied)
		f.mustBe("serving")
		f.close()
	})
}

// TestRestoredStore covers C9: a rebuild after Doubt ends, but is in doubt, too. Then the store is
// restored from before the first Doubt. The new filter lacks a key that was deleted, so it does not
// serve.
func TestRestoredStore(t *testing.T) {
	both(t, func(t *testing.T, deletes DeleteMode) {
		for _, positions := range []bool{false, true} {
			r := newRows()
			store := Store(r)
			if positions {
				store = ordered{rows: r}
			}
			f := beginWith(t, r, store, still(t, deletes))
			f.put("a")
			f.work()
			before := maps.Clone(r.rows)
			must(t, f.g.Doubt())
			f.commit(Changes{}, "a", false)
			f.read = func() { must(t, f.g.Doubt()) }
			f.rebuild()
			f.kill()
			r.rows, r.read = before, nil
			f.openWith(f.o)
			f.mustBe("building")
			f.close()
		}
	})
}

// A markedFilter calls marked once, when it has a new token.
type markedFilter struct {
	guarded.Filter
	marked func()
}

func (f *markedFilter) SyncAtFunc(seq func(uint64) uint64) error {
	err := f.Filter.SyncAtFunc(seq)
	if do := f.marked; do != nil {
		f.marked = nil
		do()
	}
	return err
}

// TestRestoredFromRebuild covers C9: keys find no room in a filter, so it is rebuilt. The old filter is
// restored as it was at the end of the rebuild. It lacks these keys, and the outbox no longer has them.
func TestRestoredFromRebuild(t *testing.T) {
	both(t, func(t *testing.T, deletes DeleteMode) {
		o, filter := quiet(t, deletes), new(markedFilter)
		o.Capacity = 100
		hooked(o, func(real guarded.Filter) guarded.Filter { filter.Filter = real; return filter })
		o.Hooks.Manual = true
		f := begin(t, o)
		for i := range 1000 {
			f.put(fmt.Sprint(i))
		}
		var old *Options
		filter.marked = func() { old = f.backup() }
		f.rebuild()
		f.work()
		if st := f.g.Stats(); st.Outbox > 0 || st.Overflow > 0 {
			t.Errorf("%+v", st)
		}
		f.kill()
		f.openWith(old)
		f.mustBe("building")
		f.close()
	})
}

// TestKilledInOpen covers C9: a backup of the store is opened, and the guard is killed after it has put
// the keys of the outbox into the filter. Then the store itself is opened. Its outbox has a key of a
// transaction that had not been committed when the backup was made.
func TestKilledInOpen(t *testing.T) {
	both(t, func(t *testing.T, deletes DeleteMode) {
		f := begin(t, still(t, deletes))
		before := f.backup()
		tx := f.g.Begin()
		tx.Put([]byte("late"))
		late := tx.Prepare()
		f.put("early")
		backup := maps.Clone(f.rows.rows)
		f.commit(late, "late", true)
		tx.Done(Committed)
		f.kill()
		store := f.rows.rows
		f.rows.rows = backup
		var filter guarded.Filter
		f.o = hooked(before, func(real guarded.Filter) guarded.Filter { filter = real; return real })
		var killed *Options
		f.rows.write = func(Changes) {
			if killed == nil && filter.ContainsHash(filter.Hash([]byte("early"))) {
				killed = f.snapshot()
			}
		}
		f.open()
		f.close()
		f.rows.rows, f.rows.write = store, nil
		f.openWith(killed)
		f.mustShow()
		f.close()
	})
}

// TestDeletesBesideOverflow covers C9: keys that found no room in the filter are deleted. Deleting them
// from the filter would remove other keys, for which it takes them: when a store is opened after a kill,
// or when memory has no room for some of them either.
func TestDeletesBesideOverflow(t *testing.T) {
	defer func(n int) { mostOverflow = n }(mostOverflow)
	for _, lost := range []bool{false, true} {
		o, random := still(t, Exact), uint64(0)
		o.Capacity, o.FalsePositiveRate = 100, 0.05
		o.Hooks.Random = func() uint64 { random += 0x9e3779b97f4a7c15; return random } // no luck
		f := begin(t, o)
		const keys, stay = 2000, 50
		if lost {
			mostOverflow = keys - 400
		}
		for i := range keys {
			f.put(fmt.Sprint(i))
		}
		f.work()
		for i := stay; i < keys; i++ {
			f.remove(fmt.Sprint(i))
		}
		if lost {
			f.work()
		}
		f.kill()
		f.open()
		f.mustShow()
		f.close()
	}
}
