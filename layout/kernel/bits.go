package kernel

import "math/bits"

// TestBits tests the bits of words at many positions: if the bit at positions[i] is set,
// TestBits sets bit i%8 of set[i/8]. Other bits of set stay as they are. Positions are
// taken modulo the number of bits, and len(words) is a power of two. Another goroutine may
// store to the words meanwhile.
//
// Lookups use it to ask a small table whether they need to ask a large one. TestBits is faster
// than testing one bit after the other, since the cache misses of eight words overlap.
func TestBits(words, positions []uint64, set []uint8) {
	if groups := len(positions) / Group; InUse() == AVX512 && groups > 0 {
		_ = set[groups-1] // the assembly checks no bounds
		testBitsAVX512(&words[0], uint64(len(words)-1), &positions[0], groups, &set[0])
		positions, set = positions[groups*Group:], set[groups:]
	}
	for i, position := range positions {
		word := Load(&words[position/64&uint64(len(words)-1)])
		set[i/Group] |= uint8(word>>(position%64)&1) << (i % Group)
	}
}

// EachBit calls do with the number of each bit that is set, in ascending order: bit i%8 of
// set[i/8] has number i.
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

// Sum returns the sum and the bitwise OR of words. Their number must be a multiple of 16. Another
// goroutine may store to them meanwhile.
func Sum(words []uint64) (sum, or uint64) {
	if InUse() >= AVX2 {
		return sumAVX2(&words[0], len(words)/16)
	}
	for i := range words {
		w := Load(&words[i])
		sum, or = sum+w, or|w
	}
	return sum, or
}
