package compact

import (
	"math/bits"

	"github.com/mmapfilter/mmapfilter/layout"
)

const (
	lineBits = 8 * layout.LineBytes
	lastWord = layout.BlockWords - 1 // the word that has the overflow bits
	maxSlots = 96                    // no line has more slots

	directions = 16 // overflow bits of a line
	guestBits  = 4  // of the number of guests
	mostGuests = 1<<guestBits - 1
	guestsEnd  = lineBits - directions - guestBits // the bit after the first guest

	// The legal numbers of quotients and of bits of a remainder. A remainder has the direction in its
	// low bits, a word has a bit for each quotient, and a fingerprint has at most 31 bits.
	leastQuotients, mostQuotients = 16, 64
	leastRemainder, mostRemainder = 4, 26
	mostFingerprints              = 1 << 31
)

// quotientBits returns how many bits a quotient takes in a guest.
func quotientBits(quotients int) int { return bits.Len(uint(quotients - 1)) }

// slotsOf returns b, the largest number of items at home in a line. An item at home takes a
// remainder and a bit of the counts; a guest takes a quotient and a remainder. b is chosen so that a
// line with b items at home still has room for a quotient. Then any one of these items can leave to
// make room for a guest. Otherwise a search for a path of moves would end at these lines, and some
// items would find no room in a table that is far from full.
func slotsOf(p layout.Params) int {
	return (guestsEnd - p.Quotients - 1 - quotientBits(p.Quotients)) / (p.RemainderBits + 1)
}

// A table is a layout.Table. Remainders are compared in lanes of r bits, as many as fit a
// word. The kernels know the offsets of the fields up to vectors.
type table struct {
	lines     uint64
	quotients uint64
	r         uint64
	shift     uint64       // 64 - r
	counts    uint64       // bits for the counts; the first remainder is after them
	values    uint64       // 2^r - 1, every bit of a remainder
	ones      uint64       // the lowest bit of each lane
	highs     uint64       // the highest bit of each lane
	inSecond  uint64       // the bits of the counts in the second word, without the 0 that ends them
	inUse     uint64       // the bytes of a register that have a slot: see slotVectors
	vectors   *slotVectors // nil if there is no VBMI

	b            uint64
	fingerprints uint64
	guest        uint64      // bits of a guest: a quotient and a remainder
	countWords   int         // words of a line that the counts are in
	inCounts     layout.Line // in each of these words, the bits of the counts
	lanes        uint64
	offsets      [directions]uint64 // lines from home to the other line
}

// slotVectors have what the kernels for AVX-512 VBMI need to compare the remainders of all slots at
// once. A look compares 8 bits of each remainder, in a byte of the register. Each vector lies in one
// cache line.
type slotVectors struct {
	from   [looks][layout.LineBytes]byte // for each byte of a word: which byte of the line it comes from
	shifts [looks][layout.LineBytes]byte // for each byte: the first bit, within its word, that is compared
	values [layout.LineBytes]byte        // for each byte: mask of a remainder of up to 8 bits
}

// looks is the largest number of looks that a remainder takes. Four looks begin at bits 0 and 8 of the
// remainder, and 16 and 8 bits before its end. Two looks begin at bit 0 and 8 bits before its end.
const looks = 4

func (t *table) Kind() layout.Kind { return layout.Compact }
func (t *table) Params() layout.Params {
	return layout.Params{Quotients: int(t.quotients), RemainderBits: int(t.r)}
}
func (t *table) Lines() uint64 { return t.lines }

func (t *table) Split(h uint64) layout.Item {
	line, rest := layout.SplitHash(h, t.lines)
	return layout.Item{Line: line, Fp: t.fingerprint(rest)}
}

// fingerprint returns the fingerprint of the rest of a hash. If the rest is taken as a fraction
// below 1 and multiplied by Q, the quotient is the integer part of the product, and the remainder
// is the first r bits after the point.
func (t *table) fingerprint(rest uint64) uint32 {
	fp, _ := bits.Mul64(rest, t.fingerprints)
	return uint32(fp)
}

func (t *table) Hash(it layout.Item) uint64 {
	return layout.JoinHash(it.Line, layout.JoinHash(uint64(it.Fp), 0, t.fingerprints), t.lines)
}

// The values of Item.Bucket.
const (
	atHome  = 0
	aGuest  = 1
	buckets = 2
)

func (t *table) Alternate(it layout.Item) layout.Item {
	if t.lines == 1 {
		return it
	}
	offset := t.offsets[it.Fp%directions]
	if it.Bucket == aGuest {
		offset = t.lines - offset
	}
	if it.Line += offset; it.Line >= t.lines {
		it.Line -= t.lines
	}
	it.Bucket ^= aGuest
	return it
}

func (t *table) Legal(it layout.Item) bool {
	return (it.Bucket == atHome || it.Bucket == aGuest && t.lines > 1) && uint64(it.Fp) < t.fingerprints
}

func (t *table) Class(it layout.Item) layout.Class {
	if it.Bucket == aGuest {
		it = t.Alternate(it)
	}
	return layout.Class(it)
}

func (t *table) Words(line uint64) (first uint64, n int) {
	return line * layout.BlockWords, layout.BlockWords
}

// overflowBit returns the mask of the overflow bit of a fingerprint, in the last word.
func overflowBit(fp uint64) uint64 { return 1 << (64 - directions + fp%directions) }
