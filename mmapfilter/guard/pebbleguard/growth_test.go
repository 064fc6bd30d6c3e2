package pebbleguard

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/mmapfilter/mmapfilter/mmapfilter/guard"
)

// TestGrowth grows a store to many times the capacity that was asked for, and shrinks it.
func TestGrowth(t *testing.T) {
	const most, least = 200_000, 10_000
	for _, deletes := range bothModes {
		t.Run(deletes.String(), func(t *testing.T) {
			d := mustOpen(t, t.TempDir(), newest(), &guard.Options{Capacity: 1000, Deletes: deletes, CommitInterval: 5 * time.Millisecond})
			defer func() { must(t, d.Close()) }()
			write := func(n int, do func(b *Batch, i int) error) {
				t.Helper()
				var group sync.WaitGroup
				const workers = 4
				for w := range workers {
					group.Add(1)
					go func() {
						defer group.Done()
						for from := w * 100; from < n; from += workers * 100 {
							b := d.NewBatch()
							for i := from; i < min(n, from+100); i++ {
								if err := do(b, i); err != nil {
									t.Error(err)
								}
							}
							if err := b.Commit(pebble.NoSync); err != nil {
								t.Error(err)
							}
							b.Close()
							if from/100%97 == 0 {
								if err := hiddenNow(d); err != nil {
									t.Error(err)
								}
							}
						}
					}()
				}
				group.Wait()
				_, err := hidden(d)
				must(t, err)
			}
			settled := func(keys int) {
				t.Helper()
				if n, err := hidden(d); err != nil || n != keys {
					t.Fatalf("%d keys, not %d: %v", n, keys, err)
				}
				// Absent keys are asked for until the rate is right: with deletes: Rebuild it is
				// they that have the filter rebuilt.
				var before, now guard.Stats
				next := 0
				wait(t, fmt.Sprintf("the rate for %d keys", keys), func() bool {
					if next > 0 && now.Overflow == 0 && now.Rebuilds == before.Rebuilds {
						f, s := now.FalsePositives-before.FalsePositives, now.Skipped-before.Skipped
						if s > 0 && float64(f)/float64(f+s) <= 2*now.RateAsked {
							return true
						}
					}
					before = d.GuardStats()
					for range 20_000 {
						if _, c, err := d.Get(fmt.Appendf(nil, "absent %d", next)); err == nil {
							c.Close()
							t.Error("an absent key is there")
						}
						next++
					}
					now = d.GuardStats()
					return false
				})
				t.Logf("%d keys: %+v", keys, d.GuardStats())
				if now.Capacity < uint64(keys) || now.State != "serving" {
					t.Errorf("%+v", now)
				}
			}
			set := func(b *Batch, i int) error { return b.Set(number(i), []byte("v"), nil) }
			write(most, set)
			settled(most)
			write(most/4, set) // overwrites
			write(most, func(b *Batch, i int) error {
				if i < least {
					return nil
				}
				return b.Delete(number(i), nil)
			})
			write(least, set)
			settled(least)
			write(most/10, set) // some again
			settled(most / 10)
			must(t, d.DeleteRange(number(least), number(most), nil))
			settled(least)
			if s := d.GuardStats(); s.Capacity > most {
				t.Errorf("the filter is as large as it was: %+v", s)
			}
		})
	}
}
