package guardtest

import (
	"math/rand/v2"
	"testing"

	"github.com/mmapfilter/mmapfilter/mmapfilter/guard"
)

// Growth covers G3 and G5: the filter grows with the store, and becomes smaller again; its rate stays.
// Readers look at random keys meanwhile.
func Growth(t *testing.T, e Engine) {
	const most, least = 100_000, 10_000
	Each(t, func(t *testing.T, deletes guard.DeleteMode) {
		d := e.MustOpen(t, t.TempDir(), Often(deletes))
		c := &crew{db: d, errs: make(chan error, 20)}
		for range 2 {
			c.again(c.sample)
		}
		for n := 0; n < most; n += 10_000 {
			Set(t, d, n, n+10_000)
			Set(t, d, n/2, n/2+1000) // keys that are there already
			Remove(t, d, 0, 2000)
			Set(t, d, 0, 2000)
		}
		next := most
		next = mustSettle(t, d, next)
		if s := d.GuardStats(); s.Rebuilds == 0 || s.Capacity < most {
			t.Errorf("%+v", s)
		}
		Remove(t, d, least, most)
		Set(t, d, 0, least)
		next = mustSettle(t, d, next)
		Eventually(t, d, "smaller", func(s guard.Stats) bool { return s.Capacity < most && s.Keys < 3*least })
		mustSettle(t, d, next)
		Must(t, c.work(0))
		if n := MustHideNone(t, d); n != least {
			t.Errorf("%d keys", n)
		}
	})
}

// sample looks at random keys in the view of one instant.
func (c *crew) sample() error {
	r, err := c.db.Reader()
	if err != nil {
		return err
	}
	for i := 0; i < 1000 && err == nil; i++ {
		err = compare(c.db, r, Number(rand.IntN(110_000)))
	}
	if e := r.Close(); err == nil {
		err = e
	}
	return err
}

// mustSettle looks up absent keys until the rate is what it should be. With guard.Rebuild, the guard
// rebuilds the filter because of these lookups. mustSettle looks up each key once, and returns the
// number of the next key.
func mustSettle(t *testing.T, d DB, next int) int {
	t.Helper()
	Eventually(t, d, "the rate", func(before guard.Stats) bool {
		for range 20_000 {
			value, err := d.Get(Number(next))
			Must(t, err)
			if value != nil {
				t.Fatalf("key %d is there", next)
			}
			next++
		}
		s := d.GuardStats()
		rate := float64(s.FalsePositives-before.FalsePositives) / 20_000
		return Serving(s) && s.Overflow == 0 && s.Unfiltered == before.Unfiltered && rate <= 2*s.RateAsked
	})
	MustHideNone(t, d)
	return next
}
