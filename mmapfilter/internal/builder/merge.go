package builder

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"

	"github.com/mmapfilter/mmapfilter/layout/hashes"
)

// An operation is what is left of an operation of a tail, or an item of a base, in 64 bits: the
// order of the operations, the input, the age of an item, and the kind.
type operation uint64

const (
	operationAge   = 1
	operationInput = operationAge + 6
	operationOrder = operationInput + 6

	// MostInputs is how many files can be merged.
	MostInputs = 1 << (operationOrder - operationInput)
)

func newOperation(order uint64, input, age int, kind hashes.Kind) operation {
	return operation(order<<operationOrder | uint64(input)<<operationInput | uint64(age)<<operationAge | uint64(kind))
}

func (o operation) input() uint64     { return uint64(o) >> operationInput & (MostInputs - 1) }
func (o operation) age() uint8        { return uint8(o>>operationAge) & (hashes.MostAges - 1) }
func (o operation) kind() hashes.Kind { return hashes.Kind(o & 1) }

// An entry is an item or an operation, with its hash.
type entry struct {
	hash uint64
	operation
}

// byHash orders entries by their hashes, and those of a hash by their operations.
func byHash(a, b entry) int {
	return cmp.Or(cmp.Compare(a.hash, b.hash), cmp.Compare(a.operation, b.operation))
}

// mergeBuffers are what a worker keeps from load to load.
type mergeBuffers struct {
	base, other, tail []entry
	spare             []entry // for the next sort
	ends              []int   // of the items of each input
	live              []operation
	deletes           [MostInputs]int // of each input
}

// sortEntries sorts entries whose hashes have the same top prefix bits. It returns them, in the
// memory of spare, and the memory that they had. Like sortHashes, it distributes uniform hashes into
// short runs first.
func sortEntries(entries, spare []entry, prefix uint) (sorted, was []entry) {
	const (
		perRun       = 4
		insertionMax = 32
		maxDigits    = 18
	)
	digits := min(uint(bits.Len(uint(len(entries)/perRun))), 64-prefix, maxDigits)
	if digits == 0 {
		slices.SortFunc(entries, byHash)
		return entries, spare
	}
	shift, mask := 64-prefix-digits, uint64(1)<<digits-1
	sorted = slices.Grow(spare[:0], len(entries))[:len(entries)]
	starts := make([]int, mask+2)
	for i := range entries {
		starts[entries[i].hash>>shift&mask+1]++
	}
	for i := range mask {
		starts[i+1] += starts[i]
	}
	for _, e := range entries {
		digit := e.hash >> shift & mask
		sorted[starts[digit]] = e
		starts[digit]++
	}
	start := 0
	for _, end := range starts[:mask+1] { // starts[i] is now the end of run i
		run := sorted[start:end]
		if start = end; len(run) > insertionMax {
			slices.SortFunc(run, byHash)
			continue
		}
		for i := 1; i < len(run); i++ {
			e, j := run[i], i
			for ; j > 0 && byHash(run[j-1], e) > 0; j-- {
				run[j] = run[j-1]
			}
			run[j] = e
		}
	}
	return sorted, entries
}

// mergeInputs merges the sorted items of the inputs, two neighbours at a time.
func (b *mergeBuffers) mergeInputs() {
	for len(b.ends) > 1 {
		b.other = slices.Grow(b.other[:0], len(b.base))
		start, n := 0, 0
		for i := 0; i < len(b.ends); i += 2 {
			middle, end := b.ends[i], b.ends[min(i+1, len(b.ends)-1)]
			b.other = mergeTwo(b.other, b.base[start:middle], b.base[middle:end])
			b.ends[n] = end
			n++
			start = end
		}
		b.ends = b.ends[:n]
		b.base, b.other = b.other, b.base
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
	slices.SortStableFunc(live, func(x, y operation) int { return cmp.Compare(x.age(), y.age()) })
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

// apply applies the sorted operations of the tails to the sorted items of the bases. It appends
// the items that are left, and returns how many there are, with equal ones counted.
func (b *mergeBuffers) apply(to []uint64, ages []uint8, distinct bool) (items []uint64, _ []uint8, read int, err error) {
	base, tail := b.base, b.tail
	for len(base) > 0 || len(tail) > 0 {
		var h uint64
		if len(tail) == 0 || len(base) > 0 && base[0].hash <= tail[0].hash {
			h = base[0].hash
		} else {
			h = tail[0].hash
		}
		b.live = b.live[:0]
		for ; len(base) > 0 && base[0].hash == h; base = base[1:] {
			b.live = append(b.live, base[0].operation)
		}
		deleted := false
		for ; len(tail) > 0 && tail[0].hash == h; tail = tail[1:] {
			o := tail[0].operation
			if o.kind() == hashes.Insert {
				b.live = append(b.live, o)
				continue
			}
			deleted = true
			b.deletes[o.input()]++
		}
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
