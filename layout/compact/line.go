package compact

import (
	"fmt"
	"math/bits"

	"github.com/mmapfilter/mmapfilter/layout"
)

// In the image of a line, items at home are in slots, and the counts tell which; guests are a list
// from the top down. The slots in use and the guests grow towards each other.

// run finds the items of a quotient: the slot of the first, and how many there are. It
// loads words one by one. If a writer stores to the line meanwhile, the words come from
// different instants; then the result means nothing, and neither does anything that follows
// from it.
func (t *table) run(l *layout.Line, quotient uint64) (first, n uint64) {
	// x has a bit for each zero of the counts. It also has bits for the zeros after the
	// counts, but the quotient and the end of its items come before these. Branch-free: a
	// branch on the word that holds the quotient would mispredict.
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

// runOn counts the one bits from a bit on, also in the next word.
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

// look reports whether a line has a fingerprint, and whether a lookup that does not find it
// goes on to the other line. As with run, the result means nothing if a writer stores to the
// line meanwhile. A kernel has an instruction for selecting a bit, and is faster unless a
// run is very long.
func (t *table) look(l *layout.Line, fp uint64) (found, beyond bool) {
	match, away := t.lookInGo(l, fp)
	return match != 0, away != 0
}

// lookInGo returns a match other than 0 if the line has the fingerprint, and 1 as away if the
// overflow bit of the fingerprint is set. No branch depends on either: it would mispredict
// half the time. lookInGo calls findLong for a run that goes on in the next word, or that has
// more remainders than fit in a word.
func (t *table) lookInGo(l *layout.Line, fp uint64) (match, away uint64) {
	width := uint64(64) // of the remainders of the run
	if t.countWords <= 2 {
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
	mask := overflowBit(fp)
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

func (t *table) remainder(l *layout.Line, slot uint64) uint64 {
	return window(l, t.counts+slot*t.r) & t.values
}

// items counts the items of a line that are at home.
func (t *table) items(l *layout.Line) (n uint64) {
	for i := range t.countWords {
		n += uint64(bits.OnesCount64(layout.LoadOf(l, uint64(i)) & t.inCounts[i%layout.BlockWords]))
	}
	return n
}

// slots sets fps to the fingerprints at home in a line, in their order, and returns how many
// there are. If the table cannot have one of the items or guests, the error says why.
func (t *table) slots(l *layout.Line, fps *[maxSlots]uint32) (n int, err error) {
	if n := t.items(l); n > t.b {
		return 0, fmt.Errorf("%d items in %d slots", n, t.b)
	}
	bit, last, r, values := t.counts, uint64(0), t.r, t.values
	for i := range t.countWords {
		for w := l[i] & t.inCounts[i%layout.BlockWords]; w != 0; w &= w - 1 {
			zeros := uint64(64*i + bits.TrailingZeros64(w) - n)
			if zeros-1 >= t.quotients {
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
	for i := range guestsOf(l) {
		if fp := t.guestAt(l, i); fp >= t.fingerprints {
			return 0, fmt.Errorf("guest %#x has an impossible quotient, %d", fp, fp>>r)
		}
	}
	return n, nil
}

// find returns the slot of the first copy of a fingerprint, or else the slot that the
// fingerprint would get. end is the slot after the items of its quotient. ok is false if
// the counts are impossible.
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

// holds reports whether the line has the fingerprint at home, from the slot and the end
// that find returned.
func (t *table) holds(l *layout.Line, slot, end, fp uint64) bool {
	return slot < end && t.remainder(l, slot) == fp&t.values
}

// countBit returns the position in the counts of the bit for an item with this slot and quotient.
func countBit(slot, quotient uint64) uint64 { return slot + quotient + 1 }

func (t *table) Place(l *layout.Line, it layout.Item, stores *layout.Stores) bool {
	fp, items := uint64(it.Fp), t.items(l)
	if !t.hasRoom(items, guestsOf(l), it.Bucket) {
		return false
	}
	before := *l
	if it.Bucket == aGuest {
		t.placeGuest(l, fp)
	} else {
		slot, _, ok := t.find(l, fp)
		if !ok {
			return false
		}
		insert(l, countBit(slot, fp>>t.r), t.counts, 1, 1)
		insert(l, t.counts+slot*t.r, t.counts+(items+1)*t.r, t.r, fp&t.values)
	}
	list(l, &before, stores)
	return true
}

func (t *table) Remove(l *layout.Line, it layout.Item, stores *layout.Stores) bool {
	before := *l
	if it.Bucket == aGuest {
		if !t.removeGuest(l, uint64(it.Fp)) {
			return false
		}
	} else {
		fp, items := uint64(it.Fp), t.items(l)
		slot, end, _ := t.find(l, fp)
		if !t.holds(l, slot, end, fp) {
			return false
		}
		remove(l, countBit(slot, fp>>t.r), t.counts, 1)
		remove(l, t.counts+slot*t.r, t.counts+items*t.r, t.r)
	}
	list(l, &before, stores)
	return true
}

// encode sets l to a line with these fingerprints at home, which must be in order, and no
// guests. The overflow bits of l stay.
func (t *table) encode(l *layout.Line, fps []uint32) {
	const below = 64 - directions
	*l = layout.Line{lastWord: l[lastWord] >> below << below}
	in, counts := uint64(0), uint64(0)                    // the number of a word of the counts, and its bits so far
	at, word, used := t.counts/64, uint64(0), t.counts%64 // a word of the remainders, and its bits in use
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

// list lists the words of a line that differ from the words before the change.
//
// All stores are guarded, even the stores of an insert or a change in a single word. A
// change of counts and remainders usually spans several words, and between its stores no
// item of the line can be read. And between two loads of a lookup, several changes may
// happen. Counts from before a change with remainders from after it show items that never
// were, and hide items that were there all the time.
func list(l, before *layout.Line, stores *layout.Stores) {
	for i, w := range l {
		if w != before[i] {
			stores.Add(uint64(i), true)
		}
	}
}
