package layout

import (
	"math/bits"
	"sync/atomic"
)

// Odd constants: the fractions of the golden ratio and of the square root of 3,
// to 64 bits. They are part of the format.
const (
	MixFirst  = 0x9E3779B97F4A7C15
	MixSecond = 0xBB67AE8584CAA73B
)

// SplitHash takes a line out of a hash with one multiplication: h·n = line·2^64 + rest.
// The line is uniform in [0, n) for any n and rises with h, so sorted hashes are in the
// order of their lines. The top bits of rest are the bits of the hash that line did not
// use.
func SplitHash(h, n uint64) (line, rest uint64) { return bits.Mul64(h, n) }

// Fingerprint turns the fraction x/2^64 into a uniform value from 1 to values. 0 is
// not used because it means an empty slot.
func Fingerprint(x, values uint64) uint64 {
	hi, _ := bits.Mul64(x, values)
	return hi + 1
}

// JoinHash is an inverse of SplitHash: it returns the lowest hash that has this line and at
// least this rest. An item is a range of rests. The hashes of a line have
// every n-th rest, and NewGeometry keeps every range longer than n, so each item has a hash.
func JoinHash(line, rest, n uint64) uint64 {
	h, left := bits.Div64(line, rest, n)
	if left > 0 {
		h++
	}
	return h
}

// LowestFraction returns the lowest x for which Fingerprint returns fp.
func LowestFraction(fp, values uint64) uint64 { return JoinHash(fp-1, 0, values) }

// AlternateLine returns the other line of an item: the involution (H(fp) - line) mod n,
// with H uniform in [0, n). It is partial-key cuckoo hashing (paper, section 3.1) with
// a subtraction in place of the XOR, so that n need not be a power of two. A line with
// 2·line = H(fp) mod n is its own alternate.
//
// H takes a second multiplication. With one alone, the distance between the alternates of
// two fingerprints would depend only on the difference of the fingerprints, and a path of
// several moves would come back to lines that it has seen.
func AlternateLine(line, fp, n uint64) uint64 {
	m := fp * MixFirst
	h, _ := bits.Mul64((m^m>>32)*MixSecond, n)
	other, below := bits.Sub64(h, line, 0) // branch-free: a branch would mispredict half the time
	return other + n&-below
}

// loadWord reads a word that a writer of another process may be storing to: an
// aligned 64-bit load that the compiler neither splits, repeats nor moves.
func loadWord(words []uint64, i uint64) uint64 { return atomic.LoadUint64(&words[i]) }

// PutBits stores the low n bits of v, 1 to 64, into words, from a bit on. The other bits of
// v are 0.
func PutBits(words []uint64, bit, n, v uint64) {
	i, low := bit/64, bit%64
	mask := uint64(1)<<(n-1)<<1 - 1
	words[i] = words[i]&^(mask<<low) | v<<low
	if low+n > 64 {
		words[i+1] = words[i+1]&^(mask>>(64-low)) | v>>(64-low)
	}
}
