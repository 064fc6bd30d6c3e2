package place

import "slices"

// A lineSet is a set of lines. Most searches add a few lines, which add compares one by one.
type lineSet struct {
	few  []uint64
	more map[uint64]struct{} // lines added after the first fewLines
}

// fewLines is how many lines are compared one by one: they fill two cache lines, and comparing them
// takes no longer than a look in a map.
const fewLines = 16

func newLineSet() lineSet {
	return lineSet{few: make([]uint64, 0, fewLines), more: make(map[uint64]struct{})}
}

func (s *lineSet) clear() {
	if s.few = s.few[:0]; len(s.more) > 0 {
		clear(s.more)
	}
}

// add adds a line and reports whether it was new to the set.
func (s *lineSet) add(line uint64) bool {
	if slices.Contains(s.few, line) {
		return false
	}
	if len(s.few) < fewLines {
		s.few = append(s.few, line)
		return true
	}
	n := len(s.more)
	s.more[line] = struct{}{}
	return len(s.more) > n
}
