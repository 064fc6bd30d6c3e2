package guard

import (
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
