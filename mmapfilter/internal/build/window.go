package build

import "github.com/mmapfilter/mmapfilter/layout/hashes"

// A Window says when items leave a filter by themselves: once they are older than Length. Times are in
// nanoseconds since 1970. The zero value is for a filter whose items stay.
type Window struct {
	Length uint64 // nanoseconds; 0 if items stay
	Now    uint64
}

// A window has windowSteps steps, which begin at the multiples of their length. The items that were
// inserted in a step leave together at its end, so each of them is at most a step late. A base needs an
// age for each step that the window touches, and one for all older items.
const (
	windowSteps = 32
	leastStep   = hashes.TimeStep / 4 // bounds the number of ages
)

// Step returns how long a step is.
func (w Window) Step() uint64 { return max(w.Length/windowSteps, leastStep) }

// Cut returns a time: the items that were inserted before it have left.
func (w Window) Cut() uint64 {
	if w.Length == 0 || w.Now < w.Length {
		return 0
	}
	return (w.Now - w.Length) / w.Step() * w.Step()
}

// end returns the Cut at which an item leaves if it was inserted at a time, or less than a TimeStep
// later.
func (w Window) end(time uint64) uint64 {
	step := w.Step()
	return max((w.believed(time)+hashes.TimeStep+step-1)/step*step, w.Cut())
}

// believed returns time or, if time is so far after Now that some clock must have been wrong, an earlier
// time, since otherwise items would leave too late. If items stay, believed changes only a time more
// than a day after Now.
func (w Window) believed(time uint64) uint64 {
	const day = 24 * 3600 * 1e9
	if w.Length > 0 {
		return min(time, w.Now+w.Step()/2)
	}
	if time > w.Now && time-w.Now > day {
		return w.Now
	}
	return time
}

// Ahead reports whether a time is so far after Now that a rebuild replaces it with an earlier time.
func (w Window) Ahead(time uint64) bool { return w.believed(time) < time }

// join joins neighbouring ages whose items leave together. ages is in the order of the last times. to
// has, for each of ages, the index of its age in joined.
func (w Window) join(ages []hashes.Age) (joined []hashes.Age, to []int) {
	for _, a := range ages {
		n := len(joined)
		if n == 0 || w.end(joined[n-1].Last) != w.end(a.Last) {
			joined = append(joined, a)
		} else {
			joined[n-1] = joinTwo(joined[n-1], a)
		}
		to = append(to, len(joined)-1)
	}
	return joined, to
}
