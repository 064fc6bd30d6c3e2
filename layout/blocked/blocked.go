package blocked

import (
	"fmt"
	"math"
	"math/bits"

	"github.com/mmapfilter/mmapfilter/layout"
)

const (
	buckets     = 8
	bucketBits  = 3
	overflowLow = 60 // the first overflow bit
	slotBits    = 60 // bits of a word for slots
)

func init() {
	layout.Register(layout.Blocked, &layout.Spec{
		Name: "blocked",
		Params: []layout.Params{
			{FingerprintBits: 8, BucketSize: 7}, {FingerprintBits: 10, BucketSize: 6}, {FingerprintBits: 12, BucketSize: 5},
			{FingerprintBits: 15, BucketSize: 4}, {FingerprintBits: 20, BucketSize: 3}, {FingerprintBits: 30, BucketSize: 2},
		},
		ItemBits:     func(p layout.Params) int { return bucketBits + p.FingerprintBits },
		SlotsPerLine: func(p layout.Params) int { return buckets * p.BucketSize },
		LineBits:     func(layout.Params) int { return 8 * layout.LineBytes },
		Loads:        func(layout.Params) layout.Loads { return layout.Loads{Least: 70, Usual: 95, Most: 98} },
		Bounds:       bounds,
		Predict: func(p layout.Params, load float64) layout.Overflow {
			return layout.Overflow{
				Match:  matchRate(p, 2*float64(p.BucketSize)*load),
				Second: layout.AtLoad(secondLines[p.BucketSize], load),
				Away:   layout.AtLoad(awayItems[p.BucketSize], load),
			}
		},
		Figures: func(p layout.Params) layout.Figures {
			return layout.Figures{Second: secondLines[p.BucketSize], Away: awayItems[p.BucketSize], Bits: buckets * (64 - overflowLow)}
		},
		Bind: func(p layout.Params, lines uint64) layout.Table { return newTable(p, lines) },
	})
}

// matchRate returns the probability that one of n stored fingerprints equals that of an
// absent key.
func matchRate(p layout.Params, n float64) float64 {
	values := math.Exp2(float64(p.FingerprintBits)) - 1
	return -math.Expm1(n * math.Log1p(-1/values))
}

// A table is a layout.Table. Its masks are for the lanes of a word: lane i is bits
// i·f to i·f+f-1, the place of slot i.
type table struct {
	constants
	ones  uint64 // the lowest bit of each lane
	highs uint64 // the highest bit of each lane
	lanes uint64 // every bit of each lane
	f, b  int
}

// constants are what the kernels for single keys take from a table, at offsets they know.
// What applies to a word is there twice, for the two words of a lookup. None straddles
// two cache lines.
type constants struct {
	lines         uint64
	values        uint64 // 2^f - 1 fingerprints
	ones2, lanes2 [2]uint64
	overflow      [4]uint64 // the overflow bits
	highs2        [2]uint64
}

func newTable(p layout.Params, lines uint64) *table {
	t := &table{f: p.FingerprintBits, b: p.BucketSize}
	t.lines = lines
	t.values = 1<<t.f - 1
	for i := range t.b {
		t.ones |= 1 << (i * t.f)
	}
	t.highs = t.ones << (t.f - 1)
	t.lanes = t.ones * t.values
	for i := range t.overflow {
		t.overflow[i] = 1 << (overflowLow + i)
	}
	for i := range t.ones2 {
		t.ones2[i], t.highs2[i], t.lanes2[i] = t.ones, t.highs, t.lanes
	}
	return t
}

func (t *table) Kind() layout.Kind     { return layout.Blocked }
func (t *table) Params() layout.Params { return layout.Params{FingerprintBits: t.f, BucketSize: t.b} }
func (t *table) Lines() uint64         { return t.lines }

func (t *table) Split(h uint64) layout.Item {
	line, rest := layout.SplitHash(h, t.lines)
	fp := layout.Fingerprint(rest<<bucketBits, t.values)
	return layout.Item{Line: line, Bucket: uint32(rest >> (64 - bucketBits)), Fp: uint32(fp)}
}

func (t *table) Hash(it layout.Item) uint64 {
	low := (layout.LowestFraction(uint64(it.Fp), t.values) + buckets - 1) >> bucketBits
	return layout.JoinHash(it.Line, uint64(it.Bucket)<<(64-bucketBits)+low, t.lines)
}

// bucketStep returns d(fp), given m.
func bucketStep(m uint64) uint64 { return 1 + (m>>32&0xFFFF)*7>>16 }

