package guard

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/guarded"
)

// backup copies the filter, as it is now. It returns options for the copy.
func backup(t *testing.T, o *Options) *Options {
	t.Helper()
	dir, n := t.TempDir(), *o
	must(t, os.CopyFS(dir, os.DirFS(filepath.Dir(o.Path))))
	n.Path = filepath.Join(dir, filepath.Base(o.Path))
	return &n
}

// TestKilledAfterSync covers G2: after a kill the filter lacks its last operations. Open does all of
// these, and no other.
func TestKilledAfterSync(t *testing.T) {
	for _, deletes := range []DeleteMode{Exact, Rebuild} {
		s, o := newRows(), testOptions(t, deletes)
		g, err := Open(s, o)
		must(t, err)
		s.put(g, "a")
		must(t, g.Sync())
		o = backup(t, o)
		s.put(g, "b")
		s.put(g, "c")
		must(t, g.filter.Close()) // no more than that
		g.end()
		g, err = Open(s, o)
		must(t, err)
		if st := g.Stats(); st.State != "serving" || st.Replayed != 2 || st.Keys != 3 {
			t.Errorf("%s: %+v", deletes, st)
		}
		s.mustShow(t, g)
		must(t, g.Close())
	}
}

// An unmarkedFilter takes no token.
type unmarkedFilter struct{ guarded.Filter }

func (unmarkedFilter) SyncAtFunc(func(uint64) uint64) error { return errStuck }

// TestKilledInMark covers G2: a kill comes in the middle of an Open, which has put a new token into the
// store, without an outbox, and not yet into the filter. The filter serves, but an older copy does not.
func TestKilledInMark(t *testing.T) {
	for _, older := range []bool{false, true} {
		s, o := newRows(), testOptions(t, Exact)
		g, err := Open(s, o)
		must(t, err)
		before := backup(t, o)
		s.put(g, "a")
		must(t, g.filter.Close()) // no more than that
		g.end()
		unmarked := *o
		hooked(&unmarked, func(real guarded.Filter) guarded.Filter { return unmarkedFilter{real} })
		if _, err := Open(s, &unmarked); !errors.Is(err, errStuck) {
			t.Fatalf("the filter takes a token: %v", err)
		}
		want := "serving"
		if older {
			o, want = before, "building"
		}
		o.Hooks = newGuard(nil, o).hooks()
		o.Hooks.Manual = true // so nothing is built
		g, err = Open(s, o)
		must(t, err)
		if st := g.Stats(); st.State != want {
			t.Errorf("an older copy: %t; %+v", older, st)
		}
		s.mustShow(t, g)
		must(t, g.Close())
	}
}
