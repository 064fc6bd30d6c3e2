package writer

import "github.com/mmapfilter/mmapfilter/layout"

// A stashed is what operations need to know about the stash, so that few deletes read all of it.
type stashed struct {
	entries int                      // in use
	items   uint64                   // counted in them
	lines   [stashedBits / 64]uint64 // a bit for each line of an item in the stash
}

// stashedBits is a power of two, and large enough that a full stash, whose items have twice as many
// lines as there are entries, sets less than one bit in five.
const stashedBits = 1 << 13

// count counts the entries and items of the stash.
func (s *stashed) count(table layout.Table, stash []uint64) {
	*s = stashed{}
	layout.StashClasses(stash, func(c layout.Class, items uint64) {
		s.entries++
		s.items += items
		s.add(c.Line)
		s.add(table.Alternate(layout.Item(c)).Line)
	})
}

func (s *stashed) add(line uint64) { s.lines[line%stashedBits/64] |= 1 << (line % 64) }

// mayBeOf reports whether a line may be a line of an item in the stash.
func (s *stashed) mayBeOf(line uint64) bool { return s.lines[line%stashedBits/64]>>(line%64)&1 != 0 }

// searches say when a delete searches for a path by which an item could leave the stash. Such a search
// may read a line for each slot of Bounds.SearchLines lines (place, P7); the rest of a delete reads two.
// At the design load, hardly any search finds a path: an item is in the stash because its lines are
// full, and so are the lines to which a path could lead.
type searches struct {
	n     int // searches so far
	every int // deletes for one
	wait  int // deletes until the next
}

// While the stash is in use, one in searchEvery deletes searches. After each search that finds no
// path, half as many deletes search, down to one in mostSearchEvery. In a small filter, fewer
// deletes may make room: there the bound is one delete in a searchShare-th of the slots, though
// never more than one in searchEvery.
const (
	searchEvery     = 8
	mostSearchEvery = 1 << 10
	searchShare     = 1 << 10
)

// due reports whether a delete is to search.
func (s *searches) due() bool {
	if s.every == 0 {
		s.every, s.wait = searchEvery, searchEvery
	}
	if s.wait--; s.wait > 0 {
		return false
	}
	s.n++
	s.wait = s.every
	return true
}

// ended records whether a search has found a path, in a filter with that number of slots. It is not
// called for a delete that had nothing to search for.
func (s *searches) ended(found bool, slots uint64) {
	if s.every *= 2; found {
		s.every = searchEvery
	}
	s.every = min(s.every, mostSearchEvery, max(searchEvery, int(slots/searchShare)))
	s.wait = s.every
}