// overflowNumber returns the position of overflow bit o(fp, bucket) in its word, given m.
func overflowNumber(m, bucket uint64) uint64 { return overflowLow + m>>(48+2*bucket)&3 }

// overflowBit returns its mask.
func overflowBit(m, bucket uint64) uint64 { return 1 << overflowNumber(m, bucket) }

func (t *table) pair(it layout.Item) (m, b1, b2 uint64) {
	m = uint64(it.Fp) * layout.MixFirst
	b1 = uint64(it.Bucket)
	return m, b1, b1 ^ bucketStep(m)
}

func (t *table) Legal(it layout.Item) bool {
	return it.Bucket < buckets && it.Fp >= 1 && uint64(it.Fp) <= t.values
}

func (t *table) Alternate(it layout.Item) layout.Item {
	it.Line = layout.AlternateLine(it.Line, uint64(it.Fp), t.lines)
	return it
}

func (t *table) Class(it layout.Item) layout.Class {
	_, b1, b2 := t.pair(it)
	return layout.Class{
		Line:   min(it.Line, layout.AlternateLine(it.Line, uint64(it.Fp), t.lines)),
		Bucket: uint32(min(b1, b2)),
		Fp:     it.Fp,
	}
}

// The bounds of a search for a path of moves. Long searches serve only the last inserts before a
// table is full: to expand more than 64 lines would find room for few more items, and make an insert
// that fails slower in proportion.
//
// Any item of a line may leave it, and a line has at least 16 slots. So 64 lines are two or three
// moves away, except in a tiny table, where many moves lead to the same line. pathMoves is more than
// twice that: it ends a search only in a tiny table, and bounds the words of an operation.
const (
	searchLines = 64
	searchDepth = 3
	pathMoves   = 2*searchDepth + 2
)

// bounds: a move inside a line may touch each of its buckets; SetOverflow sets a bit in two.
func bounds(layout.Params) layout.Bounds {
	return layout.Bounds{SearchLines: searchLines, PathMoves: pathMoves, PlaceStores: buckets, RemoveStores: 1, OverflowStores: 2}
}

func (t *table) Words(line uint64) (first uint64, n int) { return line * buckets, buckets }

// occupied returns the high bit of every lane of w that is not zero.
func (t *table) occupied(w uint64) uint64 {
	return inUseOf(w, t.lanes&^t.highs) & t.highs
}

// inUseOf returns the high bit of every lane of w that is not zero, plus other bits. low
// is every bit of the lanes but the high ones.
func inUseOf(w, low uint64) uint64 { return (w&low + low) | w }

// matches returns the high bit of the lowest lane of w that holds fp, or zero if none
// does. Higher bits may be wrong, since the subtraction borrows.
func (t *table) matches(w, fp uint64) uint64 {
	x := (w ^ fp*t.ones) & t.lanes
	return (x - t.ones) &^ x & t.highs
}

func (t *table) Free(words []uint64, _ uint64) uint64 {
	l, low, used := (*layout.Line)(words), t.lanes&^t.highs, 0
	for i := range uint64(buckets) {
		used += bits.OnesCount64(inUseOf(layout.LoadOf(l, i), low) & t.highs)
	}
	return uint64(buckets*t.b - used)
}

// room returns a bit for each bucket with a free slot.
func (t *table) room(l *layout.Line) (set uint8) {
	for i, w := range l {
		if t.occupied(w) != t.highs {
			set |= 1 << i
		}
	}
	return set
}

func (t *table) free(w uint64) int { return t.b - bits.OnesCount64(t.occupied(w)) }

// put stores fp in the first empty lane of *w, which has one.
func (t *table) put(w *uint64, fp uint64) {
	high := bits.TrailingZeros64(^t.occupied(*w) & t.highs)
	*w |= fp << (high - t.f + 1)
}

// take clears the lowest lane of *w that holds fp, and reports whether one did.
func (t *table) take(w *uint64, fp uint64) bool {
	found := t.matches(*w, fp)
	if found == 0 {
		return false
	}
	*w &^= t.values << (bits.TrailingZeros64(found) - t.f + 1)
	return true
}

func (t *table) Place(l *layout.Line, it layout.Item, stores *layout.Stores) bool {
	_, b1, b2 := t.pair(it)
	emptier, free1, free2 := b1, t.free(l[b1]), t.free(l[b2])
	if free2 > free1 { // a conditional move: a branch would mispredict
		emptier = b2
	}
	if max(free1, free2) > 0 {
		t.put(&l[emptier], uint64(it.Fp))
		stores.Add(emptier, false)
		return true
	}
	s := t.search(l, b1, b2)
	if s.end < 0 {
		return false
	}
	// Move along the path from its end: each move fills the slot that the previous one
	// left. The last bucket only gains; in the others one fingerprint replaces another.
	to := uint64(s.end)
	for s.from[to] >= 0 {
		from := uint64(s.from[to])
		fp := uint64(s.fp[to])
		t.put(&l[to], fp)
		t.take(&l[from], fp)
		stores.Add(to, to != uint64(s.end))
		to = from
	}
	t.put(&l[to], uint64(it.Fp))
	stores.Add(to, true)
	return true
}

