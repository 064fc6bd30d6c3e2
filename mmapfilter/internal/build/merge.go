package build

import (
	"cmp"
	"math/bits"
	"slices"
	"sync/atomic"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/hashes"
	"github.com/mmapfilter/mmapfilter/recovery"
)

// An entry is an item of a base, or an operation of a tail.
type entry struct {
	hash uint64
	what uint64 // from bit 0 on: input, age, op, items; then its number in the history, 0 for an item of a base
}

const (
	entryAge    = 6 // bits of an input
	entryOp     = entryAge + 6
	entryItems  = entryOp + 2
	entryNumber = entryItems + 2

	// MostInputs is how many files can be merged.
	MostInputs = 1 << entryAge
)

func newEntry(input, age int, e hashes.Entry) entry {
	return entry{e.Hash, uint64(input) | uint64(age)<<entryAge | uint64(e.Op)<<entryOp | uint64(e.Items+1)<<entryItems | e.After.Number<<entryNumber}
}

func (e entry) input() int    { return int(e.what & (MostInputs - 1)) }
func (e entry) age() uint8    { return uint8(e.what>>entryAge) & (hashes.MostAges - 1) }
func (e entry) op() layout.Op { return layout.Op(e.what >> entryOp & 3) }
func (e entry) items() int64  { return int64(e.what>>entryItems&3) - 1 }

// compare orders entries by hash, and the entries of a hash in the order of the histories.
func (e entry) compare(f entry) int {
	return cmp.Or(cmp.Compare(e.hash, f.hash), cmp.Compare(e.what>>entryNumber, f.what>>entryNumber))
}

// addEntry adds an entry to a spool of entries. An entry is two words, which get into the same chunk.
func (c *collector) addEntry(e entry) error {
	part := e.hash >> c.s.shift
	if err := c.addTo(part, e.hash); err != nil {
		return err
	}
	return c.addTo(part, e.what)
}

// appendEntries appends the sorted entries of a partition of a spool of entries.
func (w *worker) appendEntries(s *spool, part int, drop bool) error {
	b, first := &w.merge, len(w.merge.entries)
	err := s.each(part, part+1, drop, func(chunk []uint64) {
		for ; len(chunk) > 0; chunk = chunk[2:] {
			b.entries = append(b.entries, entry{chunk[0], chunk[1]})
		}
	})
	w.sortEntries(b.entries[first:], 64-s.shift)
	return err
}

// mergeBuffers are buffers that a worker keeps from load to load.
type mergeBuffers struct {
	entries, other []entry
	ends           []int              // ends of the sorted entries of each base, and of all tails together
	live           [MostInputs]copies // for each input, its items of the current hash
}

// ended notes where the entries of a base or of the tails end, if any were appended.
func (b *mergeBuffers) ended() {
	if n := len(b.entries); n > 0 && (len(b.ends) == 0 || n > b.ends[len(b.ends)-1]) {
		b.ends = append(b.ends, n)
	}
}

// merge merges the sorted runs of entries, two neighbours at a time.
func (b *mergeBuffers) merge() {
	for len(b.ends) > 1 {
		b.other = slices.Grow(b.other[:0], len(b.entries))
		start, n := 0, 0
		for i := 0; i < len(b.ends); i += 2 {
			middle, end := b.ends[i], b.ends[min(i+1, len(b.ends)-1)]
			b.other = mergeTwo(b.other, b.entries[start:middle], b.entries[middle:end])
			b.ends[n] = end
			n++
			start = end
		}
		b.ends = b.ends[:n]
		b.entries, b.other = b.other, b.entries
	}
}

func mergeTwo(to, x, y []entry) []entry {
	for len(x) > 0 && len(y) > 0 {
		if y[0].hash < x[0].hash {
			to, y = append(to, y[0]), y[1:]
		} else {
			to, x = append(to, x[0]), x[1:]
		}
	}
	return append(append(to, x...), y...)
}

