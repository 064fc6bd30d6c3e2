package compact

import "github.com/mmapfilter/mmapfilter/layout"

// Bits of a line, wherever its words end.

// selectInByte[k<<8|b] is the position of set bit number k of the byte b, or 0 if b has no
// more than k.
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

// selectBit returns the position of set bit number k of x, counted from 0: broadword
// selection (Vigna, "Broadword Implementation of Rank/Select Queries", 2008, algorithm 2).
// Byte i of sums is the number of set bits in bytes 0 to i; the bit is in the first byte
// where that exceeds k, and starts at bit low. If x has no such bit the result is
// arbitrary.
func selectBit(x, k uint64) uint64 {
	sums := x - x>>1&(0x55*everyByte)
	sums = sums&(0x33*everyByte) + sums>>2&(0x33*everyByte)
	sums = (sums + sums>>4) & (0x0F * everyByte) * everyByte
	low := ((k*everyByte | highBits) - sums) & highBits >> 7 * everyByte >> 53 & 56
	return low + uint64(selectInByte[((k-sums<<8>>low)<<8|x>>low&0xFF)%uint64(len(selectInByte))])
}

// window returns 64 bits of a line, starting at a bit. What follows the last bit of the
// line is arbitrary.
func window(l *layout.Line, bit uint64) uint64 {
	i, low := bit/64, bit%64
	return layout.LoadOf(l, i)>>low | layout.LoadOf(l, i+1)<<1<<(63-low)
}

// insert puts n bits v, 1 to 63 of them, at a bit of a line and moves the bits from there
// to end up by n; the last n are lost.
func insert(l *layout.Line, at, end, n, v uint64) {
	first, last := at/64, (end-1)/64
	from, to := ^uint64(0)<<(at%64), ^uint64(0)>>(63-(end-1)%64) // bits of these words that move
	below, behind := l[first]&^from, l[last]&^to
	for i := last; i > first; i-- {
		l[i] = l[i]<<n | l[i-1]>>(64-n)
	}
	l[first] = l[first]&from<<n | below
	l[last] = l[last]&to | behind
	layout.PutBits(l[:], at, n, v)
}

// remove takes n bits, 1 to 63 of them, out at a bit of a line and moves the bits from
// there to end down by n; the last n become 0.
func remove(l *layout.Line, at, end, n uint64) {
	first, last := at/64, (end-1)/64
	from, to := ^uint64(0)<<(at%64), ^uint64(0)>>(63-(end-1)%64)
	below, behind := l[first]&^from, l[last]&^to
	l[last] &= to
	for i := first; i < last; i++ {
		l[i] = l[i]>>n | l[i+1]<<(64-n)
	}
	l[last] >>= n
	l[first] = l[first]&from | below
	l[last] |= behind
}
