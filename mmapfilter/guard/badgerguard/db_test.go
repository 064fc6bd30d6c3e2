package badgerguard

import (
	"context"
	"testing"

	"github.com/mmapfilter/mmapfilter/mmapfilter/guard"
)

func TestGuard(t *testing.T) {
	modes(t, func(t *testing.T, deletes guard.DeleteMode) {
		dir := t.TempDir()
		d := mustOpen(t, small(dir), often(deletes))
		set(t, d, 0, 20_000)
		mustHave(t, d, 0, 20_000, 40_000)
		remove(t, d, 0, 10_000)
		mustHave(t, d, 10_000, 20_000, 40_000)
		must(t, d.Close())
		d = mustOpen(t, small(dir), often(deletes))
		mustHave(t, d, 10_000, 20_000, 40_000)
		must(t, d.Guard().Rebuild(context.Background()))
		before := d.GuardStats()
		mustHave(t, d, 10_000, 20_000, 40_000)
		if s := d.GuardStats(); s.State != "serving" || s.FalsePositives-before.FalsePositives > 600 || s.Skipped-before.Skipped < 29_000 {
			t.Errorf("%+v", s)
		}
	})
}

// TestCovers has a filter for some of the keys.
func TestCovers(t *testing.T) {
	modes(t, func(t *testing.T, deletes guard.DeleteMode) {
		g := quiet(deletes)
		g.Covers = func(key []byte) bool { return key[len(key)-1]%2 == 0 }
		g.CoversVersion = "even"
		dir := t.TempDir()
		d := mustOpen(t, small(dir), g)
		set(t, d, 0, 100)
		for _, when := range []string{"now", "after a rebuild", "opened again"} {
			switch when {
			case "after a rebuild":
				must(t, d.Guard().Rebuild(context.Background()))
			case "opened again":
				must(t, d.Close())
				d = mustOpen(t, small(dir), g)
			}
			before := d.GuardStats().Lookups
			mustHave(t, d, 0, 100, 200)
			// guard.Rebuild leaves out a key that the filter takes for another one.
			if s := d.GuardStats(); s.Keys > 50 || s.Keys < 46 || s.Lookups-before != 100 {
				t.Errorf("%s: %+v", when, s)
			}
		}
	})
}