// Fill does what Place does, in less time while one of the two buckets has room: nothing
// has left the line yet, so the items of a bucket are in its first slots. No branch
// depends on which bucket that is.
func (t *table) Fill(l *layout.Line, hashes, beyond []uint64) []uint64 {
	var used uint64 // byte i: the bits in use of bucket i
	full := uint64(t.b * t.f)
	for _, h := range hashes {
		_, rest := layout.SplitHash(h, t.lines)
		fp := layout.Fingerprint(rest<<bucketBits, t.values)
		b1 := rest >> (64 - bucketBits)
		b2 := b1 ^ bucketStep(fp*layout.MixFirst)
		used1, used2 := used>>(8*b1)&0xFF, used>>(8*b2)&0xFF
		second := uint64(int64(used2-used1) >> 63) // every bit, where it is emptier
		to, at := b1^(b1^b2)&second, used1^(used1^used2)&second
		if at < full {
			l[to%buckets] |= fp << at
			used += uint64(t.f) << (8 * to)
			continue
		}
		if !t.Place(l, t.Split(h), nil) {
			beyond = append(beyond, h)
			continue
		}
		used = 0
		for i, w := range l {
			used |= uint64((t.b-t.free(w))*t.f) << (8 * i)
		}
	}
	return beyond
}

// A lineSearch is the result of a breadth-first search over the buckets of a line: from
// which bucket each was reached, and by moving which fingerprint.
type lineSearch struct {
	from [buckets]int8 // -1 where the search began
	fp   [buckets]uint32
	end  int // the bucket with room that it ended at, or -1
}

// search looks for a bucket with room that moves inside the line can reach from b1 or b2,
// which are full.
func (t *table) search(l *layout.Line, b1, b2 uint64) (s lineSearch) {
	s.end = -1
	room := t.room(l)
	if room == 0 {
		return s
	}
	values, f := t.values, t.f&63
	queue := [buckets]uint64{b1, b2}
	reached := uint8(1<<b1 | 1<<b2)
	s.from[b1], s.from[b2] = -1, -1
	for head, tail := 0, 2; head < tail; head++ {
		from := queue[head] % buckets
		for w := l[from] & t.lanes; w != 0; w >>= f {
			fp := w & values
			to := (from ^ bucketStep(fp*layout.MixFirst)) % buckets
			if reached>>to&1 != 0 {
				continue
			}
			reached |= 1 << to
			s.from[to], s.fp[to] = int8(from), uint32(fp)
			if room>>to&1 != 0 {
				s.end = int(to)
				return s
			}
			queue[tail] = to
			tail++
		}
	}
	return s
}

// Victims: the cheapest are in the item's own two buckets, where a removal makes room in
// one word, without a move.
func (t *table) Victims(dst []layout.Item, l *layout.Line, it layout.Item, all bool) (victims []layout.Item, more bool) {
	dst = dst[:0]
	_, b1, b2 := t.pair(it)
	own, others := uint8(1<<b1|1<<b2), uint8(0)
	if all {
		others = t.reach(l, own) &^ own
	}
	for _, set := range [2]uint8{own, others} {
		for ; set != 0; set &= set - 1 {
			dst = t.itemsOf(dst, l, it.Line, uint32(bits.TrailingZeros8(set)))
		}
	}
	return dst, !all
}

// itemsOf appends the items of a bucket of a line with the image l.
func (t *table) itemsOf(dst []layout.Item, l *layout.Line, line uint64, bucket uint32) []layout.Item {
	values, f := t.values, t.f&63 // & 63 spares the shift a check
	for w := l[bucket%buckets] & t.lanes; w != 0; w >>= f {
		if fp := w & values; fp != 0 {
			dst = append(dst, layout.Item{Line: line, Bucket: bucket, Fp: uint32(fp)})
		}
	}
	return dst
}

// reach returns the buckets that moves inside the line can reach from some, all of which
// are full.
func (t *table) reach(l *layout.Line, some uint8) (reached uint8) {
	values, f := t.values, t.f&63
	reached = some
	for todo := some; todo != 0 && reached != 1<<buckets-1; {
		from := uint64(bits.TrailingZeros8(todo)) % buckets
		next := uint8(0)
		for w := l[from] & t.lanes; w != 0; w >>= f {
			fp := w & values
			next |= 1 << ((from ^ bucketStep(fp*layout.MixFirst)) % buckets)
		}
		next &^= reached
		reached |= next
		todo = todo&(todo-1) | next
	}
	return reached
}

