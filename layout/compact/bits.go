package compact

import "github.com/mmapfilter/mmapfilter/layout"

// A line as a string of bits, across its words.

// selectInByte[k<<8|b] is the position of set bit number k of the byte b, counted from 0,
// or 0 if b has at most k set bits.
var selectInByte = func() (t [8 << 8]uint8) {
	for b := range 256 {
		k := 0
		for i := range uint8(8) {
			if b>>i&1 != 0 {
				t[k<<8|b] = i
				k++
			}
		}
	}
	return t
}()

const (
	everyByte = 0x0101010101010101
	highBits  = 0x80 * everyByte
)

// selectBit returns the position of set bit number k of x, counted from 0, or an arbitrary
// number if x has no such bit: broadword selection (Vigna, "Broadword Implementation of
// Rank/Select Queries", 2008, algorithm 2). Byte i of sums is the number of set bits in
// bytes 0 to i of x. The bit is in the first byte whose sum exceeds k, and low is the lowest
// bit of this byte. The number of the bit within its byte is k minus the sum of the byte
// before. The shift by 8 puts this number above the byte, which gives the index into
// selectInByte; the modulus removes bits that other bytes of sums have left above the index.
func selectBit(x, k uint64) uint64 {
	sums := x - x>>1&(0x55*everyByte)
	sums = sums&(0x33*everyByte) + sums>>2&(0x33*everyByte)
	sums = (sums + sums>>4) & (0x0F * everyByte) * everyByte
	low := ((k*everyByte | highBits) - sums) & highBits >> 7 * everyByte >> 53 & 56
	return low + uint64(selectInByte[((k-sums<<8>>low)<<8|x>>low&0xFF)%uint64(len(selectInByte))])
}

// window returns 64 bits of a line from a bit on. Bits past the end of the line are
// arbitrary. Shifting by 1 and then by 63-low is shifting by 64-low, without the case of 64.
func window(l *layout.Line, bit uint64) uint64 {
	i, low := bit/64, bit%64
	return layout.LoadOf(l, i)>>low | layout.LoadOf(l, i+1)<<1<<(63-low)
}

// insert moves the bits at to end-1 of a line up by n, from 1 to 63, and puts the n bits of v
// at bit at. The last n bits before end are lost.
func insert(l *layout.Line, at, end, n, v uint64) {
	first, last := at/64, (end-1)/64
	moveFirst, moveLast := ^uint64(0)<<(at%64), ^uint64(0)>>(63-(end-1)%64) // the bits that move in the two words
	below, above := l[first]&^moveFirst, l[last]&^moveLast                  // the bits that stay
	for i := last; i > first; i-- {
		l[i] = l[i]<<n | l[i-1]>>(64-n)
	}
	l[first] = l[first]&moveFirst<<n | below
	l[last] = l[last]&moveLast | above
	layout.PutBits(l[:], at, n, v)
}

// remove takes n bits, from 1 to 63, out of a line, from bit at on: it moves the bits at+n to
// end-1 down by n. The last n bits before end become 0.
func remove(l *layout.Line, at, end, n uint64) {
	first, last := at/64, (end-1)/64
	moveFirst, moveLast := ^uint64(0)<<(at%64), ^uint64(0)>>(63-(end-1)%64) // as in insert
	below, above := l[first]&^moveFirst, l[last]&^moveLast
	l[last] &= moveLast
	for i := first; i < last; i++ {
		l[i] = l[i]>>n | l[i+1]<<(64-n)
	}
	l[last] >>= n
	l[first] = l[first]&moveFirst | below
	l[last] |= above
}
