package paper

import (
	"fmt"
	"math"
	"slices"

	"github.com/mmapfilter/mmapfilter/layout"
)

// A table is a layout.Table of Packed or SemiSorted.
type table struct {
	kind   layout.Kind
	lines  uint64
	values uint64 // 2^f - 1 fingerprints
	size   uint64 // bits of a bucket
	f, b   int

	// A packed bucket is compared in lanes of f bits; a word takes lanes of them, a power of two.
	// ones has the lowest bit of each lane, highs the highest bit, and inLane all bits.
	lanes               int
	ones, highs, inLane uint64
}

// register makes a layout known. words is the largest number of words that a change touches:
// the words of a slot or, semi-sorted, of a bucket.
func register(k layout.Kind, name string, params []layout.Params, lineBits func(layout.Params) int, words int) {
	layout.Register(k, &layout.Spec{
		Name:         name,
		Params:       params,
		ItemBits:     func(p layout.Params) int { return p.FingerprintBits },
		SlotsPerLine: func(p layout.Params) int { return p.BucketSize },
		LineBits:     lineBits,
		Loads:        pairLoads,
		Bounds: func(p layout.Params) layout.Bounds {
			return layout.Bounds{SearchLines: mostKicks, PathMoves: pathMoves[p.BucketSize], PlaceStores: words, RemoveStores: words}
		},
		Predict: func(p layout.Params, load float64) layout.Absent {
			return pairPredict(p, float64(p.BucketSize)*load)
		},
		Crowded: pairCrowded,
		Bind: func(p layout.Params, lines uint64) layout.Table {
			return newTable(k, p, lines, uint64(lineBits(p)))
		},
	})
}

func newTable(k layout.Kind, p layout.Params, lines, size uint64) *table {
	t := &table{kind: k, lines: lines, size: size, f: p.FingerprintBits, b: p.BucketSize}
	t.values = 1<<t.f - 1
	for t.lanes = t.b; t.lanes*t.f > 64; t.lanes /= 2 {
	}
	for i := range t.lanes {
		t.ones |= 1 << (i * t.f)
	}
	t.highs = t.ones << (t.f - 1)
	t.inLane = t.ones * t.values
	return t
}

func (t *table) Kind() layout.Kind     { return t.kind }
func (t *table) Params() layout.Params { return layout.Params{FingerprintBits: t.f, BucketSize: t.b} }
func (t *table) Lines() uint64         { return t.lines }

// pairLoads returns the loads of the paper (section 5.1) for each b, or a little less: see
// pathMoves. They hold if fingerprints are long enough for the number of buckets (section 4.2).
func pairLoads(p layout.Params) layout.Loads {
	most := map[int]int{1: 48, 2: 84, 4: 95, 8: 98}[p.BucketSize]
	return layout.Loads{Least: most * 7 / 10, Usual: most, Most: most}
}

// pairPredict predicts the lookups of absent keys. Any item of the class of a key is a
// match, wherever it is. Of N items in n buckets, N·2/n on average have one of the two
// buckets of the key as home, and 1 in 2^f - 1 of these has its fingerprint.
func pairPredict(p layout.Params, items float64) layout.Absent {
	return layout.Absent{Rate: -math.Expm1(2 * items * math.Log1p(-1/float64(p.Fingerprints()))), Second: 1}
}

// tailTerms is how many terms of the tail of a Poisson distribution are enough. The mean is at most
// about 1 (for 2·8 places and 15 fingerprints). So each term is less than a tenth of the term before,
// and later terms change no digit of the sum.
const tailTerms = 30

// pairCrowded is Spec.Crowded: if there are few fingerprints for the number of buckets, some
// classes have more items than their 2·b places (paper, section 4.2). N items are in
// N·values/(2·b·load) classes, whose sizes follow a Poisson distribution. Classes that
// overlap need about as many entries again.
func pairCrowded(p layout.Params, lines, load float64) float64 {
	values := float64(p.Fingerprints())
	classes, mean := lines*values/2, 2*float64(p.BucketSize)*load/values
	term, tail := math.Exp(-mean), 0.0
	for k := 1; k < 2*p.BucketSize+tailTerms; k++ {
		if term *= mean / float64(k); k > 2*p.BucketSize {
			tail += term
		}
	}
	return 2 * classes * tail
}

