package guard

import (
	"errors"
	"fmt"
	"testing"

	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/guarded"
)

// An unmarkedFilter takes no token.
type unmarkedFilter struct{ guarded.Filter }

func (unmarkedFilter) SyncAtFunc(func(uint64) uint64) error { return errStuck }

// TestKilledInMark covers G2: a kill comes in the middle of an Open, which has put a new token into the
// store, without an outbox, and not yet into the filter. The filter serves, but an older copy does not.
func TestKilledInMark(t *testing.T) {
	for _, older := range []bool{false, true} {
		f := begin(t, quiet(t, Exact))
		before := f.backup()
		f.put("a")
		f.kill()
		unmarked := *f.o
		hooked(&unmarked, func(real guarded.Filter) guarded.Filter { return unmarkedFilter{real} })
		if _, err := Open(f.store, &unmarked); !errors.Is(err, errStuck) {
			t.Fatalf("the filter takes a token: %v", err)
		}
		want := "serving"
		if older {
			f.o, want = before, "building"
		}
		f.o.Hooks = newGuard(nil, f.o).hooks()
		f.o.Hooks.Manual = true // so nothing is built
		f.open()
		f.mustBe(want)
		f.close()
	}
}

// A brokenFilter takes nothing in.
type brokenFilter struct{ guarded.Filter }

func (brokenFilter) InsertHashes([]uint64, bool) (n, added int, err error) { return 0, 0, errStuck }

// TestDrainFails makes inserts of the outbox into the filter fail: Stats say so, whoever
// notices first, and no key is hidden.
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
			t.Errorf("%s: it has not failed: %v", name, err)
		}
		f.eventually("the error", func(st Stats) bool { return st.Err == errStuck.Error() })
		f.mustBe("off")
		f.close()
	}
}

// TestGone covers G2: the store cannot tell what came after the position of the filter, so that is
// rebuilt.
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

// TestOverflowIsNotDurable covers G5: keys that found no room in the filter wait, though the others are
// durable, until a rebuild has made a larger one.
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

// TestLargePositions covers G2: positions that a filter has no room for leave it to the outbox, and
// those that outgrow it later stay what they were.
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
			t.Errorf("position %d: there is an outbox: %t", at, !outbox)
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
