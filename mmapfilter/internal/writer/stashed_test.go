package writer

import (
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/tabletest"
)

// TestStashedKnowsLines checks that, during inserts and deletes, a writer knows how many entries and
// items the stash has, and which lines the items in the stash could go to.
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
				if got.mayBeOf(line) != lines[line] { // these lines share no bits
					t.Fatalf("%s: line %d is taken as a line of an item in the stash: %t", p, line, !lines[line])
				}
			}
			s.sync()
		}
	}
}

// TestStashedTellsLinesApart checks that a line shares its bit only with lines that are far away, and
// that a full stash leaves most bits free.
func TestStashedTellsLinesApart(t *testing.T) {
	if most := 2 * layout.StashEntries; most >= stashedBits/5 {
		t.Errorf("a full stash sets up to %d of %d bits", most, stashedBits)
	}
	for _, line := range []uint64{0, 1, 63, 64, 65, 127, 128, 4096, stashedBits - 1, stashedBits, stashedBits + 64, 1<<40 + 77} {
		var s stashed
		s.add(line)
		for other := range uint64(stashedBits) {
			if s.mayBeOf(other) != (other == line%stashedBits) {
				t.Fatalf("with line %d in the set, line %d is taken as a line of an item: %t", line, other, s.mayBeOf(other))
			}
		}
		if !s.mayBeOf(line) {
			t.Fatalf("line %d is lost", line)
		}
	}
}

// TestDeletesAskForLines checks that a delete that makes room in a line searches the stash only if the
// line may be one of an item there.
func TestDeletesAskForLines(t *testing.T) {
	for _, hidden := range []bool{false, true} {
		s := newStageOf(t, stageShape, 20, 1)
		s.fill(30)
		deletes, drained := 0, 0
		for _, key := range s.keys {
			class := s.w.table.Class(s.w.table.Split(key))
			if layout.StashCount(s.w.stash, class) > 0 || s.counts[key] == 0 {
				continue // the delete may remove an item from the stash itself
			}
			if hidden {
				s.w.mu.stashed.lines = [stashedBits / 64]uint64{}
			}
			if deletes++; deletes == 8 {
				break
			}
			before := s.w.mu.stashed.entries
			s.do(change{key, -1})
			drained += before - s.w.mu.stashed.entries
		}
		if (drained == 0) != hidden {
			t.Errorf("%d deletes have drained %d entries; lines hidden: %t", deletes, drained, hidden)
		}
	}
}
