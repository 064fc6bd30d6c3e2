package paper

import (
	"fmt"

	"github.com/mmapfilter/mmapfilter/layout"
)

// The buckets of the SemiSorted layout, the semi-sorted buckets of the paper (section 4.2, after
// Bonomi et al.). The order of the four fingerprints in a bucket carries no information.
// So they are sorted, and of the 65,536 sequences of their top nibbles only the 3,876
// ascending ones are left. The number of a sequence takes 12 bits, and its four nibbles
// would take 16. This saves one bit a key.
//
//	bits 0-11            12 … f+7    …                   4f-5
//	┌──────────────────┬───────────┬───────────┬───────────┬───────────┐
//	│ number of the    │ tail of   │ tail of   │ tail of   │ tail of   │   f-4 bits a tail
//	│ nibbles          │ the least │ second    │ third     │ greatest  │
//	└──────────────────┴───────────┴───────────┴───────────┴───────────┘
//
// Whole fingerprints are sorted: where nibbles are equal, the tails ascend. Empty slots are
// 0 and are sorted too. So buckets with the same content have the same image.
//
// With the nibbles p ≤ q ≤ r ≤ s, the number is p + C(q+1, 2) + C(r+2, 3) +
// C(s+3, 4), with binomial coefficients C. It says how many sequences come before this
// one if they are ordered by s, then by r, q and p.
const (
	sortedBucket   = 4
	nibbleBits     = 4
	numberBits     = 12
	sequences      = 3876
	minSortedBits  = 5
	maxSortedBits  = 32
	nibbleSequence = 1 << nibbleBits
)

// chooseUp[i][n] is C(n+i, i+1): what nibble i of a sequence adds to its number.
var chooseUp = func() (c [sortedBucket][nibbleSequence]uint16) {
	for i := range c {
		for n := range c[i] {
			switch {
			case i == 0:
				c[i][n] = uint16(n)
			case n > 0: // C(n+i, i+1) = C(n-1+i, i+1) + C(n-1+i, i)
				c[i][n] = c[i][n-1] + c[i-1][n]
			}
		}
	}
	return c
}()

// nibblesOf has the nibbles of each number, the least nibble in the lowest bits. It has 0
// for a number that no sequence has.
var nibblesOf = func() (t [1 << numberBits]uint16) {
	for s := range uint16(nibbleSequence) {
		for r := range s + 1 {
			for q := range r + 1 {
				for p := range q + 1 {
					t[chooseUp[0][p]+chooseUp[1][q]+chooseUp[2][r]+chooseUp[3][s]] = p | q<<4 | r<<8 | s<<12
				}
			}
		}
	}
	return t
}()

// decodeSorted returns the slots of a semi-sorted bucket that starts at a bit of words. Here
// and below, rest is the number of bits of a tail.
func decodeSorted(words []uint64, bit, rest uint64) (s bucket) {
	nibbles := nibblesOf[bitsAt(words, bit, numberBits)]
	for i := range sortedBucket {
		s[i] = uint32(nibbles>>(nibbleBits*i)&0xF)<<rest | uint32(bitsAt(words, bit+numberBits+uint64(i)*rest, rest))
	}
	return s
}

// encodeSorted is the inverse of decodeSorted. It sorts the slots first.
func encodeSorted(words []uint64, bit, rest uint64, s *bucket) {
	for i := 1; i < sortedBucket; i++ {
		for j := i; j > 0 && s[j] < s[j-1]; j-- {
			s[j], s[j-1] = s[j-1], s[j]
		}
	}
	number := uint16(0)
	for i := range sortedBucket {
		number += chooseUp[i][s[i]>>rest]
		layout.PutBits(words, bit+numberBits+uint64(i)*rest, rest, uint64(s[i])&(1<<rest-1))
	}
	layout.PutBits(words, bit, numberBits, uint64(number))
}

// hasSorted reports whether a bucket that starts at a bit of words has a fingerprint.
func hasSorted(words []uint64, bit, rest, fp uint64) bool {
	nibbles := uint64(nibblesOf[bitsAt(words, bit, numberBits)])
	top, low := fp>>rest, fp&(1<<rest-1)
	found := false
	for i := range uint64(sortedBucket) {
		differ := (nibbles>>(nibbleBits*i)&0xF ^ top) | (bitsAt(words, bit+numberBits+i*rest, rest) ^ low)
		if differ == 0 {
			found = true
		}
	}
	return found
}

// wordHasSorted is hasSorted for a bucket that starts at bit 0 of a word and fits into it.
func wordHasSorted(x, rest, fp uint64) bool {
	mask := uint64(1)<<rest - 1
	nibbles := uint64(nibblesOf[x%(1<<numberBits)])
	top, low := fp>>rest, fp&mask
	x >>= numberBits
	found := uint64(0)
	for i := range sortedBucket {
		found |= (nibbles>>(nibbleBits*i)&0xF ^ top | (x&mask ^ low)) - 1 // sets bit 63 only for 0
		x >>= rest
	}
	return found>>63 != 0
}

// checkSorted checks a bucket with the slots s against rule F10.
func checkSorted(words []uint64, bit uint64, s *bucket) error {
	if n := bitsAt(words, bit, numberBits); n >= sequences {
		return fmt.Errorf("number %d of a sequence of nibbles is not below %d", n, sequences)
	}
	for i := 1; i < sortedBucket; i++ {
		if s[i] < s[i-1] {
			return fmt.Errorf("fingerprints are not sorted: %#x comes before %#x", s[i-1], s[i])
		}
	}
	return nil
}
