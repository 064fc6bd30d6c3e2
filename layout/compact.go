package layout

import (
	"fmt"
	"math"
	"math/bits"
	"sync/atomic"
)

// The Compact layout. The order of the fingerprints in a bucket tells nothing, and
// to keep none saves log2(b!)/b bits a slot; so the semi-sorted buckets of the paper
// (section 4.2) are taken to their end, where a line is one bucket. A fingerprint is
// a quotient, its 6 high bits, and a remainder, its r low ones; of the quotients only
// the counts are kept, as in a quotient filter (Bender et al., "Don't Thrash", 2012,
// and Pandey et al., "Vector Quotient Filters", 2021, who have a line of 512 bits).
//
//	bit 511        512-v            65+b+b·r        65+b             0
//	    ┌────────────┬────────────────┬─────┬─────────┬───────────────┐
//	    │ overflow   │ remainder b-1  │  …  │ rem. 0  │ counts of 64  │
//	    │ bits v-1…0 │                │     │         │ quotients     │
//	    └────────────┴────────────────┴─────┴─────────┴───────────────┘
//
// The counts are in unary, from bit 0 on: for each quotient, from 0 to 63, a bit 0 and
// then a bit 1 for each item that has it. With n items these are n + 64 bits, and the
// b + 1 - n bits after them are 0: there is one at least, which ends the items of the
// last quotient as the bit 0 of the next one ends those of any other. Item i, the one of
// bit 1 number i, has remainder i; the items are in rising order of their fingerprints,
// and the remainders after the last are 0. So what is in a line, and which overflow bits
// are set, gives its image, and an empty line is 0. The counts tell which slots are in
// use: 0 is a fingerprint like any other.
//
// An item may stand in any slot of its home line, else of its alternate line. When it
// does not stand in a line that it belongs to, two overflow bits are set there, and a
// lookup goes on only where both are. They are never cleared. With i = fp mod 128, they
// are number o and o':
//
//	o  = i mod v
//	o' = (o + 1 + ⌊i/v⌋) mod v
//
// These are 128 pairs, some of them twice where v is small, in which every bit is about as
// often; the fingerprints of a line have any low bits. A table has them all: of a lookup they
// are five instructions. (Chosen by a product with the fingerprint they were 26, of 127,
// and a lookup out of the cache takes as long as its instructions are many.)
//
// The b of each r. 65 + b·(r+1) + v = 512: one slot less is r+1 overflow bits more, and
// fewer lookups that read a second line. A filter of rate p has at least log2(1/p) bits
// a key. These b are the ones that need the least more than that, at 98 % load, with
// second lines for at most a quarter of the absent keys; TestCompactSlots does the sum
// again for each r.
var compactSlots = map[int]int{
	4: 86, 5: 72, 6: 62, 7: 54, 8: 48, 9: 43, 10: 39, 11: 36, 12: 33, 13: 31, 14: 29, 15: 27, 16: 25,
}

const (
	quotientBits = 6
	quotients    = 1 << quotientBits
	lineBits     = 8 * LineBytes
	lastWord     = BlockWords - 1 // it has the overflow bits
	maxSlots     = 96             // at least those of any line

	overflowPairs   = 128
	maxOverflowBits = 64 // at least those of any line
)

var compactSpec = spec{
	params:       compactParams(),
	itemBits:     func(p Params) int { return p.FingerprintBits },
	slotsPerLine: func(p Params) int { return p.BucketSize },
	lineBits:     func(Params) int { return lineBits },
	loads:        func(Params) Loads { return Loads{Least: 70, Usual: 98, Most: 98} },
	predict: func(p Params, load float64) Overflow {
		return Overflow{
			Match:  compactMatch(p, float64(p.BucketSize)*load),
			Second: atLoad(compactSecond[p.BucketSize], load),
			Away:   atLoad(compactAway[p.BucketSize], load),
		}
	},
	marks: func(p Params) marks {
		return marks{compactSecond[p.BucketSize], compactAway[p.BucketSize], float64(compactMarks(p))}
	},
	crowded: func(Params, float64, float64) float64 { return 0 },
	bind:    func(p Params, lines uint64) Table { return newCompact(p, lines) },
}

