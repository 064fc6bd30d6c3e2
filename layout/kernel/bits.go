package kernel

import (
	"math/bits"
	"sync/atomic"
)

// TestBits sets a bit of set for each position whose bit of words is set; the lowest
// bit of set[0] is for the first position. Other bits stay. set has a byte for every
// eight positions, or part of eight. Positions are taken modulo the number of bits, and
// len(words) is a power of two. Another goroutine may store to the words meanwhile.
//
// It is for lookups that ask a small table whether they need to ask a large one: eight
// words are waited for at once.
func TestBits(words, positions []uint64, set []uint8) {
	if groups := len(positions) / Group; InUse() == AVX512 && groups > 0 {
		_ = set[groups-1]
		testBitsAVX512(&words[0], uint64(len(words)-1), &positions[0], groups, &set[0])
		positions, set = positions[groups*Group:], set[groups:]
	}
	for i, position := range positions {
		word := atomic.LoadUint64(&words[position/64&uint64(len(words)-1)])
		set[i/Group] |= uint8(word>>(position%64)&1) << (i % Group)
	}
}

// EachBit calls do with the number of each bit that is set, starting with the lowest of
// set[0].
func EachBit(set []uint8, do func(i int)) {
	for i, bits8 := range set {
		for ; bits8 != 0; bits8 &= bits8 - 1 {
			do(i*Group + bits.TrailingZeros8(bits8))
		}
	}
}

// SplitLines sets lines[i] to the high 64 bits of hashes[i]·n: the line of a hash in a
// table of n lines.
func SplitLines(hashes, lines []uint64, n uint64) {
	lines = lines[:len(hashes)]
	if groups := len(hashes) / Group; InUse() == AVX512 && groups > 0 {
		splitLinesAVX512(&hashes[0], n, &lines[0], groups)
		hashes, lines = hashes[groups*Group:], lines[groups*Group:]
	}
	for i, h := range hashes {
		lines[i], _ = bits.Mul64(h, n)
	}
}
