package guard

import (
	"fmt"
	"testing"
)

// TestRate covers G5: Rate is the share of the absent keys that passed the filter, whatever keys
// are found, and stands beside the one asked for.
func TestRate(t *testing.T) {
	const keys, absent = 1000, 20_000
	s, o := newRows(), testOptions(t, Exact)
	o.Capacity, o.FalsePositiveRate = keys, 0.05
	g, err := Open(s, o)
	must(t, err)
	if st := g.Stats(); st.Rate != 0 || st.RateAsked != 0.05 {
		t.Errorf("before a lookup: %+v", st)
	}
	for i := range keys {
		s.put(g, fmt.Sprint("key ", i))
	}
	passed, found := 0, 0
	ask := func(key string) (passes bool) {
		there, err := s.Has([]byte(key)) // a rebuild may be at work
		must(t, err)
		if passes = !g.Absent([]byte(key)); passes {
			g.Found([]byte(key), there)
		}
		return passes
	}
	before := g.Stats() // a put asks the filter
	for i := range absent {
		if ask(fmt.Sprint("none ", i)) {
			passed++
		}
		if i < keys && ask(fmt.Sprint("key ", i)) {
			found++
		}
	}
	st := g.Stats()
	if found != keys || st.TruePositives-before.TruePositives != keys {
		t.Errorf("%d keys of %d are found: %+v", found, keys, st)
	}
	if st.FalsePositives-before.FalsePositives != uint64(passed) || st.Skipped-before.Skipped != uint64(absent-passed) {
		t.Errorf("%d of %d absent keys have passed: %+v after %+v", passed, absent, st, before)
	}
	if want := float64(st.FalsePositives) / float64(st.FalsePositives+st.Skipped); st.Rate != want || st.RateAsked != 0.05 {
		t.Errorf("the rate is %v: %+v", want, st)
	}
	if real := float64(passed) / absent; real == 0 || real > 1.5*0.05 { // 16 times the standard deviation
		t.Errorf("the real rate is %v, of 0.05", real)
	}
	must(t, g.Close())
}