// copies are the items of one hash: how many items each age has, and which ages there are.
type copies struct {
	of   [hashes.MostAges]uint64
	ages uint64
}

func (c *copies) add(age uint8) {
	c.of[age]++
	c.ages |= 1 << age
}

// takeOldest removes the oldest item, and reports whether there was one.
func (c *copies) takeOldest() bool {
	if c.ages == 0 {
		return false
	}
	age := bits.TrailingZeros64(c.ages)
	if c.of[age]--; c.of[age] == 0 {
		c.ages &^= 1 << age
	}
	return true
}

// takeAll removes all items, and appends their ages.
func (c *copies) takeAll(to []uint8) []uint8 {
	for ; c.ages != 0; c.takeOldest() {
		to = append(to, uint8(bits.TrailingZeros64(c.ages)))
	}
	return to
}

// history applies the entries of one hash, by rule K7, and appends the ages of the items that are
// left in each input. items is the sum of the item effects. stray is how many deletes have taken an
// item of another hash.
func (b *mergeBuffers) history(entries []entry, to []uint8) (ages []uint8, items int64, stray uint64) {
	for _, e := range entries {
		live := &b.live[e.input()]
		items += e.items()
		switch {
		case e.op() == layout.Insert, e.op() == layout.AtLeastOne && live.ages == 0:
			live.add(e.age())
		case e.op() == layout.Delete && !live.takeOldest() && e.items() < 0:
			stray++
		}
	}
	for _, e := range entries {
		to = b.live[e.input()].takeAll(to)
	}
	return to, items, stray
}

// apply appends the items that the merged entries lead to, and their ages. If distinct is set, it keeps
// one of each group of equal items.
func (b *mergeBuffers) apply(to []uint64, ages []uint8, distinct bool, held func(hash uint64, items int64, stray uint64)) ([]uint64, []uint8) {
	for from := b.entries; len(from) > 0; {
		h, n := from[0].hash, 1
		for n < len(from) && from[n].hash == h {
			n++
		}
		if n == 1 && from[0].op() == layout.Insert && held == nil { // nearly always
			to, ages = append(to, h), append(ages, from[0].age())
			from = from[1:]
			continue
		}
		first := len(ages)
		var items int64
		var stray uint64
		ages, items, stray = b.history(from[:n], ages)
		if from = from[n:]; held != nil {
			held(h, items, stray)
		}
		of := ages[first:]
		slices.Sort(of)
		if distinct && len(of) > 1 { // keep the youngest, so that the key does not expire too early
			of[0] = of[len(of)-1]
			ages = ages[:first+1]
		}
		for range ages[first:] {
			to = append(to, h)
		}
	}
	return to, ages
}

// A Merged has the items that the histories of one or several files of hashes mean (K7). It is the
// source of a build, and lists the items for other callers.
type Merged struct {
	// Held, if not nil, is called by Each for each hash in a base or a tail. items is how many
	// items the base and the operations lead to, and stray how many deletes of the hash have taken
	// an item of another hash.
	Held func(hash uint64, items int64, stray uint64)

	inputs  []input
	tails   *spool // two words for each operation: its hash and its entry
	n       int    // number of partitions; each is one or several partitions of the spool
	entries uint64 // of the bases and the tails
	inserts bool   // the tails have only inserts
	ages    []hashes.Age
}

// An input is one of the files of hashes.
type input struct {
	recovery.Kept
	number   int
	ageOf    []int            // the new age for each age of the base
	surveyed hashes.TailPlace // the tail was surveyed up to here

	items, sum atomic.Uint64 // of the part of the base that was loaded
}

// An InputError is an error of one of several files of hashes. It has the text of Err.
type InputError struct {
	Number int // number of the file, from 0
	Err    error
}

func (e *InputError) Error() string { return e.Err.Error() }

func (e *InputError) Unwrap() error { return e.Err }

// fault wraps an error in an *InputError of this input.
func (in *input) fault(err error) error {
	if err == nil {
		return nil
	}
	return &InputError{in.number, err}
}
