package paper

import "github.com/mmapfilter/mmapfilter/layout/kernel"

const maxBucket = 8

// A bucket holds the fingerprints in the slots of a bucket; 0 means an empty slot.
type bucket [maxBucket]uint32

// maxPairWords is the largest number of words that a bucket is in: 8 slots of 32 bits that
// start within a word.
const maxPairWords = 5

// bitsAt returns n bits of words, 1 to 64 of them, starting at a bit.
func bitsAt(words []uint64, bit, n uint64) uint64 {
	i, low := bit/64, bit%64
	v := words[i] >> low
	if low+n > 64 {
		v |= words[i+1] << (64 - low)
	}
	return v & (1<<(n-1)<<1 - 1)
}

// firstBits returns 64 bits of words, starting at a bit of the first one. Bits past the end of
// the words are arbitrary.
func firstBits(words []uint64, bit uint64) uint64 {
	next := min(1, len(words)-1)
	return kernel.Load(&words[0])>>bit | kernel.Load(&words[next])<<1<<(63-bit)
}

// load loads the words of a bucket, to which a writer may be storing.
func load(words []uint64, n int) (w [maxPairWords]uint64) {
	words = words[:n]
	for i := range words {
		w[i%maxPairWords] = kernel.Load(&words[i])
	}
	return w
}
