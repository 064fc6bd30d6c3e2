package peer

import "math/bits"

// packed is an array of values of width bits, without gaps: value i is the bits i·width to
// (i+1)·width-1, and bit j is bit j mod 64 of word j/64. A value may begin in one word and end
// in the next.
type packed struct {
	words []uint64
	width uint64 // 1 to 64
	mask  uint64 // of width bits
}

func newPacked(values uint64, width int) packed {
	w := uint64(width)
	// One more word than the values need, since get always reads the next word too.
	return packed{make([]uint64, (values*w+63)/64+1), w, 1<<(w-1)<<1 - 1}
}

func (p *packed) get(i uint64) uint64 {
	bit := i * p.width
	word, shift := bit/64, bit%64
	// A shift by 64 - shift, in two steps since it is 64 where a value begins with its word.
	return (p.words[word]>>shift | p.words[word+1]<<1<<(63-shift)) & p.mask
}

func (p *packed) set(i, value uint64) {
	bit := i * p.width
	word, shift := bit/64, bit%64
	p.words[word] = p.words[word]&^(p.mask<<shift) | value<<shift
	if shift+p.width > 64 {
		rest := 64 - shift
		p.words[word+1] = p.words[word+1]&^(p.mask>>rest) | value>>rest
	}
}

// hash mixes a key. It is a permutation: no two keys have the same hash.
func hash(key uint64) uint64 { return Mix(key + golden) }

// scale maps a hash to 0 … n-1 by its high bits, without a division (Lemire, "Fast Random
// Integer Generation in an Interval", TOMACS 2019).
func scale(h, n uint64) uint64 {
	high, _ := bits.Mul64(h, n)
	return high
}
