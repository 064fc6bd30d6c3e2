package writer

import (
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/tabletest"
)

// TestStashedKnowsLines: while items come and go, a writer knows how many are in the stash, and a
// delete that makes room in a line of one looks for it there. Few others do.
func TestStashedKnowsLines(t *testing.T) {
	for _, p := range tabletest.OneEach() {
		s := newStageOf(t, p, 20, 1)
		s.fill(30)
		for range 500 {
			s.do(s.choose())
			got := &s.w.mu.stashed
			if entries, items := layout.StashUse(s.w.stash); got.entries != entries || got.items != items {
				t.Fatalf("%s: %d entries and %d items, not %d and %d", p, got.entries, got.items, entries, items)
			}
			lines := map[uint64]bool{}
			layout.StashClasses(s.w.stash, func(c layout.Class, _ uint64) {
				it := layout.Item(c)
				lines[it.Line], lines[s.w.table.Alternate(it).Line] = true, true
			})
			for line := range uint64(20) {
				if got.mayBeOf(line) != lines[line] { // they share no bits
					t.Fatalf("%s: line %d may be one of an item in the stash: %t", p, line, !lines[line])
				}
			}
			s.sync()
		}
	}
}

// TestStashedTellsLinesApart: each line has a bit, which it shares only with lines that are far away,
// and a full stash leaves most bits free.
func TestStashedTellsLinesApart(t *testing.T) {
	if most := 2 * layout.StashEntries; most >= stashedBits/5 {
		t.Errorf("a full stash sets up to %d of %d bits", most, stashedBits)
	}
	for _, line := range []uint64{0, 1, 63, 64, 65, 127, 128, 4096, stashedBits - 1, stashedBits, stashedBits + 64, 1<<40 + 77} {
		var s stashed
		s.add(line)
		for other := range uint64(stashedBits) {
			if s.mayBeOf(other) != (other == line%stashedBits) {
				t.Fatalf("with line %d, line %d may be one of an item: %t", line, other, s.mayBeOf(other))
			}
		}
		if !s.mayBeOf(line) {
			t.Fatalf("line %d is lost", line)
		}
	}
}

// TestDeletesAskForLines: a delete looks for an item of the line where it makes room only if that may be
// the line of one.
func TestDeletesAskForLines(t *testing.T) {
	for _, hidden := range []bool{false, true} {
		s := newStageOf(t, stageShape, 20, 1)
		s.fill(30)
		deletes, drained := 0, 0
		for _, key := range s.keys {
			class := s.w.table.Class(s.w.table.Split(key))
			if layout.StashCount(s.w.stash, class) > 0 || s.counts[key] == 0 || s.w.mu.searches.wait == 1 {
				continue // it may leave the stash itself; or a search is due
			}
			if hidden {
				s.w.mu.stashed.lines = [stashedBits / 64]uint64{}
			}
			if deletes++; deletes == searchEvery {
				break
			}
			before := s.w.mu.stashed.entries
			s.do(change{key, -1})
			drained += before - s.w.mu.stashed.entries
		}
		if (drained == 0) != hidden {
			t.Errorf("%d deletes have drained %d entries; whether the lines are hidden: %t", deletes, drained, hidden)
		}
	}
}

// TestSearchesBecomeRare: searches that find nothing become rarer, but not in a filter where few deletes
// make much room; one that finds a path begins anew.
func TestSearchesBecomeRare(t *testing.T) {
	count := func(s *searches, deletes int, found bool, slots uint64) (n int) {
		for range deletes {
			if s.due() {
				n++
				s.ended(found, slots)
			}
		}
		return n
	}
	const large = mostSearchEvery * searchShare
	var s searches
	if n := count(&s, 100*mostSearchEvery, false, large); n < 100 || n > 108 {
		t.Errorf("%d searches in a large filter", n)
	}
	if n := count(&s, mostSearchEvery, true, large); n < 1 || n > mostSearchEvery/searchEvery {
		t.Errorf("%d searches up to one that finds a path", n)
	}
	if n := count(&s, mostSearchEvery, true, large); n != mostSearchEvery/searchEvery {
		t.Errorf("%d searches that find a path", n)
	}
	s = searches{}
	if n := count(&s, 1024, false, 1000); n != 1024/searchEvery {
		t.Errorf("%d searches in a small filter", n)
	}
	s = searches{}
	if n := count(&s, 64*64, false, 64*searchShare); n < 64 || n > 64+8 {
		t.Errorf("%d searches in a filter of medium size", n)
	}
}

// TestSearchesFollowTheLoad: where the stash is in use and lines are full, few deletes search. Once keys
// go for good, searches find paths and become frequent again, and the stash empties.
func TestSearchesFollowTheLoad(t *testing.T) {
	s := newStageOf(t, stageShape, 4096, 1)
	for s.w.mu.stashed.entries < 100 {
		s.do(change{s.rng.Uint64(), 1})
	}
	const deletes = 20_000
	before := s.w.mu.searches.n
	for i := range deletes {
		key := s.keys[i%len(s.keys)]
		s.do(change{key, -1})
		s.do(change{key, 1})
	}
	if n := s.w.mu.searches.n - before; s.w.mu.stashed.entries == 0 || n > deletes/32 {
		t.Errorf("%d searches in %d deletes, %d entries in use", n, deletes, s.w.mu.stashed.entries)
	}
	s.w.mu.searches.every = mostSearchEvery
	found := 0
	for _, key := range s.keys[:len(s.keys)/20] {
		s.do(change{key, -1})
		if s.w.mu.searches.every == searchEvery {
			found++
		}
	}
	if found == 0 || s.w.mu.stashed.entries > 0 {
		t.Errorf("%d deletes after a search that found a path, %d entries in use", found, s.w.mu.stashed.entries)
	}
}

// TestOnlySearchesCount: searches become no rarer while deletes have nothing to search for: at the limit
// of keys, an entry of several items stays.
func TestOnlySearchesCount(t *testing.T) {
	s := newStageOf(t, stageShape, 4096, 1)
	for s.w.mu.stashed.items < 10 {
		s.do(change{1, 1})
	}
	for range 200 {
		s.do(change{s.rng.Uint64(), 1})
	}
	s.w.Limit = 1
	for _, key := range s.keys[1:] {
		s.do(change{key, -1})
	}
	if got := s.w.mu.searches; got.n == 0 || got.every != searchEvery {
		t.Errorf("one in %d deletes searches after %d that could not", got.every, got.n)
	}
}