func compactParams() (all []Params) {
	for r := 4; r <= 16; r++ {
		all = append(all, Params{quotientBits + r, compactSlots[r]})
	}
	return all
}

// compactMarks is v, the overflow bits of a line: those that counts and remainders leave.
func compactMarks(p Params) int {
	counts, remainder := p.BucketSize+quotients+1, p.FingerprintBits-quotientBits
	return lineBits - counts - p.BucketSize*remainder
}

// compactMatch is the probability that one of n stored fingerprints is that of an
// absent key.
func compactMatch(p Params, n float64) float64 {
	return -math.Expm1(n * math.Log1p(-math.Exp2(-float64(p.FingerprintBits))))
}

// compact is a Table. Remainders are compared in lanes of r bits, as many as are in
// a word.
type compact struct {
	lines      uint64
	f, r, b, v uint64
	counts     uint64 // bits for the counts; the first remainder is after them
	countWords int    // words that they are in
	inCounts   Line   // their bits in these
	values     uint64 // 2^r - 1, every bit of a remainder
	lanes      uint64
	ones       uint64 // the lowest bit of each lane
	highs      uint64 // the highest bit of each lane
	shift      uint64 // 64 - f

	masks [overflowPairs]uint64 // the two overflow bits of fp mod 128, in the last word

	pairs   [overflowPairs][2]uint8   // their numbers
	sharing [maxOverflowBits][]shared // the pairs that a bit is in
}

// A shared bit is in a pair with another one.
type shared struct{ pair, other uint8 }

func newCompact(p Params, lines uint64) *compact {
	t := &compact{lines: lines, f: uint64(p.FingerprintBits), b: uint64(p.BucketSize)}
	t.r = t.f - quotientBits
	t.shift = 64 - t.f
	t.counts = t.b + quotients + 1
	t.v = uint64(compactMarks(p))
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
	for i := range uint64(overflowPairs) {
		o := i % t.v
		p := (o + 1 + i/t.v) % t.v
		t.pairs[i] = [2]uint8{uint8(o), uint8(p)}
		t.sharing[o] = append(t.sharing[o], shared{uint8(i), uint8(p)})
		t.sharing[p] = append(t.sharing[p], shared{uint8(i), uint8(o)})
		t.masks[i] = (1<<o | 1<<p) << (64 - t.v)
	}
	return t
}

func (t *compact) Kind() Kind        { return Compact }
func (t *compact) Params() Params    { return Params{int(t.f), int(t.b)} }
func (t *compact) Lines() uint64     { return t.lines }
func (t *compact) SlotsPerLine() int { return int(t.b) }
func (t *compact) Both() bool        { return false }

// Bounds: as in Blocked, searches are for the last inserts before a table is full,
// and end soon: every item of a line may leave it. A change in the middle of a line
// moves all that is behind it. To choose who goes makes an insert at 95 % load a quarter slower,
// and a third as many lookups go on. (In Blocked two thirds of them would.)
func (t *compact) Bounds() Bounds {
	return Bounds{SearchLines: 64, PathMoves: 8, ChooseFirst: true, PlaceStores: BlockWords, RemoveStores: BlockWords, OverflowStores: 1}
}

func (t *compact) Split(h uint64) Item {
	line, rest := SplitHash(h, t.lines)
	return Item{Line: line, Fp: uint32(rest >> t.shift)}
}

func (t *compact) Hash(it Item) uint64 {
	return joinHash(it.Line, uint64(it.Fp)<<t.shift, t.lines)
}

func (t *compact) Alternate(it Item) Item {
	it.Line = alternate(it.Line, uint64(it.Fp), t.lines)
	return it
}

