package guard

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestRateAtAnyTime looks up absent keys while a store is filled, keys are deleted, put once more and
// put again, and transactions are aborted. Of keys that the store never had, at most twice the
// requested share passes. Even if most lookups are of keys that are gone, only a few more lookups pass
// before a rebuild begins: a 16th of the number of keys in the filter, and as many as tooManyPass needs
// to notice it. Stats count the lookups that pass, and have the requested rate (G5).
func TestRateAtAnyTime(t *testing.T) {
	const keys, rate = 4000, 0.01
	both(t, func(t *testing.T, deletes DeleteMode) {
		o := still(t, deletes)
		o.Capacity, o.FalsePositiveRate = keys, rate
		o.Hooks.Random = rand.New(rand.NewPCG(1, 2)).Uint64
		f := begin(t, o)
		g := f.g
		gone := map[int]bool{} // not in the store
		name := func(i int) string { return fmt.Sprintf("key %06d", i) }
		put := func(from, to int) {
			for i := from; i < to; i++ {
				f.put(name(i))
				delete(gone, i)
			}
		}
		remove := func(from, to int) {
			for i := from; i < to; i++ {
				f.remove(name(i))
				gone[i] = true
			}
		}
		abort := func(from, to int) {
			for i := from; i < to; i++ {
				tx := g.Begin()
				tx.Put([]byte(name(i)))
				tx.Prepare()
				tx.Done(Aborted)
				gone[i] = true
			}
		}
		rebuilds, begun := 0, g.Stats() // at the end of the last rebuild
		look := func(key string) {
			t.Helper()
			before := g.Stats()
			passes := !g.Absent([]byte(key))
			if passes {
				g.Found([]byte(key), false)
			}
			st := g.Stats()
			want := before
			if passes {
				want.FalsePositives++
			} else {
				want.Skipped++
			}
			if st.FalsePositives != want.FalsePositives || st.Skipped != want.Skipped || st.TruePositives != want.TruePositives {
				t.Errorf("%q passes: %t: %+v after %+v", key, passes, st, before)
			}
			if !passes {
				return
			}
			passed := float64(st.FalsePositives - begun.FalsePositives)
			absent := passed + float64(st.Skipped-begun.Skipped)
			if most := 2*rate*absent + someGone*float64(st.Keys) + 5*considerEvery; passed > most {
				t.Fatalf("%v of %v absent keys have passed since a rebuild, more than %.0f; %+v", passed, absent, most, st)
			}
			if g.wants() {
				f.rebuild()
				rebuilds++
				begun = g.Stats()
			}
		}
		next := 100_000
		step := func(what string) {
			t.Helper()
			f.work() // an interval has passed
			before := g.Stats()
			for range keys {
				look(name(next))
				next++
			}
			if st := g.Stats(); st.RateAsked != rate || st.Rate != float64(st.FalsePositives)/float64(st.FalsePositives+st.Skipped) {
				t.Errorf("%s: %+v", what, st)
			}
			if passed := g.Stats().FalsePositives - before.FalsePositives; float64(passed) > 2*rate*keys {
				t.Errorf("%s: %d of %d keys that were never there pass", what, passed, keys)
			}
			for range 40 {
				for _, i := range slices.Sorted(maps.Keys(gone)) {
					look(name(i))
				}
			}
			before = g.Stats()
			for _, i := range slices.Sorted(maps.Keys(gone)) {
				look(name(i))
			}
			// After so many lookups, the filter has been rebuilt if that helps.
			passed := g.Stats().FalsePositives - before.FalsePositives
			if most := 2*rate*float64(len(gone)) + 2; float64(passed) > most+keys*someGone/40 {
				t.Errorf("%s: still %d of %d keys that are gone pass", what, passed, len(gone))
			}
			f.mustShow()
		}
		put(0, keys)
		step("full")
		abort(keys, keys+keys/40)
		step("some aborted")
		remove(0, keys/20)
		step("some deleted")
		remove(keys/20, keys/10)
		put(keys/2, keys) // the store has these keys
		step("others put once more")
		put(0, keys/20)
		step("some put again")
		remove(0, 1)
		step("one deleted")
		for n := keys / 10; n < keys*3/4; n += keys / 8 {
			remove(n, n+keys/8)
			put(n+keys/8, keys)
			step("more deleted")
		}
		abort(keys, 2*keys)
		step("many aborted")
		put(0, keys)
		step("full again")
		remove(0, keys-10)
		step("nearly empty")
		put(0, 2*keys)
		step("twice as many")
		if deletes == Rebuild && rebuilds < 6 {
			t.Errorf("%d rebuilds", rebuilds)
		}
		t.Log(rebuilds, "rebuilds")
		f.close()
	})
}
