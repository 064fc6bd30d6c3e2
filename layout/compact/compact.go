package compact

import (
	"fmt"
	"math"
	"math/bits"

	"github.com/mmapfilter/mmapfilter/layout"
)

// The b of each r. 65 + b·(r+1) + v = 512: one slot less is r+1 overflow bits more, and
// fewer lookups that read a second line. A filter of rate p has at least log2(1/p) bits
// a key. These b are the ones that need the least more than that, at 98 % load, with
// second lines for at most a quarter of the absent keys; TestCompactSlots does the sum
// again for each r.
var slotsOf = map[int]int{
	4: 86, 5: 72, 6: 62, 7: 54, 8: 48, 9: 43, 10: 39, 11: 36, 12: 33, 13: 31, 14: 29, 15: 27, 16: 25,
}

const (
	quotientBits = 6
	quotients    = 1 << quotientBits
	lineBits     = 8 * layout.LineBytes
	lastWord     = layout.BlockWords - 1 // it has the overflow bits
	maxSlots     = 96                    // at least those of any line

	overflowPairs   = 128
	maxOverflowBits = 64 // at least those of any line
)

func init() {
	layout.Register(layout.Compact, &layout.Spec{
		Name:         "compact",
		ByName:       true, // smaller than Blocked, but lookups and inserts take longer
		Params:       params(),
		ItemBits:     func(p layout.Params) int { return p.FingerprintBits },
		SlotsPerLine: func(p layout.Params) int { return p.BucketSize },
		LineBits:     func(layout.Params) int { return lineBits },
		Loads:        func(layout.Params) layout.Loads { return layout.Loads{Least: 70, Usual: 98, Most: 98} },
		Predict: func(p layout.Params, load float64) layout.Overflow {
			return layout.Overflow{
				Match:  matchRate(p, float64(p.BucketSize)*load),
				Second: layout.AtLoad(secondLines[p.BucketSize], load),
				Away:   layout.AtLoad(awayItems[p.BucketSize], load),
			}
		},
		Marks: func(p layout.Params) layout.Marks {
			return layout.Marks{Second: secondLines[p.BucketSize], Away: awayItems[p.BucketSize], Bits: float64(overflowBitsOf(p))}
		},
		Bind: func(p layout.Params, lines uint64) layout.Table { return newTable(p, lines) },
	})
}

func params() (all []layout.Params) {
	for r := 4; r <= 16; r++ {
		all = append(all, layout.Params{FingerprintBits: quotientBits + r, BucketSize: slotsOf[r]})
	}
	return all
}

// overflowBitsOf returns v, the number of overflow bits of a line: what counts and
// remainders leave.
func overflowBitsOf(p layout.Params) int {
	counts, remainder := p.BucketSize+quotients+1, p.FingerprintBits-quotientBits
	return lineBits - counts - p.BucketSize*remainder
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
	f, r, b, v uint64
	counts     uint64      // bits for the counts; the first remainder is after them
	countWords int         // words that they are in
	inCounts   layout.Line // their bits in these
	values     uint64      // 2^r - 1, every bit of a remainder
	lanes      uint64
	ones       uint64 // the lowest bit of each lane
	highs      uint64 // the highest bit of each lane
	shift      uint64 // 64 - f

	masks [overflowPairs]uint64 // the two overflow bits of fp mod 128, in the last word

	pairs   [overflowPairs][2]uint8   // their numbers
	sharing [maxOverflowBits][]shared // the pairs that a bit is in
}

// A shared bit belongs to a pair, with another bit.
type shared struct{ pair, other uint8 }