func (t *compact) Legal(it Item) bool { return it.Bucket == 0 && uint64(it.Fp)>>t.f == 0 }

func (t *compact) Class(it Item) Class {
	return Class{Line: min(it.Line, alternate(it.Line, uint64(it.Fp), t.lines)), Bucket: it.Bucket, Fp: it.Fp}
}

func (t *compact) Words(line uint64) (first uint64, n int) {
	return line * BlockWords, BlockWords
}

func (t *compact) Load(region []uint64, line uint64, l *Line)  { *l = *lineAt(region, line) }
func (t *compact) Store(region []uint64, line uint64, l *Line) { *lineAt(region, line) = *l }

// selectInByte[k<<8|b] is the place of bit 1 number k of the byte b; 0 where it has
// no more than k.
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

// selectBit gives the place of bit 1 number k of x, k from 0 on: broadword selection
// (Vigna, "Broadword Implementation of Rank/Select Queries", 2008, algorithm 2). Byte i
// of sums is how many bits 1 are in bytes 0 to i; the bit is in the first byte where
// that is above k, and has low bits before it. Where x has no such bit it gives any place.
func selectBit(x, k uint64) uint64 {
	sums := x - x>>1&(0x55*everyByte)
	sums = sums&(0x33*everyByte) + sums>>2&(0x33*everyByte)
	sums = (sums + sums>>4) & (0x0F * everyByte) * everyByte
	low := ((k*everyByte | highBits) - sums) & highBits >> 7 * everyByte >> 53 & 56
	return low + uint64(selectInByte[((k-sums<<8>>low)<<8|x>>low&0xFF)%uint64(len(selectInByte))])
}

func loadOf(l *Line, i uint64) uint64 { return atomic.LoadUint64(&l[i%BlockWords]) }

// window gives 64 bits of a line from a bit on. After the last bit comes anything.
func window(l *Line, bit uint64) uint64 {
	i, low := bit/64, bit%64
	return loadOf(l, i)>>low | loadOf(l, i+1)<<1<<(63-low)
}

// run finds the items of a quotient: the first one, and how many. It loads words one
// by one, of a line that a writer may be storing to; then they may not go together,
// and what it gives, and all that is made of it, means nothing.
func (t *compact) run(l *Line, quotient uint64) (first, n uint64) {
	// The zeros of the counts are bits of x, as are those of what is after the counts,
	// where neither the quotient nor the end of its items is.
	// Branch-free: a branch on the word that holds the quotient would mispredict.
	x, next := ^loadOf(l, 0), ^loadOf(l, 1)
	zeros := uint64(bits.OnesCount64(x))
	later := uint64(int64(zeros-1-quotient) >> 63) // every bit, where quotient ≥ zeros
	x ^= (x ^ next) & later
	k, at := quotient-zeros&later, 64&later
	if t.countWords > 2 {
		zeros = uint64(bits.OnesCount64(x))
		later = uint64(int64(zeros-1-k) >> 63)
		x ^= (x ^ ^loadOf(l, 2)) & later
		k, at = k-zeros&later, at+64&later
	}
	bit := selectBit(x, k) % 64
	at += bit
	if rest := x >> 1 >> bit; rest != 0 {
		return at - quotient, uint64(bits.TrailingZeros64(rest))
	}
	return at - quotient, t.runOn(l, at+1)
}

// runOn counts the bits 1 from one on, where they may go on in the next word.
func (t *compact) runOn(l *Line, from uint64) (n uint64) {
	for i := from / 64; i < uint64(t.countWords); i++ {
		from %= 64
		ones := uint64(bits.TrailingZeros64(^(loadOf(l, i) >> from)))
		if n += ones; from+ones < 64 {
			break
		}
		from = 0
	}
	return n
}

