package place

import (
	"math/bits"
	"slices"
)

// A lineSet is a set of lines. Most searches add a few lines, which add compares one by one.
// More lines are in a hash table with open addressing that is at most half full. An entry
// holds the round in which it was added above the number of its line, so a new round empties the
// table.
type lineSet struct {
	few     []uint64
	entries []uint64
	shift   uint // 64 minus the number of bits of an index
	round   uint64
}

const (
	// fewLines is how many lines are compared one by one: two cache lines of them, which takes no
	// longer than to look in a table.
	fewLines       = 16
	lineNumberBits = 48 // a region of at most 2^48 bits (F6) has at most 2^46 lines, of 4 bits
)

func newLineSet(most int) lineSet {
	n := bits.Len(uint(2*most - 1))
	return lineSet{few: make([]uint64, 0, fewLines), entries: make([]uint64, 1<<n), shift: uint(64 - n)}
}

func (s *lineSet) clear() {
	s.few = s.few[:0]
	if s.round++; s.round == 1<<(64-lineNumberBits) {
		clear(s.entries)
		s.round = 1
	}
}

// add adds a line and reports whether it was new to the set.
func (s *lineSet) add(line uint64) bool {
	if len(s.few) == fewLines {
		return s.enter(line)
	}
	if slices.Contains(s.few, line) {
		return false
	}
	if s.few = append(s.few, line); len(s.few) == fewLines {
		for _, line := range s.few {
			s.enter(line)
		}
	}
	return true
}

// enter is add for the hash table.
func (s *lineSet) enter(line uint64) bool {
	entry := s.round<<lineNumberBits | line
	for i := line * 0x9E3779B97F4A7C15 >> s.shift; ; i = (i + 1) & uint64(len(s.entries)-1) {
		switch {
		case s.entries[i] == entry:
			return false
		case s.entries[i]>>lineNumberBits != s.round:
			s.entries[i] = entry
			return true
		}
	}
}
