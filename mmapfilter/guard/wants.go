package guard

import (
	"math"
)

func (g *Guard) isFull() bool {
	return float64(g.filter.Len()) >= full*float64(g.filter.Cap())
}

// wants reports whether a rebuild is due.
func (g *Guard) wants() bool {
	if g.filter == nil {
		return false
	}
	items, capacity := g.filter.Len(), g.filter.Cap()
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.mu.failed != nil || g.mu.closed || g.mu.doubtful > 0 { // the operation may not have ended
		return false
	}
	if g.mu.building || g.mu.lost || g.mu.unfit || g.overflow.any.Load() || float64(items) >= full*float64(capacity) {
		return true
	}
	// While the filter has room, keys that are gone cost nothing unless they are asked for.
	worth := max(someAtAll, uint64(someGone*float64(capacity)), uint64(manyGone*float64(g.mu.churning.reserve)))
	if float64(g.mu.gone) > manyGone*float64(items) && g.mu.gone > worth {
		return true
	}
	needed := max(items-min(g.mu.gone, items), g.mu.churning.reserve/growth)
	return capacity > g.options.Capacity && needed < capacity/tooLarge || g.mu.tooMany
}

// consider kicks the background if a rebuild is due.
func (g *Guard) consider() {
	if g.wants() {
		g.kick()
	}
}

// considerEvery is the number of false positives in a stripe of the counts after which all stripes
// are summed, for tooManyPass. Most lookups need not pay for that.
const considerEvery = 64

// Chance moves a count by its standard deviation, the square root of what is expected: in less than
// one look of 30,000 by four of these. A look waits for fewestPassed false positives: then a rate
// of twice what was asked for is beyond chance, since 256 > tooManyPass·128 + deviations·√128.
const (
	deviations   = 4
	fewestPassed = 4 * considerEvery
)

// tooManyPass reports whether the share of absent keys that have passed the filter since the last
// look is certainly too large, and a rebuild would help. It does if many keys are gone, or if nobody
// knows how many. If few are gone, a program may only ask for one of them again and again: then a
// rebuild waits until the lookups that should not have passed are worth reading all keys.
func (g *Guard) tooManyPass() bool {
	items := g.filter.Len()
	g.mu.Lock()
	defer g.mu.Unlock()
	skipped, passed := g.counts.absent()
	falsePositives := float64(passed - g.mu.seen.passed)
	expected := g.options.FalsePositiveRate * (float64(skipped-g.mu.seen.skipped) + falsePositives)
	if falsePositives < fewestPassed {
		return false
	}
	g.mu.seen.skipped, g.mu.seen.passed = skipped, passed
	if falsePositives > tooManyPass*expected+deviations*math.Sqrt(expected) {
		if g.mu.deleted > 0 {
			g.mu.excess += uint64(falsePositives - expected)
		}
		few := uint64(someGone * float64(items))
		g.mu.tooMany = g.mu.tooMany || g.mu.unknown || g.mu.gone > few || g.mu.excess > few
	}
	return g.mu.tooMany
}
