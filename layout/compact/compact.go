package compact

import (
	"cmp"
	"math"
	"math/bits"
	"slices"

	"github.com/mmapfilter/mmapfilter/layout"
)

func init() {
	layout.Register(layout.Compact, &layout.Spec{
		Name:         "compact",
		Params:       params(),
		ItemBits:     func(p layout.Params) int { return bits.Len64(p.Fingerprints()-1) + 1 }, // one more than it needs (F6)
		SlotsPerLine: slotsOf,
		LineBits:     func(layout.Params) int { return lineBits },
		Loads:        loads,
		Bounds:       bounds,
		Predict: func(p layout.Params, load float64) layout.Absent {
			return layout.Absent{Rate: matchRate(p, float64(slotsOf(p))*load), Second: secondLines(p, load)}
		},
		Bind: func(p layout.Params, lines uint64) layout.Table { return newTable(p, lines) },
	})
}

// loads returns loads at which, as long as the filter is in use, fewer than 9 in 100 lookups of
// absent keys read a second line, and hardly one insert in millions finds no room. At higher
// loads both numbers soon grow, most of all where remainders are short, since a guest takes more
// room than an item at home. At lower loads, other parameters use the space better.
func loads(p layout.Params) layout.Loads {
	const shortest, least, most = 93, 94, 95
	switch {
	case p.RemainderBits == leastRemainder: // at higher loads, Build leaves many guests
		return layout.Loads{Least: shortest, Usual: shortest, Most: shortest}
	case secondLines(p, most/100.) > 0.09:
		return layout.Loads{Least: least, Usual: least, Most: least}
	}
	return layout.Loads{Least: least, Usual: most, Most: most}
}

// params lists the parameters by rising number of fingerprints.
func params() (all []layout.Params) {
	for r := leastRemainder; r <= mostRemainder; r++ {
		for q := leastQuotients; q <= mostQuotients; q++ {
			if p := (layout.Params{Quotients: q, RemainderBits: r}); p.Fingerprints() <= mostFingerprints {
				all = append(all, p)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b layout.Params) int { return cmp.Compare(a.Fingerprints(), b.Fingerprints()) })
	return all
}

// matchRate returns the probability that one of n stored fingerprints equals the
// fingerprint of an absent key.
func matchRate(p layout.Params, n float64) float64 {
	return -math.Expm1(n * math.Log1p(-1/float64(p.Fingerprints())))
}

// The bounds of a search for a path of moves. searchLines is enough for the last inserts before a
// table is full. Every item of a line may leave it, so in tables of any size a search of
// searchLines lines goes at most searchDepth moves deep. pathMoves is twice searchDepth: it never
// ends a search, but bounds the words that an operation changes.
const (
	searchLines = 64
	searchDepth = 4
	pathMoves   = 2 * searchDepth
)

// bounds allows a change to store to all words of a line, since a change in the middle of a line moves
// everything after it. A search chooses which items leave. This makes an insert into a nearly full
// table slower, but fewer lookups read a second line.
func bounds(layout.Params) layout.Bounds {
	return layout.Bounds{SearchLines: searchLines, PathMoves: pathMoves, PlaceStores: layout.BlockWords, RemoveStores: layout.BlockWords, OverflowStores: 1}
}

func newTable(p layout.Params, lines uint64) *table {
	t := &table{lines: lines, quotients: uint64(p.Quotients), r: uint64(p.RemainderBits), b: uint64(slotsOf(p)), fingerprints: p.Fingerprints()}
	t.guest = uint64(quotientBits(p.Quotients)) + t.r
	t.shift = 64 - t.r
	t.counts = t.b + t.quotients + 1
	t.countWords = int(t.counts+63) / 64
	for i := range t.countWords {
		t.inCounts[i] = ^uint64(0)
	}
	t.inCounts[t.countWords-1] >>= 64*uint64(t.countWords) - t.counts
	t.inSecond = t.inCounts[1] >> 1
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
	t.bySlots()
	return t
}