// look reports whether a line has a fingerprint, and if not, whether a lookup goes on
// to the next one. What run says holds for it, too. A kernel, which has an instruction
// that selects, does it in half the time but for very long runs.
func (t *compact) look(l *Line, fp uint64) (found, beyond bool) {
	if compactKernel() != pureGo {
		if found, beyond, long := compactLine(t, l, fp); !long {
			return found, beyond
		}
	}
	match, both := t.lookInGo(l, fp)
	return match != 0, match == 0 && both != 0
}

// lookInGo gives what is not 0 where the line has the fingerprint, and 1 where both of its
// overflow bits are set, else 0. Nothing branches on either: half of the keys being there
// would be what a processor cannot foretell. Where a run goes on in the next word, or
// has more remainders than a word, findLong has to find it.
func (t *compact) lookInGo(l *Line, fp uint64) (match, both uint64) {
	width := uint64(64) // of the remainders of the run
	if t.countWords == 2 {
		quotient := fp >> (t.r % 64)
		x, next := ^loadOf(l, 0), ^loadOf(l, 1) // as in run
		zeros := uint64(bits.OnesCount64(x))
		later := uint64(int64(zeros-1-quotient) >> 63)
		x ^= (x ^ next) & later
		at := selectBit(x, quotient-zeros&later) % 64
		width = uint64(bits.TrailingZeros64(x>>1>>at)) * t.r
		x = window(l, t.counts+(at+64&later-quotient)*t.r) ^ fp&t.values*t.ones
		match = (x - t.ones) &^ x & t.highs & (1<<(width%64) - 1)
	}
	if width >= 64 {
		match = t.findLong(l, fp)
	}
	mask := t.overflowBits(fp)
	return match, uint64(bit(loadOf(l, lastWord)&mask == mask))
}

// findLong gives what is not 0 where the line has the fingerprint.
func (t *compact) findLong(l *Line, fp uint64) (match uint64) {
	first, n := t.run(l, fp>>t.r)
	remainders := fp & t.values * t.ones
	bit := t.counts + first*t.r
	for n > t.lanes && t.equalLane(window(l, bit)^remainders) == 64 {
		bit += t.lanes * t.r
		n -= t.lanes
	}
	if t.equalLane(window(l, bit)^remainders) < n*t.r {
		return 1
	}
	return 0
}

// equalLane gives the high bit of the lowest lane that is 0; where none is, 64.
func (t *compact) equalLane(x uint64) uint64 {
	return uint64(bits.TrailingZeros64((x - t.ones) &^ x & t.highs))
}

// overflowBits is the mask of the two of a fingerprint, in the last word.
func (t *compact) overflowBits(fp uint64) uint64 { return t.masks[fp%overflowPairs] }

func (t *compact) remainder(l *Line, slot uint64) uint64 {
	return window(l, t.counts+slot*t.r) & t.values
}

// items counts the items of a line.
func (t *compact) items(l *Line) (n uint64) {
	for i := range t.countWords {
		n += uint64(bits.OnesCount64(l[i] & t.inCounts[i%BlockWords]))
	}
	return n
}

func (t *compact) Free(l *Line, _ uint64) uint64 { return t.b - min(t.items(l), t.b) }

func (t *compact) Full(region []uint64, line uint64) bool {
	l, n := lineAt(region, line), 0
	for i := range uint64(t.countWords) {
		n += bits.OnesCount64(loadOf(l, i) & t.inCounts[i%BlockWords])
	}
	return uint64(n) >= t.b
}

func (t *compact) FullLines(region, lines []uint64) uint64 { return fullLines(t, region, lines) }

// slots gives the fingerprints of a line in their order, and says why they, or its
// counts, cannot be: then there are none.
func (t *compact) slots(l *Line, fps *[maxSlots]uint32) (n int, err error) {
	if n := t.items(l); n > t.b {
		return 0, fmt.Errorf("%d items in %d slots", n, t.b)
	}
	bit, last, r, values := t.counts, uint64(0), t.r, t.values
	for i := range t.countWords {
		for w := l[i] & t.inCounts[i%BlockWords]; w != 0; w &= w - 1 {
			zeros := uint64(64*i + bits.TrailingZeros64(w) - n)
			if zeros-1 >= quotients {
				return 0, fmt.Errorf("item %d has an impossible quotient, %d", n, int(zeros-1))
			}
			fp := (zeros-1)<<(r%64) | window(l, bit)&values
			if fp < last {
				return 0, fmt.Errorf("fingerprints are not sorted: %#x comes before %#x", last, fp)
			}
			fps[n] = uint32(fp)
			bit, last = bit+r, fp
			n++
		}
	}
	return n, nil
}

