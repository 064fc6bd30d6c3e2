package compact

import (
	"math"

	"github.com/mmapfilter/mmapfilter/layout"
)

const (
	quotientBits = 6
	quotients    = 1 << quotientBits
	lineBits     = 8 * layout.LineBytes
	lastWord     = layout.BlockWords - 1 // it has the overflow bits
	maxSlots     = 96                    // at least those of any line

	directions = 16 // overflow bits of a line
	guestBits  = 4  // of the number of guests
	mostGuests = 1<<guestBits - 1
	guestsEnd  = lineBits - directions - guestBits // the bit after the first guest
)

// slotsOf returns b for remainders of r bits: the most items at home that leave 6 bits of the line
// free. Each takes a remainder and a bit of the counts. A guest is kept with its quotient, and so
// takes 6 bits more than a remainder. In a line full of items at home, any of them can therefore
// leave to make room for a guest. Otherwise a search for a path of moves would end at such lines,
// and some items would find no room in a table that is far from full.
func slotsOf(r int) int { return (guestsEnd - quotients - 1 - quotientBits) / (r + 1) }

func init() {
	layout.Register(layout.Compact, &layout.Spec{
		Name:         "compact",
		Params:       params(),
		ItemBits:     func(p layout.Params) int { return p.FingerprintBits + 1 }, // see Unhash
		SlotsPerLine: func(p layout.Params) int { return p.BucketSize },
		LineBits:     func(layout.Params) int { return lineBits },
		Loads:        loads,
		Bounds:       bounds,
		Predict: func(p layout.Params, load float64) layout.Overflow {
			return layout.Overflow{
				Match:  matchRate(p, float64(p.BucketSize)*load),
				Second: layout.AtLoad(secondLines[p.BucketSize], load),
				Away:   layout.AtLoad(awayItems[p.BucketSize], load),
				Own:    true,
			}
		},
		Bind: func(p layout.Params, lines uint64) layout.Table { return newTable(p, lines) },
	})
}

// loads keep the lookups of absent keys that read a second line below 9 in 100, for as long as the
// filter lives, and inserts away from the load at which one in millions finds no room. Beyond,
// both soon become more, since a guest takes more room than an item at home; most of all where
// fingerprints are short.
func loads(p layout.Params) layout.Loads {
	most := 95
	if p.FingerprintBits < 13 {
		most = 94
	}
	return layout.Loads{Least: 70, Usual: most, Most: most}
}

func params() (all []layout.Params) {
	for r := 4; r <= 16; r++ {
		all = append(all, layout.Params{FingerprintBits: quotientBits + r, BucketSize: slotsOf(r)})
	}
	return all
}

// matchRate returns the probability that one of n stored fingerprints equals that of an
// absent key.
func matchRate(p layout.Params, n float64) float64 {
	return -math.Expm1(n * math.Log1p(-math.Exp2(-float64(p.FingerprintBits))))
}

// A table is a layout.Table. Remainders are compared in lanes of r bits, as many as fit a
// word. The kernels know the offsets of the first fields.
type table struct {
	lines      uint64
	f, r, b    uint64
	_          uint64      // of the kernels
	counts     uint64      // bits for the counts; the first remainder is after them
	countWords int         // words that they are in
	inCounts   layout.Line // their bits in these
	values     uint64      // 2^r - 1, every bit of a remainder
	lanes      uint64
	ones       uint64 // the lowest bit of each lane
	highs      uint64 // the highest bit of each lane
	shift      uint64 // 64 - f

	offsets [directions]uint64 // lines from home to the other line
}

func newTable(p layout.Params, lines uint64) *table {
	t := &table{lines: lines, f: uint64(p.FingerprintBits), b: uint64(p.BucketSize)}
	t.r = t.f - quotientBits
	t.shift = 64 - t.f
	t.counts = t.b + quotients + 1
	t.countWords = int(t.counts+63) / 64
	for i := range t.countWords {
		t.inCounts[i] = ^uint64(0)
	}
	t.inCounts[t.countWords-1] >>= 64*uint64(t.countWords) - t.counts
	t.values = 1<<t.r - 1
	t.lanes = 64 / t.r
	for i := range t.lanes {
		t.ones |= 1 << (i * t.r)
	}
	t.highs = t.ones << (t.r - 1)
	for i, near, next := 0, uint64(1), uint64(2); i < directions; i, near, next = i+1, next, near+next {
		if lines > 1 {
			t.offsets[i] = 1 + (near-1)%(lines-1)
		}
	}
	return t
}

func (t *table) Kind() layout.Kind { return layout.Compact }
func (t *table) Params() layout.Params {
	return layout.Params{FingerprintBits: int(t.f), BucketSize: int(t.b)}
}
func (t *table) Lines() uint64 { return t.lines }

// The bounds of a search for a path of moves. As in Blocked, searchLines serves the last inserts
// before a table is full. Every item of a line may leave it, so in tables of any size such a search
// goes at most searchDepth moves deep. pathMoves is twice that: it ends no search, and bounds the
// words of an operation.
const (
	searchLines = 64
	searchDepth = 4
	pathMoves   = 2 * searchDepth
)

// bounds: a change in the middle of a line moves everything behind it. To choose which item leaves
// makes an insert into a nearly full table slower; in return, fewer lookups read a second line.
func bounds(layout.Params) layout.Bounds {
	return layout.Bounds{SearchLines: searchLines, PathMoves: pathMoves, ChooseFirst: true, PlaceStores: layout.BlockWords, RemoveStores: layout.BlockWords, OverflowStores: 1}
}

func (t *table) Split(h uint64) layout.Item {
	line, rest := layout.SplitHash(h, t.lines)
	return layout.Item{Line: line, Fp: uint32(rest >> t.shift)}
}

// Hash sets the bit below the fingerprint for a guest and clears it for an item at home, which is
// how Unhash tells them apart. In the hash of a key, that bit says nothing, and Split ignores it.
func (t *table) Hash(it layout.Item) uint64 {
	return layout.JoinHash(it.Line, uint64(it.Fp)<<t.shift|uint64(it.Bucket)<<(t.shift-1), t.lines)
}

// Unhash implements layout.Hosts.
func (t *table) Unhash(h uint64) layout.Item {
	line, rest := layout.SplitHash(h, t.lines)
	return layout.Item{Line: line, Bucket: uint32(rest>>(t.shift-1)) & 1, Fp: uint32(rest >> t.shift)}
}

// The buckets of an item as Item.Bucket has them.
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
	return (it.Bucket == atHome || it.Bucket == aGuest && t.lines > 1) && uint64(it.Fp)>>t.f == 0
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
