package guard

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"
)

// eventually waits until the statistics are as they should be.
func eventually(t *testing.T, g *Guard, what string, ok func(s Stats) bool) {
	t.Helper()
	for end := time.Now().Add(8 * time.Second); !ok(g.Stats()); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not in time; %+v", what, g.Stats())
		}
	}
}

// TestOtherOptions opens stores with other options than before: a filter that does not fit them is
// rebuilt, and answers meanwhile; options that are 0 leave it as it is.
func TestOtherOptions(t *testing.T) {
	const keys = 800
	before := Options{Capacity: 1000, FalsePositiveRate: 0.02}
	for _, c := range []struct {
		name  string
		with  Options
		built bool
		want  Options
	}{
		{"none", Options{}, false, before},
		{"the same", before, false, before},
		{"a lower rate", Options{FalsePositiveRate: 0.001}, true, Options{Capacity: 1000, FalsePositiveRate: 0.001}},
		{"a higher rate", Options{FalsePositiveRate: 0.1}, true, Options{Capacity: 1000, FalsePositiveRate: 0.1}},
		{"twice the capacity", Options{Capacity: 2000}, true, Options{Capacity: 2000, FalsePositiveRate: 0.02}},
		{"less than that", Options{Capacity: 1999}, false, before},
		{"a smaller capacity", Options{Capacity: 100}, false, before},
		{"an impossible rate", Options{FalsePositiveRate: 2}, false, before},
	} {
		for _, deletes := range []DeleteMode{Exact, Rebuild} {
			t.Run(c.name+"/"+deletes.String(), func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "f")
				with := func(o Options) *Options {
					o.CommitInterval = time.Hour
					return o.WithDefaults(path, deletes)
				}
				s := newRows()
				g, err := Open(s, with(before))
				must(t, err)
				for i := range keys {
					s.put(g, fmt.Sprint(i))
				}
				must(t, g.Close())
				reading, read := make(chan bool, 10), make(chan bool)
				s.read = func() { reading <- true; <-read } // a rebuild waits
				g, err = Open(s, with(c.with))
				must(t, err)
				capacity := c.want.Capacity
				if c.built {
					capacity = max(capacity, 2*keys)
					eventually(t, g, "a rebuild begins", func(Stats) bool { return len(reading) > 0 })
				}
				s.mustShow(t, g)
				for i := range 100 {
					g.Absent(fmt.Append(nil, "nobody ", i))
				}
				if st := g.Stats(); st.State != "serving" || st.Skipped < 50 || st.Rebuilds > 0 || (st.Err != "") != (c.with.FalsePositiveRate == 2) {
					t.Errorf("before a rebuild: %+v", st)
				}
				s.put(g, "meanwhile")
				close(read)
				if c.built {
					eventually(t, g, "a rebuild", func(st Stats) bool { return st.Rebuilds > 0 })
				}
				must(t, g.Work())
				s.mustShow(t, g)
				for _, opens := range []string{"at first", "with none"} {
					if st := g.Stats(); g.filter.TargetRate() != c.want.FalsePositiveRate || st.RateAsked != c.want.FalsePositiveRate || st.Capacity != capacity {
						t.Errorf("%s: a filter for %v: %+v", opens, g.filter.TargetRate(), st)
					}
					must(t, g.Close())
					g, err = Open(s, with(Options{}))
					must(t, err)
				}
				if st := g.Stats(); st.Rebuilds > 0 || g.wants() {
					t.Errorf("it is rebuilt without need: %+v", st)
				}
				s.mustShow(t, g)
				must(t, g.Close())
			})
		}
	}
}

// TestLargeFilterStays opens a nearly empty filter that was asked to be large, with options that do not
// say so: it stays.
func TestLargeFilterStays(t *testing.T) {
	s, path := newRows(), filepath.Join(t.TempDir(), "f")
	for _, o := range []*Options{{Capacity: 3 * defaultCapacity}, nil} {
		g, err := Open(s, o.WithDefaults(path, Exact))
		must(t, err)
		s.put(g, "a")
		if st := g.Stats(); st.Capacity != 3*defaultCapacity || st.Rebuilds > 0 || g.wants() {
			t.Errorf("%+v", st)
		}
		must(t, g.Close())
	}
}