// find gives the slot of the first copy of a fingerprint, or the one that it would
// have, and the end of the items of its quotient. ok is false where the counts cannot
// be.
func (t *compact) find(l *Line, fp uint64) (slot, end uint64, ok bool) {
	slot, n := t.run(l, fp>>t.r)
	items := t.items(l)
	if end = slot + n; items > t.b || end > items || slot > end {
		return 0, 0, false
	}
	for slot < end && t.remainder(l, slot) < fp&t.values {
		slot++
	}
	return slot, end, true
}

// holds reports whether a slot that find gave, or one after it, is that of a copy.
func (t *compact) holds(l *Line, slot, end, fp uint64) bool {
	return slot < end && t.remainder(l, slot) == fp&t.values
}

// countBit is the place of the bit of an item of a quotient in the counts.
func countBit(slot, quotient uint64) uint64 { return slot + quotient + 1 }

func (t *compact) Place(l *Line, it Item, stores *Stores) bool {
	fp, items := uint64(it.Fp), t.items(l)
	if items >= t.b {
		return false
	}
	slot, _, ok := t.find(l, fp)
	if !ok {
		return false
	}
	before := *l
	l.insert(countBit(slot, fp>>t.r), t.counts, 1, 1)
	l.insert(t.counts+slot*t.r, t.counts+(items+1)*t.r, t.r, fp&t.values)
	l.list(&before, stores)
	return true
}

func (t *compact) Remove(l *Line, it Item, stores *Stores) bool {
	fp, items := uint64(it.Fp), t.items(l)
	slot, end, _ := t.find(l, fp)
	if !t.holds(l, slot, end, fp) {
		return false
	}
	before := *l
	l.remove(countBit(slot, fp>>t.r), t.counts, 1)
	l.remove(t.counts+slot*t.r, t.counts+items*t.r, t.r)
	l.list(&before, stores)
	return true
}

func (t *compact) Copies(l *Line, it Item) (n int) {
	slot, end, _ := t.find(l, uint64(it.Fp))
	for t.holds(l, slot+uint64(n), end, uint64(it.Fp)) {
		n++
	}
	return n
}

// Fill makes the image of a line of sorted hashes, which are in the order of their
// fingerprints. Those that come first get the slots.
func (t *compact) Fill(l *Line, hashes, beyond []uint64) []uint64 {
	var fps [maxSlots]uint32
	n := min(len(hashes), int(t.b))
	for i, h := range hashes[:n] {
		_, rest := SplitHash(h, t.lines)
		fps[i] = uint32(rest >> t.shift)
	}
	t.encode(l, fps[:n])
	return append(beyond, hashes[n:]...)
}

// encode makes the image of a line that has these fingerprints, in their order; its overflow
// bits stay as they are.
func (t *compact) encode(l *Line, fps []uint32) {
	below := 64 - t.v
	*l = Line{lastWord: l[lastWord] >> below << below}
	in, counts := uint64(0), uint64(0)                    // a word of the counts, and its bits
	at, word, used := t.counts/64, uint64(0), t.counts%64 // one of the remainders
	for i, fp := range fps {
		bit := countBit(uint64(i), uint64(fp)>>t.r)
		if bit/64 != in {
			l[in%BlockWords] |= counts
			in, counts = bit/64, 0
		}
		counts |= 1 << (bit % 64)
		rem := uint64(fp) & t.values
		word |= rem << used
		if used += t.r; used >= 64 {
			l[at%BlockWords] |= word
			at++
			used -= 64
			word = rem >> (t.r - used)
		}
	}
	l[in%BlockWords] |= counts
	l[at%BlockWords] |= word
}

