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
	if g.mu.failed != nil || g.mu.closed || g.isBypassed() {
		return false
	}
	if g.mu.building || g.mu.lost || g.mu.unfit || g.overflow.any.Load() || float64(items) >= full*float64(capacity) {
		return true
	}
	// While the filter has room, keys that are gone cost nothing unless they are looked up.
	worth := max(someAtAll, uint64(someGone*float64(capacity)), uint64(manyGone*float64(g.mu.churning.reserve)))
	if float64(g.mu.gone) > manyGone*float64(items) && g.mu.gone > worth {
		return true
	}
	needed := max(items-min(g.mu.gone, items), g.mu.churning.reserve/growth)
	return capacity > g.options.Capacity && needed < capacity/tooLarge || g.mu.tooMany
}

// consider wakes the background goroutine if a rebuild is due.
func (g *Guard) consider() {
	if g.wants() {
		g.kick()
	}
}

// considerEvery is the number of false positives in one stripe of the counts after which tooManyPass
// adds up all stripes. So most lookups do not pay for the sum.
const considerEvery = 64

// By chance, a count differs from the expected count. The standard deviation is the square root of the
// expected count. Fewer than one count in 30,000 exceeds the expected count by four standard
// deviations. The method tooManyPass waits for fewestPassed = 256 false positives. At twice the
// requested rate, only 128 are expected, and 256 > 1.5·128 + 4·√128: so the method detects that rate.
const (
	deviations   = 4
	fewestPassed = 4 * considerEvery
)

// tooManyPass reports whether certainly too many absent keys have passed the filter since the last
// comparison of counts, and a rebuild would help. A rebuild helps if many keys are gone, or if nobody
// knows how many. If few keys are gone, a program may be looking up one of them again and again. In
// that case a rebuild waits until the reads of absent keys have cost as much as reading all keys.
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
// After a rebuild, the filter has twice the room that it needs. So the number of keys that must come or
// go before the next rebuild is in proportion to the keys that a rebuild reads, and the cost per key is
// constant.
const (
	full        = 0.9     // of the capacity, so that keys which come during the rebuild find room
	manyGone    = 0.5     // of the items, so that a rebuild frees at least as much as it copies
	someGone    = 1. / 16 // of the capacity (in method tooManyPass: of the items): no rebuild if fewer keys are gone and fewer pass in excess
	tooLarge    = 8       // times the items: 4·growth, so that the store may grow fourfold
	growth      = 2       // capacity for each key, so that the store may grow
	tooManyPass = 1.5     // times the requested rate; a smaller factor takes longer to tell from chance, and twice the rate is promised
	churn       = 16      // capacity for each key that comes during a rebuild, if as many are gone; see churning
	idle        = 16      // intervals without a put, after which a burst is over
)

// someAtAll is the number of gone keys up to which a rebuild is not worthwhile, however small the
// filter.
const someAtAll = 1000

// A churning store, such as a queue, puts and deletes keys while the filter is rebuilt. The number of
// keys at any instant does not say how much room is needed until the next rebuild. So the filter has a
// reserve for many times as many keys as came during the last rebuild, and rebuilds take a small part
// of the time.
type churning struct {
	puts    uint64 // keys that have been put
	came    uint64 // keys put during the last rebuild, or half of the previous value if that is more
	reserve uint64 // capacity that the filter has for keys that come and go
	ticked  uint64 // value of puts at the last tick
	idle    int    // intervals since the last put
}

// tick is called once an interval. After idle intervals without a put, the reserve is no longer needed.
func (c *churning) tick() {
	if c.idle++; c.puts != c.ticked {
		c.ticked, c.idle = c.puts, 0
	}
	if c.idle >= idle {
		c.came, c.reserve = 0, 0
	}
}

// A due has the reasons for a rebuild.
type due struct {
	gone    uint64 // about how many keys are in the filter but not in the store
	deleted uint64 // gone keys, and deleted keys that may have been put again
	unknown bool   // more keys may be gone
	excess  uint64 // absent keys that have passed the filter in excess of the requested rate
	tooMany bool   // too many absent keys pass, because of keys that are gone
	lost    bool   // the overflow had no room for some keys
	unfit   bool   // the options ask for another filter
}

// and returns the reasons of d and e together.
func (d due) and(e due) due {
	return due{
		gone: d.gone + e.gone, deleted: d.deleted + e.deleted, excess: d.excess + e.excess,
		unknown: d.unknown || e.unknown, tooMany: d.tooMany || e.tooMany,
		lost: d.lost || e.lost, unfit: d.unfit || e.unfit,
	}
}

// addGone counts keys that are in the filter but not, or no longer, in the store.
func (d *due) addGone(keys uint64) {
	d.gone += keys
	d.deleted += keys
}

// addKnown subtracts from gone the keys that were put and that the filter already had: they may have
// been gone until then.
func (d *due) addKnown(keys uint64) { d.gone = max(d.gone, keys) - keys }