// mostKicks is how many items an insert of the paper moves before it gives up. Here it is how many
// lines a search expands.
const mostKicks = 500

// pathMoves limits the moves of a path, for each b. If a bucket has one slot, a search is two
// paths that never branch, and each path may take half of the lines of the search. If a bucket has
// 2, 4 or 8 slots, a search branches, and in a nearly full table it goes about 22, 10 or 6 moves
// deep. The limit is about twice as many moves. So it never ends a search, but limits the words that
// an operation may change.
var pathMoves = map[int]int{1: mostKicks / 2, 2: 2*22 - 4, 4: 2*10 - 4, 8: 2 * 6}

func (t *table) Split(h uint64) layout.Item {
	line, rest := layout.SplitHash(h, t.lines)
	return layout.Item{Line: line, Fp: uint32(layout.Fingerprint(rest, t.values))}
}

func (t *table) Hash(it layout.Item) uint64 {
	return layout.JoinHash(it.Line, layout.LowestFraction(uint64(it.Fp), t.values), t.lines)
}

func (t *table) Alternate(it layout.Item) layout.Item {
	it.Line = layout.AlternateLine(it.Line, uint64(it.Fp), t.lines)
	return it
}

func (t *table) Legal(it layout.Item) bool {
	return it.Bucket == 0 && it.Fp >= 1 && uint64(it.Fp) <= t.values
}

func (t *table) Class(it layout.Item) layout.Class {
	return layout.Class{Line: min(it.Line, layout.AlternateLine(it.Line, uint64(it.Fp), t.lines)), Bucket: it.Bucket, Fp: it.Fp}
}

// place returns the first word of a bucket, its first bit there, and how many words it is
// in. The words may be in two blocks: then a writer leaves the counter of one block odd until
// it has stored to the other.
func (t *table) place(line uint64) (first, bit uint64, words int) {
	at := line * t.size
	first, bit = at/64, at%64
	return first, bit, int((bit + t.size + 63) / 64)
}

func (t *table) Words(line uint64) (first uint64, n int) {
	first, _, n = t.place(line)
	return first, n
}

// read returns the slots of a bucket that starts at a bit of words.
func (t *table) read(words []uint64, bit uint64) (s bucket) {
	if t.kind == layout.SemiSorted {
		return decodeSorted(words, bit, t.rest())
	}
	for i := range t.b {
		s[i] = uint32(bitsAt(words, bit+uint64(i*t.f), uint64(t.f)))
	}
	return s
}

// rest returns the number of bits of the tail of a fingerprint in a semi-sorted bucket.
func (t *table) rest() uint64 { return uint64(t.f - nibbleBits) }

func (t *table) slots(l *layout.Line, line uint64) bucket { return t.read(l[:], line*t.size%64) }

// change sets the slots of a line to s and lists the words that it changed. adds says
// whether one more item in s is the only change.
//
// A packed slot that is in two words gets an item in two stores. A lookup between the two
// stores reads only part of the item. This is harmless: either the item is not acknowledged
// yet, or it is still at its source too. The other slots do not change. So an addition is not
// guarded. The slots of a semi-sorted bucket cannot be read one by one: an old word and a new
// word together may show fingerprints that neither the old nor the new bucket has. So every
// change of a bucket in several words is guarded, even a change of a single word: a lookup may
// read one word before this change, and another word after a later change.
func (t *table) change(l *layout.Line, line uint64, s *bucket, adds bool, stores *layout.Stores) {
	_, bit, n := t.place(line)
	before := *l
	if t.kind == layout.SemiSorted {
		encodeSorted(l[:], bit, t.rest(), s)
	} else {
		for i := range t.b {
			layout.PutBits(l[:], bit+uint64(i*t.f), uint64(t.f), uint64(s[i]))
		}
	}
	guarded := !adds || t.kind == layout.SemiSorted && n > 1
	for i := range n {
		if l[i] != before[i] {
			stores.Add(uint64(i), guarded)
		}
	}
}

