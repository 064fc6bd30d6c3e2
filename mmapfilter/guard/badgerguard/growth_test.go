package badgerguard

import (
	"testing"

	"github.com/mmapfilter/mmapfilter/mmapfilter/guard"
)

// TestGrowth lets a store outgrow its filter, and shrink again.
func TestGrowth(t *testing.T) {
	modes(t, func(t *testing.T, deletes guard.DeleteMode) {
		const most, least = 200_000, 10_000
		d := mustOpen(t, small(t.TempDir()), often(deletes))
		// look checks that a sample of what is there is found.
		look := func(from, to int) {
			t.Helper()
			must(t, d.View(func(txn *Txn) error {
				for i := from; i < to; i += 1 + (to-from)/500 {
					if _, err := txn.Get(number(i)); err != nil {
						t.Fatalf("key %d of %d to %d: %v; %+v", i, from, to, err, d.GuardStats())
					}
				}
				return nil
			}))
		}
		// settled looks absent keys up until their rate is at most twice the one asked for.
		asked := most
		settled := func() {
			t.Helper()
			waitFor(t, "the rate", func() bool {
				before := d.GuardStats()
				must(t, d.View(func(txn *Txn) error {
					for range 5000 { // each once
						asked++
						if _, err := txn.Get(number(asked)); err == nil {
							t.Fatalf("key %d is there", asked)
						}
					}
					return nil
				}))
				after := d.GuardStats()
				return after.State == "serving" && after.FalsePositives+after.Unfiltered-before.FalsePositives-before.Unfiltered <= 100
			})
			t.Logf("%+v", d.GuardStats())
		}
		for n := 0; n < most; n += 10_000 {
			set(t, d, n, n+10_000)
			look(0, n+10_000)
			set(t, d, n/2, n/2+1000) // overwrites
		}
		settled()
		look(0, most)
		for n := most; n > least; n -= 10_000 {
			remove(t, d, n-10_000, n)
			look(0, n-10_000)
			set(t, d, n-10_000, n-9_900) // and again
			look(n-10_000, n-9_900)
			remove(t, d, n-10_000, n-9_900)
		}
		settled()
		set(t, d, 0, least)
		settled()
		if n := mustHideNone(t, d); n != least {
			t.Errorf("%d keys", n)
		}
		if s := d.GuardStats(); s.Rebuilds < 8 || s.Capacity > 100_000 {
			t.Errorf("%+v", s)
		}
	})
}