// TestRateOfStaleFilter has a filter rebuilt that is older or newer than the store, or had
// failed: the new one has its rate, also if a kill comes first.
func TestRateOfStaleFilter(t *testing.T) {
	for _, failed := range []bool{false, true} {
		for _, killed := range []bool{false, true} {
			s, o := newRows(), testOptions(t, Exact)
			o.FalsePositiveRate = 0.002
			g, err := Open(s, o)
			must(t, err)
			s.put(g, "a")
			if failed {
				g.fail(errTooMany)
			}
			must(t, g.Close())
			o.Capacity, o.FalsePositiveRate = 0, 0
			if !failed {
				o.Deletes = Rebuild
			}
			if killed {
				o.Hooks = newGuard(nil, o).hooks()
				o.Hooks.Manual = true // so nothing is built
				g, err = Open(s, o)
				must(t, err)
				must(t, g.filter.Close())
				g.end()
				o.Hooks = nil
			}
			g, err = Open(s, o)
			must(t, err)
			eventually(t, g, "a filter", func(st Stats) bool { return st.State == "serving" })
			if st := g.Stats(); st.RateAsked != 0.002 || st.Capacity != 1000 || g.filter.TargetRate() != 0.002 || st.Err != "" {
				t.Errorf("failed %t, killed %t: %+v", failed, killed, st)
			}
			s.mustShow(t, g)
			must(t, g.Close())
		}
	}
}

// TestGrownFilterShrinks empties a store whose filter has grown, and closes it, or kills its
// process, before a rebuild: options that do not say a size have it become as small as was asked
// for once.
func TestGrownFilterShrinks(t *testing.T) {
	const many, few = 4000, 10
	for _, when := range []string{"closed", "killed"} {
		for _, deletes := range []DeleteMode{Exact, Rebuild} {
			if when == "killed" && deletes == Rebuild {
				continue // then nobody knows what was deleted: see TestUnknownStays
			}
			t.Run(when+"/"+deletes.String(), func(t *testing.T) {
				s, o := newRows(), testOptions(t, deletes)
				o.Capacity = 100
				o.Hooks = newGuard(nil, o).hooks()
				o.Hooks.Manual = true
				g, err := Open(s, o)
				must(t, err)
				for i := range many {
					s.put(g, fmt.Sprint(i))
				}
				must(t, g.Rebuild(t.Context()))
				for i := few; i < many; i++ {
					s.remove(g, fmt.Sprint(i))
				}
				must(t, g.Work())
				for range 2 { // nobody says it twice
					if st := g.Stats(); st.Capacity != 2*many || !g.wants() {
						t.Errorf("%t; %+v", g.wants(), st)
					}
					if when == "closed" {
						must(t, g.Close())
					} else {
						must(t, g.filter.Close())
						g.end()
					}
					o.Capacity = 0
					g, err = Open(s, o)
					must(t, err)
				}
				if !g.wants() {
					t.Errorf("it keeps its size: %+v", g.Stats())
				}
				must(t, g.Rebuild(t.Context()))
				if st := g.Stats(); st.Capacity != 100 || st.Keys != few || g.wants() {
					t.Errorf("%t; %+v", g.wants(), st)
				}
				s.mustShow(t, g)
				must(t, g.Close())
			})
		}
	}
}

// TestStampOfBefore reads a stamp without what later ones have: nobody knows what was asked for, nor
// which keys the filter is for.
func TestStampOfBefore(t *testing.T) {
	s := stamp{mode: Exact, ordered: true, token: 3, previous: 2, previousAt: 7, gone: 9, unknown: true, capacity: 1000, covers: 5}
	b := s.encode()
	if got, ok := decodeStamp(b); !ok || got != s {
		t.Errorf("%+v, %t", got, ok)
	}
	for version := byte(2); version > 0; version-- {
		b = b[:len(b)-8]
		b[0] = version
		if s.covers = 0; version == 1 {
			s.capacity = 0
		}
		if got, ok := decodeStamp(b); !ok || got != s {
			t.Errorf("version %d: %+v, %t", version, got, ok)
		}
	}
	b[0] = stampVersion
	if _, ok := decodeStamp(b); ok {
		t.Error("one that is too short")
	}
}
