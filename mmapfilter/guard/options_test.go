package guard

import (
	"bytes"
	"fmt"
	"path/filepath"
	"testing"
	"time"
)

// TestOtherOptions opens stores with other options than before. A filter that does not fit the options
// is rebuilt, and answers meanwhile; options that are 0 leave the filter as it is.
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
				f := begin(t, with(before))
				for i := range keys {
					f.put(fmt.Sprint(i))
				}
				f.close()
				reading, read := make(chan bool, 10), make(chan bool)
				f.read = func() { reading <- true; <-read } // a rebuild waits
				f.o = with(c.with)
				f.open()
				capacity := c.want.Capacity
				if c.built {
					capacity = max(capacity, 2*keys)
					f.eventually("a rebuild begins", func(Stats) bool { return len(reading) > 0 })
				}
				f.mustBe("serving")
				for i := range 100 {
					f.g.Absent(fmt.Append(nil, "nobody ", i))
				}
				if st := f.g.Stats(); st.Skipped < 50 || st.Rebuilds > 0 || (st.Err != "") != (c.with.FalsePositiveRate == 2) {
					t.Errorf("before a rebuild: %+v", st)
				}
				f.put("meanwhile")
				close(read)
				if c.built {
					f.eventually("a rebuild", rebuilt)
				}
				f.work()
				f.mustShow()
				for _, opens := range []string{"at first", "with none"} {
					if st := f.g.Stats(); f.g.filter.TargetRate() != c.want.FalsePositiveRate || st.RateAsked != c.want.FalsePositiveRate || st.Capacity != capacity {
						t.Errorf("%s: a filter for %v: %+v", opens, f.g.filter.TargetRate(), st)
					}
					f.close()
					f.o = with(Options{})
					f.open()
				}
				if st := f.g.Stats(); st.Rebuilds > 0 || f.g.wants() {
					t.Errorf("a rebuild without need: %+v", st)
				}
				f.mustShow()
				f.close()
			})
		}
	}
}

// TestLargeFilterStays opens a large and nearly empty filter with options that name no capacity. The
// filter stays large, since earlier options asked for that.
func TestLargeFilterStays(t *testing.T) {
	f := begin(t, (&Options{Capacity: 3 * defaultCapacity}).WithDefaults(filepath.Join(t.TempDir(), "f"), Exact))
	for range 2 {
		f.put("a")
		if st := f.g.Stats(); st.Capacity != 3*defaultCapacity || st.Rebuilds > 0 || f.g.wants() {
			t.Errorf("%+v", st)
		}
		f.close()
		f.o.Capacity = 0
		f.open()
	}
	f.close()
}

// TestRateOfStaleFilter opens a store whose filter was used with other options, or had failed. The new
// filter has the rate of the old one, even if a kill comes first.
func TestRateOfStaleFilter(t *testing.T) {
	for _, failed := range []bool{false, true} {
		for _, killed := range []bool{false, true} {
			o := quiet(t, Exact)
			o.FalsePositiveRate = 0.002
			f := begin(t, o)
			f.put("a")
			if failed {
				f.g.fail(errTooMany)
			}
			f.close()
			o.Capacity, o.FalsePositiveRate = 0, 0
			if !failed {
				o.Deletes = Rebuild
			}
			if killed {
				o.Hooks = newGuard(nil, o).hooks()
				o.Hooks.Manual = true // so nothing is built
				f.open()
				f.kill()
				o.Hooks = nil
			}
			f.open()
			f.eventually("a filter", serving)
			if st := f.g.Stats(); st.RateAsked != 0.002 || st.Capacity != 1000 || f.g.filter.TargetRate() != 0.002 || st.Err != "" {
				t.Errorf("failed %t, killed %t: %+v", failed, killed, st)
			}
			f.mustShow()
			f.close()
		}
	}
}

// TestGrownFilterShrinks empties a store whose filter has grown, and closes the store, or kills its
// process, before a rebuild. Then it opens the store with options that name no capacity, and the filter
// becomes as small as earlier options asked for.
func TestGrownFilterShrinks(t *testing.T) {
	const many, few = 4000, 10
	for _, c := range []struct {
		killed  bool
		deletes DeleteMode
	}{{false, Exact}, {false, Rebuild}, {true, Exact}} { // after a kill see TestUnknownStays
		o := still(t, c.deletes)
		o.Capacity = 100
		f := begin(t, o)
		for i := range many {
			f.put(fmt.Sprint(i))
		}
		f.rebuild()
		for i := few; i < many; i++ {
			f.remove(fmt.Sprint(i))
		}
		f.work()
		for range 2 { // only the first options name a capacity
			if st := f.g.Stats(); st.Capacity != 2*many || !f.g.wants() {
				t.Errorf("%+v: %t; %+v", c, f.g.wants(), st)
			}
			f.end(c.killed)
			o.Capacity = 0
			f.open()
		}
		if !f.g.wants() {
			t.Errorf("%+v: the filter keeps its size: %+v", c, f.g.Stats())
		}
		f.rebuild()
		if st := f.g.Stats(); st.Capacity != 100 || st.Keys != few || f.g.wants() {
			t.Errorf("%+v: %t; %+v", c, f.g.wants(), st)
		}
		f.mustShow()
		f.close()
	}
}

// TestStamp decodes a stamp, and bytes that are no stamp.
func TestStamp(t *testing.T) {
	s := stamp{mode: Exact, ordered: true, token: 3, previous: 2, previousAt: 7, gone: 9, unknown: true, capacity: 1000, covers: 5}
	b := s.encode()
	if got, ok := decodeStamp(b); !ok || got != s {
		t.Errorf("%+v, %t", got, ok)
	}
	if _, ok := decodeStamp(b[:len(b)-1]); ok {
		t.Error("a stamp that is too short is accepted")
	}
	for i, value := range map[int]byte{0: stampVersion + 1, 2: 0xff} {
		other := bytes.Clone(b)
		other[i] = value
		if _, ok := decodeStamp(other); ok {
			t.Errorf("a stamp is accepted though byte %d is %d", i, value)
		}
	}
}
