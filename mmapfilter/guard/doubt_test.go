package guard

import (
	"bytes"
	"runtime"
	"slices"
	"testing"
	"time"
)

// TestDoubt has a key written past the guard, by an operation that takes longer than a rebuild: it
// is never hidden, whether Rebuild is called or a kill comes first.
func TestDoubt(t *testing.T) {
	for _, killed := range []bool{false, true} {
		s, o := newRows(), testOptions(t, Exact)
		o.CommitInterval = time.Millisecond
		g, err := Open(s, o)
		must(t, err)
		s.put(g, "a")
		must(t, g.Doubt())
		time.Sleep(100 * time.Millisecond) // the background could do a rebuild meanwhile
		s.commit(Changes{}, "past", true)
		s.mustShow(t, g)
		if killed {
			g.end()
			g.background.Wait()
			must(t, g.filter.Close())
			g, err = Open(s, o)
			must(t, err)
		} else {
			must(t, g.Rebuild(t.Context()))
		}
		eventually(t, g, "a rebuild", func(st Stats) bool { return st.State == "serving" })
		s.mustShow(t, g)
		must(t, g.Close())
	}
}

// TestDoubtDuringMark covers C9: a doubt comes while the mark at the end of a rebuild is under way. Only
// a later rebuild has the guard serve.
func TestDoubtDuringMark(t *testing.T) {
	s, o := newRows(), testOptions(t, Exact)
	o.Hooks = newGuard(nil, o).hooks()
	o.Hooks.Manual = true
	s.commit(Changes{}, "a", true) // so no filter can serve at once
	g, err := Open(s, o)
	must(t, err)
	doubt := make(chan error, 1)
	s.write = func(c Changes) {
		if slices.ContainsFunc(c.Set, func(e Entry) bool { return bytes.Equal(e.Key, entryKey(keyStamp)) }) {
			go func() { doubt <- g.Doubt() }()
			for !g.doubted(0) {
				runtime.Gosched()
			}
		}
	}
	must(t, g.Rebuild(t.Context()))
	must(t, <-doubt)
	s.write = nil
	s.commit(Changes{}, "past", true)
	if st := g.Stats(); st.State != "building" {
		t.Errorf("%+v", st)
	}
	s.mustShow(t, g)
	must(t, g.Rebuild(t.Context()))
	if st := g.Stats(); st.State != "serving" {
		t.Errorf("after another rebuild: %+v", st)
	}
	s.mustShow(t, g)
	must(t, g.Close())
}
