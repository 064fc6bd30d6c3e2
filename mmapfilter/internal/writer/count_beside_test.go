package writer

import (
	"flag"
	"maps"
	"slices"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/tabletest"
	"github.com/mmapfilter/mmapfilter/recovery"
)

// Full makes tests run as long as in the gate.
var Full = flag.Bool("full", false, "longer traces in TestExploreAll, more rounds in tests of schedules")

// A countScene is an operation, store by store. least has, for each hash, the number of items of its
// class before or after the operation, whichever is lower.
type countScene struct {
	*timeline
	table layout.Table
	least map[uint64]uint64
}

// places returns how many items of the class of a hash are in its home line, its other line and the
// stash, at a time.
func (s *countScene) places(hash uint64, time int) (n [3]int) {
	at := func(word uint64) uint64 { return s.value(word, time) }
	it := s.table.Split(hash)
	other := s.table.Alternate(it)
	for i, it := range []layout.Item{it, other} {
		if i == 1 && other.Line == s.table.Split(hash).Line {
			break
		}
		n[i] = layout.Copies(s.table, layout.LineFrom(s.table, at, it.Line), it)
	}
	n[2] = int(layout.StashCountAt(at, s.table.Class(it)))
	return n
}

// check counts the items of up to most keys that the operation moves, in every schedule of this kind:
// the first load comes after some of the stores, and all other stores come before one of the next loads
// of the first try, or after them. It returns how many times, between two stores, a key has fewer items
// than least.
func (s *countScene) check(t *testing.T, what string, most int) (fewer int) {
	t.Helper()
	end := len(s.stores)
	for _, hash := range slices.Sorted(maps.Keys(s.least)) {
		least, moves := s.least[hash], false
		before := s.places(hash, 0)
		for time := range end + 1 {
			n := s.places(hash, time)
			moves = moves || n != before
			if uint64(n[0]+n[1]+n[2]) < least {
				fewer++
			}
		}
		if !moves || most == 0 {
			continue
		}
		most--
		perTry := 0
		layout.Count(s.table, func(word uint64) uint64 { perTry++; return s.value(word, end) }, hash)
		for start := range end {
			for jump := range perTry + 1 {
				loads := 0
				n, ok := layout.Count(s.table, func(word uint64) uint64 {
					if loads++; loads > jump {
						return s.value(word, end)
					}
					return s.value(word, start)
				}, hash)
				if ok && n < least {
					t.Fatalf("%s: %+v: %d items, not %d, if %d loads come after %d stores, and the other loads after all %d",
						what, s.table.Split(hash), n, least, jump, start, end)
				}
			}
		}
	}
	return fewer
}

// TestCountBesideAWriter covers C7 for a process beside a writer or a recovery: it must never count
// fewer items of a class than there are both before and after an operation. While a counter is odd, a
// bucket may be half stored, and have fewer items than before and after.
func TestCountBesideAWriter(t *testing.T) {
	for _, s := range append(tabletest.OneEach(), small, tabletest.Paper(layout.Packed, 31, 4)) {
		t.Run(s.String(), func(t *testing.T) { countBesideAWriter(t, s) })
	}
}

func countBesideAWriter(t *testing.T, s tabletest.Shape) {
	steps, most := 50, 30
	if *Full {
		steps = 100
	}
	if testing.Short() {
		steps, most = 40, 10
	}
	if s.Kind == layout.Packed {
		steps *= 15 // few lines are in two blocks of 64 bytes
	}
	st := newStageOf(t, s, s.Lines(4), s.Slots())
	v, w := st.volume, st.w
	st.fill(1)
	must(t, w.Checkpoint())
	fewer, recovered := 0, 0
	for range steps {
		sc := &countScene{table: w.table, least: map[uint64]uint64{}}
		for h, n := range st.counts {
			if n > 0 {
				sc.least[h] = w.Count(h)
			}
		}
		st.do(st.choose())
		for h, n := range sc.least {
			sc.least[h] = min(n, w.Count(h))
		}
		first := slices.Clone(w.words[layout.WordRuntime : layout.WordRegion+uint64(len(w.view.Region))])

		dead := v.crashed(w.words, nil)
		if _, r, err := recovery.NewWriter(dead); err != nil || !r.Recovered {
			t.Fatalf("%+v, %v", r, err)
		}
		sc.timeline = newTimeline(first, forLookups(dead.file.stores))
		recovered += sc.check(t, "a recovery", most/4)

		v.file.stores = nil
		must(t, w.Sync())
		sc.timeline = newTimeline(first, forLookups(v.file.stores))
		fewer += sc.check(t, "an operation", most)
	}
	t.Logf("a key has fewer items %d times between two stores of a writer, %d of a recovery", fewer, recovered)
	if fewer+recovered == 0 {
		t.Error("no key ever has fewer items between two stores")
	}
}
