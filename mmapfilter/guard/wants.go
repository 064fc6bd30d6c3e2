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

// A count differs from what is expected by chance. Its standard deviation is the square root of the
// expected count. A count exceeds the expected one by four standard deviations in less than one
// look of 30,000. A look waits for fewestPassed false positives: then a rate of twice what was
// asked for is beyond chance, since 256 > tooManyPass·128 + deviations·√128.
const (
	deviations   = 4
	fewestPassed = 4 * considerEvery
)

// tooManyPass reports whether the share of absent keys that have passed the filter since the last
// look is certainly too large, and a rebuild would help. It does if many keys are gone, or if nobody
// knows how many. If few keys are gone, a program may be looking up one of them again and again.
// Then a rebuild waits until the lookups that passed in vain are worth the reading of all keys.
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

// Limits for a rebuild. Each rebuild reads all keys of the store, so none begins for a small gain.
// After each, the filter has twice the room it needs, so that as many keys must come or go again before
// the next: the cost of a key is constant.
const (
	full        = 0.9     // of the capacity: so that keys which come during the rebuild find room
	manyGone    = 0.5     // of the items: then a rebuild frees at least as much as it copies
	someGone    = 1. / 16 // of the items: if fewer are gone, or pass beyond the rate, there is no rebuild
	tooLarge    = 8       // times the items: twice, and room for the store to grow fourfold again
	growth      = 2       // capacity for each key
	tooManyPass = 1.5     // times the rate asked for: a smaller factor could be chance for long; twice the rate is the bound
	churn       = 16      // capacity for each key that comes during a rebuild, and goes: see churning
	idle        = 16      // intervals without a put, after which a burst is over
)

// someAtAll is the number of gone keys below which a rebuild is not worth while, however small the
// filter.
const someAtAll = 1000

// A churning store, such as a queue, puts and deletes keys while the filter is rebuilt. The number of
// keys at any instant does not say how much room is needed until the next rebuild. So the filter has a
// reserve of many times the keys that came during the last one: rebuilds then take a small part of
// the time.
type churning struct {
	puts    uint64 // keys that have been put
	came    uint64 // keys put during the last rebuild, or half of the number for the rebuild before it if that is larger
	reserve uint64 // capacity that the filter has for keys that come and go
	ticked  uint64 // puts at the last interval
	idle    int    // intervals since the last put
}

// tick is called once an interval. After some without a put, the reserve is no longer needed.
func (c *churning) tick() {
	if c.idle++; c.puts != c.ticked {
		c.ticked, c.idle = c.puts, 0
	}
	if c.idle >= idle {
		c.came, c.reserve = 0, 0
	}
}

// A due says what a rebuild would mend.
type due struct {
	gone    uint64 // keys that are in the filter but not in the store, about
	deleted uint64 // gone keys, and deleted keys that may have been put again
	unknown bool   // more keys may be gone
	excess  uint64 // absent keys that have passed the filter, beyond the rate asked for
	tooMany bool   // too many absent keys pass, because of keys that are gone
	lost    bool   // keys have overflowed that memory had no room for
	unfit   bool   // the options ask for another filter
}

// and returns the sum of two.
func (d due) and(e due) due {
	return due{
		gone: d.gone + e.gone, deleted: d.deleted + e.deleted, excess: d.excess + e.excess,
		unknown: d.unknown || e.unknown, tooMany: d.tooMany || e.tooMany,
		lost: d.lost || e.lost, unfit: d.unfit || e.unfit,
	}
}

// addGone counts keys that are in the filter but not, or not any more, in the store.
func (d *due) addGone(keys uint64) {
	d.gone += keys
	d.deleted += keys
}

// addKnown counts keys that were put and that the filter had already: they may have been gone.
func (d *due) addKnown(keys uint64) { d.gone = max(d.gone, keys) - keys }
