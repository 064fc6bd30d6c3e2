// Package peers holds the filters that the paper compares its own with: the
// standard, the blocked and the counting Bloom filter, the quotient filter and the
// d-left counting Bloom filter.
package peers

// A Filter is a set of 64-bit keys, with false positives.
type Filter interface {
	// Insert adds a key. False: the filter is full, and is as it was.
	Insert(key uint64) bool
	// Contains reports whether a key may have been added.
	Contains(key uint64) bool
	// Bytes is the memory of its table.
	Bytes() uint64
}

// A Deleter is a filter that forgets keys that were added.
type Deleter interface {
	Filter
	// Delete takes a key out that was added. False: it was not there.
	Delete(key uint64) bool
}
