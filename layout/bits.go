package layout

import "sync/atomic"

// TestBits sets a bit of set for each position whose bit of words is set; the lowest
// bit of set[0] is for the first position. Other bits stay. set has a byte for every
// eight positions, or part of eight. Positions are taken modulo the number of bits, and
// len(words) is a power of two. Another goroutine may store to the words meanwhile.
//
// It is for lookups that ask a small table whether they need to ask a large one: the
// kernel waits for eight words at once.
func TestBits(words, positions []uint64, set []uint8) {
	if groups := len(positions) / openBits; kernel(inUse.Load()) == avx512 && groups > 0 {
		_ = set[groups-1]
		testBitsAVX512(&words[0], uint64(len(words)-1), &positions[0], groups, &set[0])
		positions, set = positions[groups*openBits:], set[groups:]
	}
	for i, position := range positions {
		word := atomic.LoadUint64(&words[position/64&uint64(len(words)-1)])
		set[i/openBits] |= bit(word&(1<<(position%64)) != 0) << (i % openBits)
	}
}