func (t *table) Remove(l *layout.Line, it layout.Item, stores *layout.Stores) bool {
	_, b1, b2 := t.pair(it)
	for _, b := range [2]uint64{b1, b2} {
		if t.take(&l[b], uint64(it.Fp)) {
			stores.Add(b, true)
			return true
		}
	}
	return false
}

func (t *table) SetOverflow(l *layout.Line, it layout.Item, stores *layout.Stores) {
	m, b1, b2 := t.pair(it)
	for _, b := range [2]uint64{b1, b2} {
		if bit := overflowBit(m, b); l[b]&bit == 0 {
			l[b] |= bit
			stores.Add(b, false)
		}
	}
}

func (t *table) Cost(l *layout.Line, it layout.Item) int {
	m, b1, b2 := t.pair(it)
	return int(^l[b1]>>overflowNumber(m, b1)&1 + ^l[b2]>>overflowNumber(m, b2)&1)
}

// CheckLines counts the lanes in use of all words of a line at once: f is at least 8, so
// the high bits of the lanes of word i, shifted down by i, do not collide.
func (t *table) CheckLines(region []uint64, from, to uint64) (items, line uint64, err error) {
	unused := uint64(1<<overflowLow-1) &^ t.lanes
	for line = from; line < to; line++ {
		var used, occupied uint64
		for i, w := range layout.LineAt(region, line) {
			used |= w
			occupied |= t.occupied(w) >> i
		}
		items += uint64(bits.OnesCount64(occupied))
		if used&unused != 0 {
			return items, line, fmt.Errorf("unused bits %#x between the slots and the overflow bits are set", used&unused)
		}
	}
	return items, line, nil
}

func (t *table) Items(dst []layout.Item, l *layout.Line, line uint64) []layout.Item {
	f := t.Params().FingerprintBits
	for i, w := range l {
		for j := range t.Params().BucketSize {
			if fp := uint32(w >> (f * j) & (1<<f - 1)); fp != 0 {
				dst = append(dst, layout.Item{Line: line, Bucket: uint32(i), Fp: fp})
			}
		}
	}
	return dst
}

// Probe averages over the fingerprints, the 56 ordered pairs of buckets and the 4 overflow
// bits of each word, all equally likely.
func (t *table) Probe(l *layout.Line, _ uint64) layout.Overflow {
	items := 0
	var set [buckets]float64 // the share of overflow bits that are set
	all := 0.0
	for i, w := range l {
		items += bits.OnesCount64(t.occupied(w))
		set[i] = float64(bits.OnesCount64(w>>overflowLow)) / 4
		all += set[i] / buckets
	}
	second := 0.0
	for i := range set {
		for j := range i {
			second += set[i] * set[j]
		}
	}
	const pairs = buckets * (buckets - 1) / 2
	// k items that left, if at random, have set 2k of the 32 bits, some of them twice: the
	// share of clear bits is (1 - 1/32)^2k.
	away := 0.0
	if all > 0 {
		away = math.Log(max(1-all, 0.5/32)) / (2 * math.Log1p(-1.0/32)) / float64(max(items, 1))
	}
	return layout.Overflow{Match: matchRate(t.Params(), float64(items)*2/buckets), Second: second / pairs, Away: away}
}

// LookAt loads the two buckets of the item.
func (t *table) LookAt(at func(word uint64) uint64, it layout.Item) (found, beyond bool) {
	m, b1, b2 := t.pair(it)
	first := layout.WordRegion + it.Line*buckets
	return t.look(it, m, b1, b2, at(first+b1), at(first+b2))
}

// Look is LookAt for a line in memory.
func (t *table) Look(words []uint64, it layout.Item) (found, beyond bool) {
	m, b1, b2 := t.pair(it)
	l := (*layout.Line)(words)
	return t.look(it, m, b1, b2, layout.LoadOf(l, b1), layout.LoadOf(l, b2))
}

// look is branch-free: a branch would mispredict half the time.
func (t *table) look(it layout.Item, m, b1, b2, w1, w2 uint64) (found, beyond bool) {
	match := t.matches(w1, uint64(it.Fp)) | t.matches(w2, uint64(it.Fp))
	both := w1 >> overflowNumber(m, b1) & (w2 >> overflowNumber(m, b2)) & 1
	return match != 0, both != 0
}
