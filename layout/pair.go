package layout

import (
	"fmt"
	"math"
	"slices"
	"sync/atomic"
)

// What the two layouts of the paper have in common: a line is one bucket of b
// slots, and buckets follow one another in the region without a gap, wherever
// words and cache lines begin. Bucket i is the bits i·size to (i+1)·size-1 of the
// region; bit j of the region is bit j mod 64 of word j/64. An item may be in any
// slot of its two buckets, and nothing tells which of them has room or had none:
// every lookup reads both, and then the stash.
//
// The stash is read whether anything is in it or not. A flag that says "empty"
// would have to be in every file, and be stored before the first entry and after
// the last one; a group of the stash is one line of 12 KiB that all lookups share.
type pair struct {
	kind   Kind
	lines  uint64
	values uint64 // 2^f - 1 fingerprints
	size   uint64 // bits a bucket
	f, b   int

	// A packed bucket is compared in lanes of f bits, as many in a word as are a
	// power of two. The masks are those of blocked.
	lanes               int
	ones, highs, inLane uint64
}

const maxBucket = 8

// A bucket is the fingerprints in the slots of a bucket; 0 is an empty slot.
type bucket [maxBucket]uint32

// maxPairWords is how many words a bucket is in at most: one of 8 slots of 32
// bits that does not begin with a word.
const maxPairWords = 5