// items returns the number of slots in use.
func (s *bucket) items() (n uint64) {
	for _, fp := range s {
		if fp != 0 {
			n++
		}
	}
	return n
}

func (t *table) Place(l *layout.Line, it layout.Item, stores *layout.Stores) bool {
	return t.swap(l, it.Line, 0, it.Fp, stores)
}

func (t *table) Remove(l *layout.Line, it layout.Item, stores *layout.Stores) bool {
	return t.swap(l, it.Line, it.Fp, 0, stores)
}

// swap puts fp into the first slot that has old, and reports whether there is one.
func (t *table) swap(l *layout.Line, line uint64, old, fp uint32, stores *layout.Stores) bool {
	s := t.slots(l, line)
	i := slices.Index(s[:t.b], old)
	if i < 0 {
		return false
	}
	s[i] = fp
	t.change(l, line, &s, old == 0, stores)
	return true
}

func (t *table) Victims(dst []layout.Item, l *layout.Line, it layout.Item) []layout.Item {
	return t.Items(dst[:0], l, it.Line)
}

func (t *table) Probe(l *layout.Line, line uint64) layout.Absent {
	s := t.slots(l, line)
	return pairPredict(t.Params(), float64(s.items()))
}

func (t *table) CheckLines(region []uint64, from, to uint64) (items, line uint64, err error) {
	for line = from; line < to; line++ {
		at := line * t.size
		s := t.read(region[at/64:], at%64)
		items += s.items()
		if t.kind == layout.SemiSorted {
			if err := checkSorted(region[at/64:], at%64, &s); err != nil {
				return items, line, err
			}
		}
	}
	if end := t.lines * t.size; to == t.lines && from < to {
		for i := end / 64; i < uint64(len(region)); i++ {
			w := region[i]
			if i == end/64 {
				w &^= 1<<(end%64) - 1
			}
			if w != 0 {
				return items, to - 1, fmt.Errorf("unused bits %#x after the last line are set", w)
			}
		}
	}
	return items, line, nil
}

func (t *table) Items(dst []layout.Item, l *layout.Line, line uint64) []layout.Item {
	s := t.slots(l, line)
	for _, fp := range s[:t.b] {
		if fp != 0 {
			dst = append(dst, layout.Item{Line: line, Fp: fp})
		}
	}
	return dst
}

// has reports whether a bucket that starts at a bit of words has a fingerprint.
func (t *table) has(words []uint64, bit, fp uint64) bool {
	if t.kind == layout.SemiSorted {
		return hasSorted(words, bit, t.rest(), fp)
	}
	width := uint64(t.lanes * t.f)
	var found uint64
	for end := bit + t.size; bit < end; bit += width {
		x := bitsAt(words, bit, width) ^ fp*t.ones
		found |= (x - t.ones) &^ x & t.highs
	}
	return found != 0
}

// look reports whether the words of a bucket have a fingerprint. A bucket of at most 64
// bits is read as one number, without a branch on whether it lies in one word or two,
// which would often mispredict.
func (t *table) look(words []uint64, line, fp uint64) bool {
	_, bit, n := t.place(line)
	if t.size <= 64 {
		x := firstBits(words, bit)
		if t.kind == layout.SemiSorted {
			return wordHasSorted(x, t.rest(), fp)
		}
		x ^= fp * t.ones
		return (x-t.ones)&^x&t.highs != 0 // bits above the bucket do not matter: a borrow only goes up
	}
	w := load(words, n)
	return t.has(w[:], bit, fp)
}

func (t *table) LookAt(at func(word uint64) uint64, it layout.Item) (found, beyond bool) {
	first, bit, n := t.place(it.Line)
	var w [maxPairWords]uint64
	for i := range n {
		w[i] = at(layout.WordRegion + first + uint64(i))
	}
	return t.has(w[:], bit, uint64(it.Fp)), true
}

// Look is LookAt for a line in memory.
func (t *table) Look(words []uint64, it layout.Item) (found, beyond bool) {
	return t.look(words, it.Line, uint64(it.Fp)), true
}

func (t *table) FirstLook(*layout.View, uint64) (found, open bool) { return false, true }