// list lists the words of a line that differ from those before.
//
// All of them are guarded. A change of counts and remainders is of several words, as
// a rule, and between its stores no item of the line can be told. One that is of a
// single word is guarded as well, and an insert, too: a lookup may load another word
// before the change before it, and this one after it. Counts of the one and remainders
// of the other give items that never were, and hide some that were there all the time.
func (l *Line) list(before *Line, stores *Stores) {
	for i, w := range l {
		if w != before[i] {
			stores.add(uint64(i), true)
		}
	}
}

// insert puts n bits v at a bit of a line, 1 to 63 of them, and moves those from
// there to the end by n; the last n go.
func (l *Line) insert(at, end, n, v uint64) {
	first, last := at/64, (end-1)/64
	from, to := ^uint64(0)<<(at%64), ^uint64(0)>>(63-(end-1)%64) // bits of these words that move
	below, behind := l[first]&^from, l[last]&^to
	for i := last; i > first; i-- {
		l[i] = l[i]<<n | l[i-1]>>(64-n)
	}
	l[first] = l[first]&from<<n | below
	l[last] = l[last]&to | behind
	putBits(l[:], at, n, v)
}

// remove takes n bits out at a bit of a line, 1 to 63 of them, and moves those from
// there to the end by n; the last n are 0.
func (l *Line) remove(at, end, n uint64) {
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

func (t *compact) Victims(dst []Item, l *Line, it Item, _ bool) (victims []Item, more bool) {
	dst = dst[:0]
	var fps [maxSlots]uint32
	n, _ := t.slots(l, &fps)
	for _, fp := range fps[:n] {
		dst = append(dst, Item{Line: it.Line, Fp: fp})
	}
	return dst, false
}

// SetOverflow is not guarded: it changes the last word alone, and no remainder in it.
func (t *compact) SetOverflow(l *Line, it Item, stores *Stores) {
	if mask := t.overflowBits(uint64(it.Fp)); l[lastWord]&mask != mask {
		l[lastWord] |= mask
		stores.add(lastWord, false)
	}
}

func (t *compact) NewMarks(l *Line, it Item) int {
	return bits.OnesCount64(t.overflowBits(uint64(it.Fp)) &^ l[lastWord])
}

func (t *compact) Overflowed(l *Line, it Item) bool {
	mask := t.overflowBits(uint64(it.Fp))
	return l[lastWord]&mask == mask
}

func (t *compact) CheckLines(region []uint64, from, to uint64) (items, line uint64, err error) {
	var fps [maxSlots]uint32
	for line = from; line < to; line++ {
		l := lineAt(region, line)
		n, err := t.slots(l, &fps)
		items += uint64(n)
		if err != nil {
			return items, line, err
		}
		for slot := uint64(n); slot < t.b; slot++ {
			if r := t.remainder(l, slot); r != 0 {
				return items, line, fmt.Errorf("slot %d holds the remainder %#x, but the line has %d items", slot, r, n)
			}
		}
	}
	return items, line, nil
}

// Probe averages over the fingerprints, which are all about equally likely. k items that
// went away, if by chance, leave each overflow bit clear with a probability of (1 - 2/v)^k.
func (t *compact) Probe(l *Line, _ uint64) Overflow {
	v, set := float64(t.v), float64(bits.OnesCount64(l[lastWord]>>(64-t.v)))
	items := float64(min(t.items(l), t.b))
	second := 0.0
	for _, mask := range t.masks {
		if l[lastWord]&mask == mask {
			second++
		}
	}
	away := math.Log(max(1-set/v, 0.5/v)) / math.Log1p(-2/v)
	return Overflow{
		Match:  compactMatch(t.Params(), items),
		Second: second / overflowPairs,
		Away:   away / max(items, 1),
	}
}