func newPair(k Kind, p Params, lines, size uint64) *pair {
	t := &pair{kind: k, lines: lines, size: size, f: p.FingerprintBits, b: p.BucketSize}
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

func (t *pair) Kind() Kind        { return t.kind }
func (t *pair) Params() Params    { return Params{t.f, t.b} }
func (t *pair) Lines() uint64     { return t.lines }
func (t *pair) SlotsPerLine() int { return t.b }
func (t *pair) Both() bool        { return true }

// pairLoads are the loads of the paper (section 5.1) for each b, or a little less:
// see Bounds. They hold for fingerprints long enough to tell buckets apart.
func pairLoads(p Params) Loads {
	most := map[int]int{1: 48, 2: 84, 4: 95, 8: 98}[p.BucketSize]
	return Loads{Least: most * 7 / 10, Usual: most, Most: most}
}

// pairPredict tells what the lookup of an absent key meets. Any item of its class
// gives it a match, wherever that is: of N items in n buckets, N·2/n on average
// have one of its buckets as home, and of these 1 in 2^f - 1 its fingerprint.
// Match is half of that, since the rate counts both buckets.
func pairPredict(p Params, items float64) Overflow {
	values := math.Exp2(float64(p.FingerprintBits)) - 1
	return Overflow{Match: -math.Expm1(2*items*math.Log1p(-1/values)) / 2, Second: 1}
}

// pairCrowded: fingerprints that are few for the number of buckets make classes
// of more items than the 2·b places of a class (paper, section 4.2). With N items
// there are N·values/(2·b·load) classes, and the items of each are distributed as
// Poisson says. Where the load is low for it, classes that overlap need about as
// many entries more.
func pairCrowded(p Params, lines, load float64) float64 {
	values := math.Exp2(float64(p.FingerprintBits)) - 1
	classes, mean := lines*values/2, 2*float64(p.BucketSize)*load/values
	term, tail := math.Exp(-mean), 0.0
	for k := 1; k < 2*p.BucketSize+30; k++ {
		if term *= mean / float64(k); k > 2*p.BucketSize {
			tail += term
		}
	}
	return 2 * classes * tail
}

// Bounds. A search expands 500 buckets, as many as the paper's kicks. With b slots
// it has reached them in log_b(500) moves or a few more, where most of them are
// buckets it has not seen; with one, it is two paths without a branch, and as
// long as it may be. A change is of one slot or, semi-sorted, of a whole bucket.
func (t *pair) Bounds() Bounds {
	words := 2 // of a slot
	if t.kind == SemiSorted {
		words = 3
	}
	moves := map[int]int{1: 250, 2: 40, 4: 16, 8: 12}[t.b]
	return Bounds{SearchLines: 500, PathMoves: moves, PlaceStores: words, RemoveStores: words}
}

func (t *pair) Split(h uint64) Item {
	line, rest := SplitHash(h, t.lines)
	return Item{Line: line, Fp: uint32(fingerprint(rest, t.values))}
}

func (t *pair) Hash(it Item) uint64 {
	return joinHash(it.Line, lowestFraction(uint64(it.Fp), t.values), t.lines)
}

func (t *pair) Alternate(it Item) Item {
	it.Line = alternate(it.Line, uint64(it.Fp), t.lines)
	return it
}

func (t *pair) Legal(it Item) bool {
	return it.Bucket == 0 && it.Fp >= 1 && uint64(it.Fp) <= t.values
}

func (t *pair) Class(it Item) Class {
	return Class{Line: min(it.Line, alternate(it.Line, uint64(it.Fp), t.lines)), Bucket: it.Bucket, Fp: it.Fp}
}

// place gives the first word of a bucket, its first bit in there, and how many
// words it is in.
func (t *pair) place(line uint64) (first, bit uint64, words int) {
	at := line * t.size
	first, bit = at/64, at%64
	return first, bit, int((bit + t.size + 63) / 64)
}

func (t *pair) Words(line uint64) (first uint64, n int) {
	first, _, n = t.place(line)
	return first, n
}

func (t *pair) Load(region []uint64, line uint64, l *Line) {
	first, _, n := t.place(line)
	copy(l[:], region[first:first+uint64(n)])
}

func (t *pair) Store(region []uint64, line uint64, l *Line) {
	first, _, n := t.place(line)
	copy(region[first:], l[:n])
}

// bitsAt gives n bits, 1 to 64, of words from a bit on.
func bitsAt(words []uint64, bit, n uint64) uint64 {
	i, low := bit/64, bit%64
	v := words[i] >> low
	if low+n > 64 {
		v |= words[i+1] << (64 - low)
	}
	return v & (1<<(n-1)<<1 - 1)
}

// regionBits gives 64 bits of a region from a bit on. After the last bit comes anything.
func regionBits(region []uint64, bit uint64) uint64 {
	i, low := bit/64, bit%64
	next := min(i+1, uint64(len(region)-1))
	return atomic.LoadUint64(&region[i])>>low | atomic.LoadUint64(&region[next])<<1<<(63-low)
}

// putBits makes n bits, 1 to 64, of words from a bit on those of v.
func putBits(words []uint64, bit, n, v uint64) {
	i, low := bit/64, bit%64
	mask := uint64(1)<<(n-1)<<1 - 1
	words[i] = words[i]&^(mask<<low) | v<<low
	if low+n > 64 {
		words[i+1] = words[i+1]&^(mask>>(64-low)) | v>>(64-low)
	}
}

// read gives the slots of a bucket that begins at a bit of words.
func (t *pair) read(words []uint64, bit uint64) (s bucket) {
	if t.kind == SemiSorted {
		return t.decode(words, bit)
	}
	for i := range t.b {
		s[i] = uint32(bitsAt(words, bit+uint64(i*t.f), uint64(t.f)))
	}
	return s
}

func (t *pair) slots(l *Line, line uint64) bucket { return t.read(l[:], line*t.size%64) }

// change makes the slots of a line those of s, and lists the words that it
// changed. adds says that s only has one more item.
//
// A packed slot that is in two words gets an item in two stores. Until the second
// one, a lookup reads part of it there: an item that is not acknowledged yet, or
// that is still at its source. The other slots are what they were, so what only
// adds is not guarded. The slots of a semi-sorted bucket cannot be read apart: one
// word of before and one of afterwards may give fingerprints that are in neither,
// and so every change of one that is in several words is guarded, that of a single
// word too, since a lookup may come between two such changes of different words.
func (t *pair) change(l *Line, line uint64, s *bucket, adds bool, stores *Stores) {
	_, bit, n := t.place(line)
	before := *l
	if t.kind == SemiSorted {
		t.encode(l[:], bit, s)
	} else {
		for i := range t.b {
			putBits(l[:], bit+uint64(i*t.f), uint64(t.f), uint64(s[i]))
		}
	}
	guarded := !adds || t.kind == SemiSorted && n > 1
	for i := range n {
		if l[i] != before[i] {
			stores.add(uint64(i), guarded)
		}
	}
}

func (t *pair) Free(l *Line, line uint64) (n uint64) {
	s := t.slots(l, line)
	for _, fp := range s[:t.b] {
		if fp == 0 {
			n++
		}
	}
	return n
}

func (t *pair) Full(region []uint64, line uint64) bool {
	var l Line
	first, _, n := t.place(line)
	for i := range n {
		l[i] = atomic.LoadUint64(&region[first+uint64(i)])
	}
	return t.Free(&l, line) == 0
}

func (t *pair) FullLines(region, lines []uint64) uint64 { return fullLines(t, region, lines) }

func (t *pair) Place(l *Line, it Item, stores *Stores) bool {
	return t.swap(l, it.Line, 0, it.Fp, stores)
}

func (t *pair) Fill(l *Line, hashes, beyond []uint64) []uint64 {
	return fillByPlace(t, l, hashes, beyond)
}

func (t *pair) Remove(l *Line, it Item, stores *Stores) bool {
	return t.swap(l, it.Line, it.Fp, 0, stores)
}

// swap puts one fingerprint into the first slot that has another, and reports
// whether one has.
func (t *pair) swap(l *Line, line uint64, old, fp uint32, stores *Stores) bool {
	s := t.slots(l, line)
	i := slices.Index(s[:t.b], old)
	if i < 0 {
		return false
	}
	s[i] = fp
	t.change(l, line, &s, old == 0, stores)
	return true
}

func (t *pair) Copies(l *Line, it Item) (n int) {
	s := t.slots(l, it.Line)
	for _, fp := range s[:t.b] {
		if fp == it.Fp {
			n++
		}
	}
	return n
}

func (t *pair) Victims(dst []Item, l *Line, it Item, _ bool) (victims []Item, more bool) {
	dst = dst[:0]
	s := t.slots(l, it.Line)
	for _, fp := range s[:t.b] {
		if fp != 0 {
			dst = append(dst, Item{Line: it.Line, Fp: fp})
		}
	}
	return dst, false
}

func (t *pair) SetOverflow(*Line, Item, *Stores) {}
func (t *pair) NewMarks(*Line, Item) int         { return 0 }
func (t *pair) Overflowed(l *Line, it Item) bool { return true }

func (t *pair) Probe(l *Line, line uint64) Overflow {
	items := 0
	s := t.slots(l, line)
	for _, fp := range s[:t.b] {
		if fp != 0 {
			items++
		}
	}
	return pairPredict(t.Params(), float64(items))
}

func (t *pair) CheckLines(region []uint64, from, to uint64) (items, line uint64, err error) {
	for line = from; line < to; line++ {
		at := line * t.size
		s := t.read(region[at/64:], at%64)
		for _, fp := range s[:t.b] {
			if fp != 0 {
				items++
			}
		}
		if t.kind == SemiSorted {
			if err := t.checkOrder(region[at/64:], at%64, &s); err != nil {
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

// has reports whether a bucket that begins at a bit of words has a fingerprint.
func (t *pair) has(words []uint64, bit, fp uint64) bool {
	if t.kind == SemiSorted {
		return t.hasSorted(words, bit, fp)
	}
	width := uint64(t.lanes * t.f)
	var found uint64
	for end := bit + t.size; bit < end; bit += width {
		x := bitsAt(words, bit, width) ^ fp*t.ones
		found |= (x - t.ones) &^ x & t.highs
	}
	return found != 0
}

// look reports whether a bucket of the region has a fingerprint. A bucket of at most 64
// bits is read as one number, without a branch on whether it lies in one word or two:
// that would mispredict and take half of the time.
func (t *pair) look(region []uint64, line, fp uint64) bool {
	if t.size <= 64 {
		x := regionBits(region, line*t.size)
		if t.kind == SemiSorted {
			return t.isSorted(x, fp)
		}
		x ^= fp * t.ones
		return (x-t.ones)&^x&t.highs != 0 // what is above the bucket borrows from nothing in it
	}
	first, bit, n := t.place(line)
	var w [maxPairWords]uint64
	words := region[first : first+uint64(n)]
	for i := range words {
		w[i%maxPairWords] = atomic.LoadUint64(&words[i])
	}
	return t.has(w[:], bit, fp)
}

// Blocks: a bucket may be in two blocks, and a writer leaves the counter of the one odd
// until it has stored to the other.
func (t *pair) Blocks(line uint64) (first, last uint64) {
	return line * t.size / (64 * BlockWords), ((line+1)*t.size - 1) / (64 * BlockWords)
}

func (t *pair) LookAt(at func(word uint64) uint64, it Item) (found, beyond bool) {
	first, bit, n := t.place(it.Line)
	var w [maxPairWords]uint64
	for i := range n {
		w[i] = at(WordRegion + first + uint64(i))
	}
	return t.has(w[:], bit, uint64(it.Fp)), true
}

// Look is LookAt for a line in memory.
func (t *pair) Look(region []uint64, it Item) (found, beyond bool) {
	return t.look(region, it.Line, uint64(it.Fp)), true
}

func (t *pair) FirstLook(v *View, h uint64) (found, open bool) { return firstLook(t, v, h) }

func (t *pair) FirstLooks(*View, []uint64, []bool, []uint8) (done int) { return 0 }

func (t *pair) Kernel() string { return pureGo.String() }
