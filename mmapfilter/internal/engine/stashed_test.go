package engine

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
	if n := count(&s, 8*64, false, 64*searchShare); n < 8 {
		t.Errorf("%d searches in a filter of medium size", n)
	}
}

// TestFewDeletesReadTheStash: where the stash is in use and lines are full, deletes whose keys come
// back leave the stash alone.
func TestFewDeletesReadTheStash(t *testing.T) {
	s := newStageOf(t, stageShape, 4096, 1)
	for s.w.mu.stashed.entries < 100 {
		s.do(change{s.rng.Uint64(), 1})
		if !s.w.protocol.Room(2 * s.w.most) {
			s.sync()
		}
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
}
