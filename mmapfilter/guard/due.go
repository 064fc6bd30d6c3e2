package guard

// Limits for a rebuild. Each rebuild reads all keys of the store, so none begins for a small gain; and
// after each the filter has twice the room it needs, so that as many keys must come or go again before
// the next, which makes the cost of a key constant.
const (
	full        = 0.9     // of the capacity: so that keys which come during the rebuild find room
	manyGone    = 0.5     // of the items: then the others are at most half, and what is read pays off
	someGone    = 1. / 16 // of the items: what may pass beyond the rate asked, and is not worth a rebuild
	tooLarge    = 8       // times what is there: twice, and room for the store to grow fourfold again
	growth      = 2       // capacity for each key
	tooManyPass = 1.5     // times the rate asked for: less is seen late, among chance; twice is the bound
	churn       = 16      // capacity for each key that comes during a rebuild, and goes: see churning
	idle        = 16      // intervals without a put, after which a burst is over
)

// someAtAll is how many keys make it worth while to rebuild a filter.
const someAtAll = 1000

// A churning store puts and deletes keys while the filter is rebuilt, such as a queue: those that
// are there at any instant say nothing of the room that is needed until the next rebuild. So the
// filter has room for many times what came during the last one, which is then a small part of the
// time.
type churning struct {
	puts   uint64 // keys that have been put
	came   uint64 // of them during the last rebuild, or at least half of what came during the one before
	room   uint64 // capacity that the filter has for what comes and goes
	ticked uint64 // puts at the last interval
	idle   int    // intervals since the last put
}

// tick forgets it when nothing has come for some intervals.
func (c *churning) tick() {
	if c.idle++; c.puts != c.ticked {
		c.ticked, c.idle = c.puts, 0
	}
	if c.idle >= idle {
		c.came, c.room = 0, 0
	}
}

// A due says what a rebuild would mend.
type due struct {
	gone    uint64 // keys deleted from the store but not from the filter, about
	deleted uint64 // these, and those that may have been put again
	excess  uint64 // absent keys that have passed the filter, beyond those that were asked for
	unknown bool   // there may be more of them
	tooMany bool   // absent keys pass the filter, but because of keys that are gone
	lost    bool   // keys have overflowed that nobody remembers
	unfit   bool   // the options ask for another filter
}

// and returns what is due if both are.
func (d due) and(e due) due {
	return due{
		d.gone + e.gone, d.deleted + e.deleted, d.excess + e.excess,
		d.unknown || e.unknown, d.tooMany || e.tooMany, d.lost || e.lost, d.unfit || e.unfit,
	}
}

// leave counts keys that are in the filter but not in the store.
func (d *due) leave(keys uint64) {
	d.gone += keys
	d.deleted += keys
}

// know counts keys that were put and that the filter had: they may be some of those.
func (d *due) know(keys uint64) { d.gone = max(d.gone, keys) - keys }
