package peers

import "math/bits"

// An Entry is a filter of a given size, as the paper compares it.
type Entry struct {
	Name string // as in the paper
	Keys uint64 // capacity; 0 means as many as it takes until it refuses one
	New  func() (Filter, error)
}

// bitsPerKey is the space of the paper's Bloom filters.
const bitsPerKey = 13

// The remainders, in bits, of the paper's quotient filter, and of a d-left filter that comes
// close to the paper's figures.
const (
	quotientRemainder = 9
	dleftRemainder    = 12
)

// All returns the filters that the paper compares, each with a table of the given number of bytes.
// At 192 MiB, as in Table 3:
//
//	BF, blk-BF  13 bits a key, so 123.89 million keys
//	CBF         13 counters a key, which are 52 bits: the rate of BF, with a quarter
//	            of its keys. The paper's Table 3 leaves it out
//	QF          2^27 slots of 12 bits, filled to 90 %: 120.80 million keys
//	dl-CBF      14 bits a cell, filled until it refuses a key
//
// A quotient filter has a power of two slots. Unless bytes is 1.5 times a power of two, its table
// is the next smaller one that is; [Filter.Bytes] returns its size.
func All(bytes uint64) []Entry {
	bloomKeys := bytes * 8 / bitsPerKey
	countingKeys := bytes * 2 / bitsPerKey
	q := bits.Len64(bytes/(quotientRemainder+metadataBits)) + 2 // eight slots of w bits are w bytes
	return []Entry{
		{"BF", bloomKeys, func() (Filter, error) { return NewBloom(bytes, bloomKeys) }},
		{"blk-BF", bloomKeys, func() (Filter, error) { return NewBlockedBloom(bytes, bloomKeys) }},
		{"CBF", countingKeys, func() (Filter, error) { return NewCounting(bytes, countingKeys) }},
		{"QF", uint64(quotientLoad * float64(uint64(1)<<q)), func() (Filter, error) { return NewQuotient(q, quotientRemainder) }},
		{"dl-CBF", 0, func() (Filter, error) { return NewDLeft(bytes, dleftRemainder) }},
	}
}
