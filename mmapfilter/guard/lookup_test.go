package guard

import "testing"

// TestAbsentIn covers G1: a reader began before a delete. Once the filter has dropped the key, the guard
// hides it from later readers only.
func TestAbsentIn(t *testing.T) {
	for _, deletes := range []DeleteMode{Exact, Rebuild} {
		s, o := newRows(), testOptions(t, deletes)
		g, err := Open(s, o)
		must(t, err)
		key := []byte("a")
		s.put(g, "a")
		before := g.View()
		s.remove(g, "a")
		if deletes == Exact {
			must(t, g.Work())
		} else {
			must(t, g.Rebuild(t.Context()))
		}
		if g.AbsentIn(before, key) {
			t.Errorf("%s: a reader that has the key does not find it; %+v", deletes, g.Stats())
		}
		if !g.AbsentIn(g.View(), key) {
			t.Errorf("%s: the filter has the key still; %+v", deletes, g.Stats())
		}
		must(t, g.Close())
	}
}
