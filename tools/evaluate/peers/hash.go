package peers

import (
	"math"
	"math/bits"
)

// hash mixes a key, so that every bit of the key affects every bit of the hash: the finalizer
// of SplitMix64 (Steele, Lea, Flood, "Fast Splittable Pseudorandom Number Generators", OOPSLA
// 2014), in Stafford's variant 13. It is a permutation: no two keys have the same hash. The
// golden ratio is added so that 0 is mixed too.
func hash(key uint64) uint64 {
	z := key + 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// scale maps a hash to 0 … n-1 by its high bits, without a division (Lemire, "Fast Random
// Integer Generation in an Interval", TOMACS 2019). n may exceed 2^32, and is not a power of
// two in most tables.
func scale(h, n uint64) uint64 {
	high, _ := bits.Mul64(h, n)
	return high
}

// maxHashes is far more than any rate needs: 64 hashes are for 92 positions a key, and 2^-64.
const maxHashes = 64

// hashes returns the number k of positions of a key that minimizes the rate of a Bloom filter:
// (m/n)·ln 2, rounded.
func hashes(filter string, positions, keys uint64) (int, error) {
	if keys == 0 {
		return 0, &ParameterError{filter, "keys", keys, "a filter is made for at least one key"}
	}
	k := math.Round(float64(positions) / float64(keys) * math.Ln2)
	if k > maxHashes {
		return 0, &ParameterError{filter, "keys", keys, "so few keys in so many bytes would have more than 64 hashes each"}
	}
	return max(1, int(k)), nil
}
