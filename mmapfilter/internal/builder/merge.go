package builder

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/mmapfilter/mmapfilter/layout/hashes"
)

// An operation is what an entry says besides its hash: the input, the age of an item, and the kind. It
// does not say when it was done. That does not matter: a delete takes away the oldest item of its hash
// and input, and the ages say which one that is.
type operation uint64

const (
	operationAge   = 1
	operationInput = operationAge + 6
	operationBits  = operationInput + 6

	// MostInputs is how many files can be merged.
	MostInputs = 1 << (operationBits - operationInput)
)

func newOperation(input, age int, kind hashes.Kind) operation {
	return operation(uint64(input)<<operationInput | uint64(age)<<operationAge | uint64(kind))
}

func (o operation) input() uint64     { return uint64(o) >> operationInput }
func (o operation) age() uint8        { return uint8(o>>operationAge) & (hashes.MostAges - 1) }
func (o operation) kind() hashes.Kind { return hashes.Kind(o & 1) }

// An entry is an item or an operation, with its hash.
type entry struct {
	hash uint64
	operation
}

// mergeBuffers are what a worker keeps from load to load.
type mergeBuffers struct {
	entries, other []entry
	ends           []int // of the sorted entries of the bases, and of those of all tails
	live           []operation
	deletes        [MostInputs]int // of each input
}

// ended ends the entries of a base, or of the tails, if there are any.
func (b *mergeBuffers) ended() {
	if n := len(b.entries); n > 0 && (len(b.ends) == 0 || n > b.ends[len(b.ends)-1]) {
		b.ends = append(b.ends, n)
	}
}

// merge merges the sorted entries, two neighbours at a time.
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

// withoutOldest takes away as many of the items of each input as were deleted, the oldest first: by
// age, since a clock may be set back.
func (b *mergeBuffers) withoutOldest(live []operation) ([]operation, error) {
	slices.SortFunc(live, func(x, y operation) int { return cmp.Compare(x.age(), y.age()) })
	kept := live[:0]
	for _, l := range live {
		if n := &b.deletes[l.input()]; *n > 0 {
			*n--
		} else {
			kept = append(kept, l)
		}
	}
	for i, n := range b.deletes {
		if b.deletes[i] = 0; n > 0 {
			return nil, hashes.Corrupt(0, "the tail deletes an item that is not there")
		}
	}
	return kept, nil
}

// apply does the operations of the merged entries and appends the items that are left. read is their
// number before distinct leaves equal ones out.
func (b *mergeBuffers) apply(to []uint64, ages []uint8, distinct bool) (items []uint64, _ []uint8, read int, err error) {
	for from := b.entries; len(from) > 0; {
		h, n := from[0].hash, 1
		for n < len(from) && from[n].hash == h {
			n++
		}
		if n == 1 && from[0].kind() == hashes.Insert { // nearly always
			to, ages = append(to, h), append(ages, from[0].age())
			from = from[1:]
			read++
			continue
		}
		deleted := false
		b.live = b.live[:0]
		for _, e := range from[:n] {
			if e.kind() == hashes.Insert {
				b.live = append(b.live, e.operation)
				continue
			}
			deleted = true
			b.deletes[e.input()]++
		}
		from = from[n:]
		if deleted {
			if b.live, err = b.withoutOldest(b.live); err != nil {
				return to, ages, read, fmt.Errorf("%w, of hash %016x", err, h)
			}
		}
		read += len(b.live)
		first := len(ages)
		for _, l := range b.live {
			to, ages = append(to, h), append(ages, l.age())
		}
		if of := ages[first:]; len(of) > 1 {
			slices.Sort(of)
			if distinct { // the youngest: it may not expire too early
				of[0] = of[len(of)-1]
				to, ages = to[:first+1], ages[:first+1]
			}
		}
	}
	return to, ages, read, nil
}
