package writer

import "github.com/mmapfilter/mmapfilter/layout"

// A stashed has what operations must know about the stash. With it, few deletes read the whole stash.
type stashed struct {
	entries int                      // entries in use
	items   uint64                   // items of these entries
	lines   [stashedBits / 64]uint64 // a bit for each line of an item in the stash
}

// stashedBits is a power of two, and so large that a full stash, whose items have twice as many lines as
// there are entries, sets less than one bit in five.
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
