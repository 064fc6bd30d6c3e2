package guardtest

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/mmapfilter/mmapfilter/mmapfilter/guard"
)

// Owner covers G6: guards with other prefixes and filters open a store in turns. No key is hidden.
func Owner(t *testing.T, e Engine) {
	for _, deletes := range modes {
		t.Run(deletes.String(), func(t *testing.T) {
			dir := t.TempDir()
			for i, prefix := range []string{"", "o", "", guard.OwnerName[:13] + "n", "o", guard.OwnerName + "y", ""} {
				o := quiet(deletes)
				o.Prefix, o.Path = []byte(prefix), filepath.Join(dir, fmt.Sprintf("filter%x", prefix))
				d := e.mustOpen(t, dir, o)
				mustHideNone(t, d)
				set(t, d, 100*i, 100*i+100)
				if n := mustHideNone(t, d); n < 100*i+100 { // entries of others are keys, too
					t.Errorf("%d keys", n)
				}
				eventually(t, d, "a filter", serving)
				must(t, d.Close())
				must(t, e.mustServe(t, dir, o).Close())
			}
		})
	}
}

// Covers has a filter for some of the keys.
func Covers(t *testing.T, e Engine) {
	for _, deletes := range modes {
		t.Run(deletes.String(), func(t *testing.T) {
			dir, o := t.TempDir(), quiet(deletes)
			o.FalsePositiveRate = 1e-7 // a test that fails for chance is no good
			o.Covers, o.CoversVersion = func(key []byte) bool { return key[len(key)-1]%2 == 0 }, "even"
			d := e.mustOpen(t, dir, o)
			set(t, d, 0, 100)
			for _, when := range []string{"now", "after a rebuild", "opened again"} {
				switch when {
				case "after a rebuild":
					rebuild(t, d)
				case "opened again":
					must(t, d.Close())
					d = e.mustServe(t, dir, o)
				}
				before := d.GuardStats()
				for i := range 200 {
					value, err := d.Get(number(i))
					if must(t, err); (value != nil) != (i < 100) {
						t.Fatalf("%s: key %d: %q", when, i, value)
					}
				}
				if s := d.GuardStats(); s.Keys != 50 || s.Lookups-before.Lookups != 100 || s.Skipped-before.Skipped != 50 {
					t.Errorf("%s: %+v", when, s)
				}
			}
			must(t, d.Close())
		})
	}
}

// Old covers G1: a reader that began before deletes finds what it finds in the store, once the filter
// has let the keys go. The filter is not asked, so what the store says tells nothing of it.
func Old(t *testing.T, e Engine) {
	for _, deletes := range modes {
		t.Run(deletes.String(), func(t *testing.T) {
			o := quiet(deletes)
			o.FalsePositiveRate = 1e-7
			d := e.mustOpen(t, t.TempDir(), o)
			set(t, d, 0, 300)
			old, err := d.Reader()
			must(t, err)
			look := func(keys int, want guard.Stats) {
				t.Helper()
				before := d.GuardStats()
				for i := range 600 {
					value, err := old.Get(number(i))
					if must(t, err); (value != nil) != (i < keys) {
						t.Fatalf("key %d: %q", i, value)
					}
				}
				s := d.GuardStats()
				if s.Skipped-before.Skipped != want.Skipped || s.Unfiltered-before.Unfiltered != want.Unfiltered || s.FalsePositives != before.FalsePositives {
					t.Errorf("%+v", s)
				}
			}
			look(300, guard.Stats{Skipped: 300})
			remove(t, d, 0, 300)
			must(t, d.Guard().Work())
			rebuild(t, d)
			look(300, guard.Stats{Unfiltered: 600})
			must(t, old.Close())
			old, err = d.Reader()
			must(t, err)
			look(0, guard.Stats{Skipped: 600})
			must(t, old.Close())
			must(t, d.Close())
		})
	}
}
