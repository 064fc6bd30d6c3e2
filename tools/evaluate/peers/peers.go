// Package peers holds the filters that the paper compares with its own. Each is in a file that says
// how it works, from which source, and what it costs.
//
//	                                      at 192 MiB: bits a key, rate   a key has
//	BF      standard Bloom filter         13.00   0.19 %                 k bits, anywhere
//	blk-BF  blocked Bloom filter          13.00   0.28 %                 k bits of one cache line
//	CBF     counting Bloom filter         52.00   0.19 %                 k counters, anywhere
//	QF      quotient filter               13.33   0.18 %                 a remainder, in a run
//	dl-CBF  d-left counting Bloom filter  15.85   0.69 %                 a remainder, in one of 4 buckets
//
// The paper is Fan, Andersen, Kaminsky, Mitzenmacher, "Cuckoo Filter: Practically Better Than
// Bloom", CoNEXT 2014. Its section 7 compares them at 192 MiB each, and [All] makes them as it does.
// The rates above are from the formulas in the files, and the bits a key of dl-CBF from a simulation
// of its loads. BF is a library; the others are small implementations that hash with [hash].
//
// Any number of goroutines may look up keys in a filter while none changes it.
package peers

import (
	"fmt"
	"math/rand/v2"
)

// A Filter is a set of 64-bit keys, with false positives.
type Filter interface {
	// Insert adds a key. It returns false if the filter is full, and then changes nothing.
	Insert(key uint64) bool
	// Contains reports whether a key may have been added.
	Contains(key uint64) bool
	// Bytes returns the memory of the table.
	Bytes() uint64
}

// A Deleter is a filter that supports deletes. A key added twice must be deleted twice.
type Deleter interface {
	Filter
	// Delete removes a key that was added. It returns false if the key is not there. If the key
	// was never added but is a false positive of Contains, Delete removes another key.
	Delete(key uint64) bool
}

// A Saturable is a Bloom filter that can be made to look full without keys: with the best
// number of hash functions, half the bits of a full filter are set.
type Saturable interface {
	Filter
	// Saturate sets each bit with a probability of one half. Keys added before may be
	// forgotten.
	Saturate(rng *rand.Rand)
}

// A ParameterError says which parameter of a filter cannot be used, and why.
type ParameterError struct {
	Filter, Parameter string
	Value             any
	Reason            string
}

func (e *ParameterError) Error() string {
	return fmt.Sprintf("%s: %s = %v: %s", e.Filter, e.Parameter, e.Value, e.Reason)
}

// maxBytes is the size of the largest table. 2^40 bytes have 2^43 bits, and no product of the
// number of slots and their width overflows 64 bits.
const maxBytes = 1 << 40

// checkBytes checks the size of a filter whose table may have any size.
func checkBytes(filter string, bytes, unit uint64) error {
	if bytes < unit || bytes > maxBytes {
		return &ParameterError{filter, "bytes", bytes, fmt.Sprintf("a table has %d to 2^40 bytes", unit)}
	}
	return nil
}
