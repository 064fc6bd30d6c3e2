package main

import (
	"encoding/binary"
	"iter"
	"math/rand/v2"
)

// firstAbsent is the number of the first key that is in no filter.
const firstAbsent = 1 << 40

// key returns the key with a number: the output of SplitMix64 (Steele, Lea and Flood, OOPSLA
// 2014). For one seed, different numbers have different keys. So keys numbered from firstAbsent
// on are certainly absent, and no key has to be stored.
func (c *config) key(number uint64) uint64 {
	z := c.seed + (number+1)*0x9E3779B97F4A7C15
	z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
	z = (z ^ z>>27) * 0x94D049BB133111EB
	return z ^ z>>31
}

// drawRange fills keys with those numbered from first on.
func (c *config) drawRange(keys []uint64, first uint64) {
	for i := range keys {
		keys[i] = c.key(first + uint64(i))
	}
}

// drawMixed fills keys with random ones: a share from the first n, the others absent. It
// returns how many are from the first n.
func (c *config) drawMixed(keys []uint64, n uint64, share float64, rng *rand.Rand) (present int) {
	for i := range keys {
		if rng.Float64() < share {
			keys[i] = c.key(rng.Uint64N(n))
			present++
		} else {
			keys[i] = c.key(firstAbsent + rng.Uint64N(firstAbsent))
		}
	}
	return present
}

// sequence yields n keys, numbered from first on, as 8 bytes each.
func (c *config) sequence(first, n uint64) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		var b [8]byte
		for i := range n {
			binary.LittleEndian.PutUint64(b[:], c.key(first+i))
			if !yield(b[:], nil) {
				return
			}
		}
	}
}