func newTable(p layout.Params, lines uint64) *table {
	t := &table{lines: lines, f: uint64(p.FingerprintBits), b: uint64(p.BucketSize)}
	t.r = t.f - quotientBits
	t.shift = 64 - t.f
	t.counts = t.b + quotients + 1
	t.v = uint64(overflowBitsOf(p))
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

func (t *table) Kind() layout.Kind { return layout.Compact }
func (t *table) Params() layout.Params {
	return layout.Params{FingerprintBits: int(t.f), BucketSize: int(t.b)}
}
func (t *table) Lines() uint64     { return t.lines }
func (t *table) SlotsPerLine() int { return int(t.b) }
func (t *table) Both() bool        { return false }

// Bounds: as in Blocked, long searches serve the last inserts before a table is full, and
// they end soon, since every item of a line may leave it. A change in the middle of a
// line moves everything behind it. Choosing which item leaves makes an insert at 95 % load
// a quarter slower, and a third as many lookups read a second line; in Blocked it would
// be two thirds.
func (t *table) Bounds() layout.Bounds {
	return layout.Bounds{SearchLines: 64, PathMoves: 8, ChooseFirst: true, PlaceStores: layout.BlockWords, RemoveStores: layout.BlockWords, OverflowStores: 1}
}

func (t *table) Split(h uint64) layout.Item {
	line, rest := layout.SplitHash(h, t.lines)
	return layout.Item{Line: line, Fp: uint32(rest >> t.shift)}
}

func (t *table) Hash(it layout.Item) uint64 {
	return layout.JoinHash(it.Line, uint64(it.Fp)<<t.shift, t.lines)
}

func (t *table) Alternate(it layout.Item) layout.Item {
	it.Line = layout.AlternateLine(it.Line, uint64(it.Fp), t.lines)
	return it
}

func (t *table) Legal(it layout.Item) bool { return it.Bucket == 0 && uint64(it.Fp)>>t.f == 0 }

func (t *table) Class(it layout.Item) layout.Class {
	return layout.Class{Line: min(it.Line, layout.AlternateLine(it.Line, uint64(it.Fp), t.lines)), Bucket: it.Bucket, Fp: it.Fp}
}

func (t *table) Words(line uint64) (first uint64, n int) {
	return line * layout.BlockWords, layout.BlockWords
}

func (t *table) Load(region []uint64, line uint64, l *layout.Line) { *l = *layout.LineAt(region, line) }
func (t *table) Store(region []uint64, line uint64, l *layout.Line) {
	*layout.LineAt(region, line) = *l
}

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

// run finds the items of a quotient: the first, and how many. It loads words one by one,
// of a line that a writer may be storing to; then they may not belong together, and the
// result, and whatever follows from it, means nothing.
func (t *table) run(l *layout.Line, quotient uint64) (first, n uint64) {
	// The zeros of the counts are bits of x, as are those of what is after the counts,
	// where neither the quotient nor the end of its items is.
	// Branch-free: a branch on the word that holds the quotient would mispredict.
	x, next := ^layout.LoadOf(l, 0), ^layout.LoadOf(l, 1)
	zeros := uint64(bits.OnesCount64(x))
	later := uint64(int64(zeros-1-quotient) >> 63) // every bit, where quotient ≥ zeros
	x ^= (x ^ next) & later
	k, at := quotient-zeros&later, 64&later
	if t.countWords > 2 {
		zeros = uint64(bits.OnesCount64(x))
		later = uint64(int64(zeros-1-k) >> 63)
		x ^= (x ^ ^layout.LoadOf(l, 2)) & later
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
func (t *table) runOn(l *layout.Line, from uint64) (n uint64) {
	for i := from / 64; i < uint64(t.countWords); i++ {
		from %= 64
		ones := uint64(bits.TrailingZeros64(^(layout.LoadOf(l, i) >> from)))
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
func (t *table) look(l *layout.Line, fp uint64) (found, beyond bool) {
	match, both := t.lookInGo(l, fp)
	return match != 0, match == 0 && both != 0
}

// lookInGo returns a value other than 0 if the line has the fingerprint, and 1 if both of
// its overflow bits are set. No branch depends on either: it would mispredict half the
// time. A run that goes on in the next word, or has more remainders than fit a word, is
// left to findLong.
func (t *table) lookInGo(l *layout.Line, fp uint64) (match, both uint64) {
	width := uint64(64) // of the remainders of the run
	if t.countWords == 2 {
		quotient := fp >> (t.r % 64)
		x, next := ^layout.LoadOf(l, 0), ^layout.LoadOf(l, 1) // as in run
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
	unset := mask &^ layout.LoadOf(l, lastWord)
	return match, (unset|-unset)>>63 ^ 1
}

// findLong returns a value other than 0 if the line has the fingerprint.
func (t *table) findLong(l *layout.Line, fp uint64) (match uint64) {
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

// equalLane returns the position of the high bit of the lowest lane that is 0, or 64 if
// there is none.
func (t *table) equalLane(x uint64) uint64 {
	return uint64(bits.TrailingZeros64((x - t.ones) &^ x & t.highs))
}

// overflowBits returns the mask of the two overflow bits of a fingerprint, in the last
// word.
func (t *table) overflowBits(fp uint64) uint64 { return t.masks[fp%overflowPairs] }

func (t *table) remainder(l *layout.Line, slot uint64) uint64 {
	return window(l, t.counts+slot*t.r) & t.values
}

// items counts the items of a line.
func (t *table) items(l *layout.Line) (n uint64) {
	for i := range t.countWords {
		n += uint64(bits.OnesCount64(l[i] & t.inCounts[i%layout.BlockWords]))
	}
	return n
}

func (t *table) Free(l *layout.Line, _ uint64) uint64 { return t.b - min(t.items(l), t.b) }

func (t *table) Full(region []uint64, line uint64) bool {
	l, n := layout.LineAt(region, line), 0
	for i := range uint64(t.countWords) {
		n += bits.OnesCount64(layout.LoadOf(l, i) & t.inCounts[i%layout.BlockWords])
	}
	return uint64(n) >= t.b
}

func (t *table) FullLines(region, lines []uint64) uint64 { return layout.FullByLine(t, region, lines) }

// slots sets fps to the fingerprints of a line in their order and returns how many there
// are. If the line breaks a rule, it says which.
func (t *table) slots(l *layout.Line, fps *[maxSlots]uint32) (n int, err error) {
	if n := t.items(l); n > t.b {
		return 0, fmt.Errorf("%d items in %d slots", n, t.b)
	}
	bit, last, r, values := t.counts, uint64(0), t.r, t.values
	for i := range t.countWords {
		for w := l[i] & t.inCounts[i%layout.BlockWords]; w != 0; w &= w - 1 {
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

// find returns the slot of the first copy of a fingerprint, or the one it would get, and
// the end of the items of its quotient. ok is false if the counts are impossible.
func (t *table) find(l *layout.Line, fp uint64) (slot, end uint64, ok bool) {
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

// holds reports whether a slot that find returned, or one after it, has a copy.
func (t *table) holds(l *layout.Line, slot, end, fp uint64) bool {
	return slot < end && t.remainder(l, slot) == fp&t.values
}

// countBit returns the position in the counts of the bit of an item with that quotient.
func countBit(slot, quotient uint64) uint64 { return slot + quotient + 1 }

func (t *table) Place(l *layout.Line, it layout.Item, stores *layout.Stores) bool {
	fp, items := uint64(it.Fp), t.items(l)
	if items >= t.b {
		return false
	}
	slot, _, ok := t.find(l, fp)
	if !ok {
		return false
	}
	before := *l
	insert(l, countBit(slot, fp>>t.r), t.counts, 1, 1)
	insert(l, t.counts+slot*t.r, t.counts+(items+1)*t.r, t.r, fp&t.values)
	list(l, &before, stores)
	return true
}

func (t *table) Remove(l *layout.Line, it layout.Item, stores *layout.Stores) bool {
	fp, items := uint64(it.Fp), t.items(l)
	slot, end, _ := t.find(l, fp)
	if !t.holds(l, slot, end, fp) {
		return false
	}
	before := *l
	remove(l, countBit(slot, fp>>t.r), t.counts, 1)
	remove(l, t.counts+slot*t.r, t.counts+items*t.r, t.r)
	list(l, &before, stores)
	return true
}

func (t *table) Copies(l *layout.Line, it layout.Item) (n int) {
	slot, end, _ := t.find(l, uint64(it.Fp))
	for t.holds(l, slot+uint64(n), end, uint64(it.Fp)) {
		n++
	}
	return n
}

// Fill: sorted hashes of a line are in the order of their fingerprints, so the image is
// made in one pass. The first ones get the slots.
func (t *table) Fill(l *layout.Line, hashes, beyond []uint64) []uint64 {
	var fps [maxSlots]uint32
	n := min(len(hashes), int(t.b))
	for i, h := range hashes[:n] {
		_, rest := layout.SplitHash(h, t.lines)
		fps[i] = uint32(rest >> t.shift)
	}
	t.encode(l, fps[:n])
	return append(beyond, hashes[n:]...)
}

// encode makes the image of a line with these fingerprints, which are in order. Its
// overflow bits stay.
func (t *table) encode(l *layout.Line, fps []uint32) {
	below := 64 - t.v
	*l = layout.Line{lastWord: l[lastWord] >> below << below}
	in, counts := uint64(0), uint64(0)                    // a word of the counts, and its bits so far
	at, word, used := t.counts/64, uint64(0), t.counts%64 // one of the remainders
	for i, fp := range fps {
		bit := countBit(uint64(i), uint64(fp)>>t.r)
		if bit/64 != in {
			l[in%layout.BlockWords] |= counts
			in, counts = bit/64, 0
		}
		counts |= 1 << (bit % 64)
		rem := uint64(fp) & t.values
		word |= rem << used
		if used += t.r; used >= 64 {
			l[at%layout.BlockWords] |= word
			at++
			used -= 64
			word = rem >> (t.r - used)
		}
	}
	l[in%layout.BlockWords] |= counts
	l[at%layout.BlockWords] |= word
}

// list lists the words of a line that differ from those before.
//
// All of them are guarded, even those of an insert or of a change in a single word. A
// change of counts and remainders usually spans several words, and between its stores no
// item of the line can be read. And a lookup may load one word before an earlier change
// and another after this one: counts of the one with remainders of the other show items
// that never were, and hide some that were there all the time.
func list(l, before *layout.Line, stores *layout.Stores) {
	for i, w := range l {
		if w != before[i] {
			stores.Add(uint64(i), true)
		}
	}
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

func (t *table) Victims(dst []layout.Item, l *layout.Line, it layout.Item, _ bool) (victims []layout.Item, more bool) {
	dst = dst[:0]
	var fps [maxSlots]uint32
	n, _ := t.slots(l, &fps)
	for _, fp := range fps[:n] {
		dst = append(dst, layout.Item{Line: it.Line, Fp: fp})
	}
	return dst, false
}

// SetOverflow is not guarded: it changes only the last word, and no remainder in it.
func (t *table) SetOverflow(l *layout.Line, it layout.Item, stores *layout.Stores) {
	if mask := t.overflowBits(uint64(it.Fp)); l[lastWord]&mask != mask {
		l[lastWord] |= mask
		stores.Add(lastWord, false)
	}
}

func (t *table) NewMarks(l *layout.Line, it layout.Item) int {
	return bits.OnesCount64(t.overflowBits(uint64(it.Fp)) &^ l[lastWord])
}

func (t *table) Overflowed(l *layout.Line, it layout.Item) bool {
	mask := t.overflowBits(uint64(it.Fp))
	return l[lastWord]&mask == mask
}

func (t *table) CheckLines(region []uint64, from, to uint64) (items, line uint64, err error) {
	var fps [maxSlots]uint32
	for line = from; line < to; line++ {
		l := layout.LineAt(region, line)
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

// Probe averages over the fingerprints, all about equally likely. k items that left, if at
// random, leave each overflow bit clear with a probability of (1 - 2/v)^k.
func (t *table) Probe(l *layout.Line, _ uint64) layout.Overflow {
	v, set := float64(t.v), float64(bits.OnesCount64(l[lastWord]>>(64-t.v)))
	items := float64(min(t.items(l), t.b))
	second := 0.0
	for _, mask := range t.masks {
		if l[lastWord]&mask == mask {
			second++
		}
	}
	away := math.Log(max(1-set/v, 0.5/v)) / math.Log1p(-2/v)
	return layout.Overflow{
		Match:  matchRate(t.Params(), items),
		Second: second / overflowPairs,
		Away:   away / max(items, 1),
	}
}
