package multiset_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
	_ "github.com/mmapfilter/mmapfilter/layout/all"
	"github.com/mmapfilter/mmapfilter/layout/layouttest"
	"github.com/mmapfilter/mmapfilter/layout/multiset"
)

// TestCheck puts items in their home lines, an alternate line and the stash, and then makes each mistake
// that Check must find.
func TestCheck(t *testing.T) {
	layouttest.Each(t, 9, func(t *testing.T, tab layout.Table) {
		v, m, rng := layouttest.View(tab), multiset.New(tab), rand.New(rand.NewPCG(1, 2))
		place := func(it layout.Item) (ok bool) {
			layouttest.Change(tab, v.Region, it.Line, func(l *layout.Line) { ok = tab.Place(l, it, nil) })
			return ok
		}
		overflow := func(it layout.Item) {
			layouttest.Change(tab, v.Region, it.Line, func(l *layout.Line) { layouttest.SetOverflow(tab, l, it) })
		}
		var hashes []uint64
		add := func(h uint64) { m.Add(h, 1); hashes = append(hashes, h) }
		for range 5 {
			if h := rng.Uint64(); place(tab.Split(h)) {
				add(h)
			}
		}
		// One item is in its alternate line, and one in the stash.
		away := rng.Uint64()
		for tab.Alternate(tab.Split(away)).Line == tab.Split(away).Line || m.Count(away) != 0 || !place(tab.Alternate(tab.Split(away))) {
			away = rng.Uint64()
		}
		overflow(tab.Split(away))
		add(away)
		stashed := rng.Uint64()
		for m.Count(stashed) != 0 {
			stashed = rng.Uint64()
		}
		it := tab.Split(stashed)
		overflow(it)
		overflow(tab.Alternate(it))
		if !layout.StashAdd(v.Stash, tab.Class(it), layouttest.Into(v.Stash)) {
			t.Fatal("the stash has no room")
		}
		add(stashed)
		if err := m.Check(v); err != nil {
			t.Fatal(err)
		}
		if m.Len() != len(hashes) || m.Count(away) != 1 || m.Copies(stashed) != 1 {
			t.Fatalf("%d keys of %d, %d, %d", m.Len(), len(hashes), m.Count(away), m.Copies(stashed))
		}

		other := m.Clone()
		other.Add(hashes[0], 1)
		mustFail(t, other, v, "items in the lines")
		other.Add(hashes[1], -1) // other items, but the same number
		mustFail(t, other, v, "copies")
		if layouttest.Both(tab) {
			return // no overflow bits
		}
		home := tab.Split(away)
		layouttest.Change(tab, v.Region, home.Line, func(l *layout.Line) { *l = layout.Line{} })
		moved := multiset.New(tab)
		moved.Add(away, 1)
		c := moved.Class(moved.Locate(away).Class)
		if err := c.Check(tab, v.At); err == nil || !strings.Contains(err.Error(), "no overflow bits") {
			t.Errorf("without the overflow bits of %+v: %v", home, err)
		}
	})
}

func mustFail(t *testing.T, m *multiset.Multiset, v *layout.View, says string) {
	t.Helper()
	if err := m.Check(v); err == nil || !strings.Contains(err.Error(), says) {
		t.Fatalf("Check returns %v, not %q", err, says)
	}
}

// TestHashOf: HashOf returns a hash with the line and fingerprint of the item, whichever line it is in.
func TestHashOf(t *testing.T) {
	layouttest.Each(t, 9, func(t *testing.T, tab layout.Table) {
		rng := rand.New(rand.NewPCG(3, 4))
		for range 100 {
			it := tab.Split(rng.Uint64())
			if h := multiset.HashOf(tab, it); tab.Split(h) != it {
				t.Fatalf("%+v became %+v", it, tab.Split(h))
			}
			other := tab.Alternate(it)
			if got := tab.Split(multiset.HashOf(tab, other)); got.Line != other.Line || got.Fp != other.Fp {
				t.Fatalf("%+v became %+v", other, got)
			}
		}
	})
}
