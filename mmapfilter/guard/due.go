package guard

// Limits for a rebuild. Each rebuild reads all keys of the store, so none begins for a small gain.
// After each, the filter has twice the room it needs, so that as many keys must come or go again before
// the next: the cost of a key is constant.
const (
	full        = 0.9     // of the capacity: so that keys which come during the rebuild find room
	manyGone    = 0.5     // of the items: then a rebuild frees at least as much as it copies
	someGone    = 1. / 16 // of the items: so many passes beyond the rate are not worth a rebuild
	tooLarge    = 8       // times the items: twice, and room for the store to grow fourfold again
	growth      = 2       // capacity for each key
	tooManyPass = 1.5     // times the rate asked for: less is seen late, among chance; twice is the bound
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
	came    uint64 // of them during the last rebuild, or at least half of this number for the one before
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
	deleted uint64 // these, and those that may have been put again
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
