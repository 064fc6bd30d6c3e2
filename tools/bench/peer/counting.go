package peer

import (
	"fmt"
	"math"
)

// Counting is the counting Bloom filter (Fan, Cao, Almeida, Broder, "Summary Cache: A Scalable
// Wide-Area Web Cache Sharing Protocol", SIGCOMM 1998): a Bloom filter whose m positions are
// counters of 4 bits. Insert increments the k counters of a key, Delete decrements them.
//
// A counter that reaches 15 stays there: it has lost count of its keys, so decrementing it could
// make one of them absent. With k = (m/n)·ln 2, a given counter reaches 16 with a probability of at
// most 1.37·10^-15 (the source), unless the same key is added again and again.
//
// The rate is that of the standard Bloom filter with a bit for each counter: 0.19 % at 13 counters a
// key, which are 52 bits.
//
// No library is used: the CountingBloomFilter of tylertreat/BoomFilters (v0.0.0-20251001182300) computes
// the place of a counter in 32 bits when it writes, and in 64 bits when it reads, and it decrements a
// counter that has reached 15.
type Counting struct {
	words    []uint64 // of 16 counters
	counters uint64
	k        int
}

const maxCount = 15

// NewCounting makes a counting Bloom filter for the given number of keys, in whole words of 16 counters.
func NewCounting(bytes, keys uint64) (*Counting, error) {
	words := bytes / 8
	if words == 0 || keys == 0 {
		return nil, fmt.Errorf("a counting Bloom filter of %d bytes for %d keys", bytes, keys)
	}
	k := math.Round(float64(words*16) / float64(keys) * math.Ln2)
	return &Counting{make([]uint64, words), words * 16, max(1, int(k))}, nil
}

// probe returns the first of the k counters of a key, unscaled, and the step to the next.
// Double hashing does not cost a large table any rate (Kirsch, Mitzenmacher, "Less Hashing,
// Same Performance", ESA 2006).
func probe(key uint64) (h, step uint64) {
	h = hash(key)
	return h, hash(h) | 1
}

// at returns the word of a counter, and the shift to its bits.
func (f *Counting) at(h uint64) (word, shift uint64) {
	i := scale(h, f.counters)
	return i / 16, i % 16 * 4
}

func (f *Counting) Insert(key uint64) bool {
	h, step := probe(key)
	for range f.k {
		if word, shift := f.at(h); f.words[word]>>shift&maxCount < maxCount {
			f.words[word] += 1 << shift
		}
		h += step
	}
	return true
}

func (f *Counting) Contains(key uint64) bool {
	h, step := probe(key)
	for range f.k {
		if word, shift := f.at(h); f.words[word]>>shift&maxCount == 0 {
			return false
		}
		h += step
	}
	return true
}

func (f *Counting) Delete(key uint64) bool {
	if !f.Contains(key) {
		return false
	}
	h, step := probe(key)
	for range f.k {
		// A counter may be 0 here: two of the k may be the same counter, and the key may never
		// have been added.
		word, shift := f.at(h)
		if count := f.words[word] >> shift & maxCount; count > 0 && count < maxCount {
			f.words[word] -= 1 << shift
		}
		h += step
	}
	return true
}

func (f *Counting) Bytes() uint64 { return uint64(len(f.words)) * 8 }
