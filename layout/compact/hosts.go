package compact

import (
	"fmt"
	"math/bits"

	"github.com/mmapfilter/mmapfilter/layout"
)

// This file has the methods that know guests: they tell which items may leave a line, and
// which overflow bits a line needs.

// Victims returns all items at home if the line has room for the item once one of them has
// left, and all guests if it has room once one guest has left. These are two conditions: an
// item at home that leaves may free fewer bits than a guest needs; and a line with b items at
// home takes no further item at home, whichever guests leave. A damaged line has no victims.
func (t *table) Victims(dst []layout.Item, l *layout.Line, it layout.Item) []layout.Item {
	dst = dst[:0]
	var fps [maxSlots]uint32
	n, err := t.slots(l, &fps)
	if err != nil {
		return dst
	}
	home, guests := uint64(n), guestsOf(l)
	if home > 0 && t.hasRoom(home-1, guests, it.Bucket) {
		for _, fp := range fps[:home] {
			dst = append(dst, layout.Item{Line: it.Line, Fp: fp})
		}
	}
	if guests > 0 && t.hasRoom(home, guests-1, it.Bucket) {
		for i := range guests {
			dst = append(dst, layout.Item{Line: it.Line, Bucket: aGuest, Fp: uint32(t.guestAt(l, i))})
		}
	}
	return dst
}

// Leavers implements layout.Hosts. Items of the same cost come in the opposite order of Victims.
func (t *table) Leavers(dst []layout.Item, l *layout.Line, it layout.Item, itself bool) []layout.Item {
	dst = dst[:0]
	var fps [maxSlots]uint32
	n, err := t.slots(l, &fps)
	home, guests := uint64(n), guestsOf(l)
	if err != nil {
		home, guests = 0, 0 // no item leaves a damaged line
	}
	if guests > 0 && t.hasRoom(home, guests-1, it.Bucket) {
		came := uint64(0) // the directions of the guests so far
		for i := guests; i > 0; i-- {
			if fp := uint32(t.guestAt(l, i-1)); came>>(fp%directions)&1 == 0 {
				came |= 1 << (fp % directions)
				dst = append(dst, layout.Item{Line: it.Line, Bucket: aGuest, Fp: fp})
			}
		}
	}
	if home == 0 || !t.hasRoom(home-1, guests, it.Bucket) {
		home = 0
	}
	set := l[lastWord] >> (64 - directions)
	// For each direction, the number of its last item at home, counted from 1. The loop has no branch
	// on the direction, which would mispredict.
	var last [directions]uint8
	for i, fp := range fps[:home] {
		last[fp%directions] = uint8(i + 1)
	}
	for _, left := range [2]uint64{set, set ^ (1<<directions - 1)} { // the directions of one cost
		if itself && left>>(it.Fp%directions)&1 != 0 {
			left &^= 1 << (it.Fp % directions)
			dst = append(dst, it)
		}
		var slots [2]uint64 // a bit for each of the last items, by its number
		for ; left != 0; left &= left - 1 {
			slot := last[bits.TrailingZeros64(left)%directions]
			slots[slot/64%2] |= 1 << (slot % 64)
		}
		slots[0] &^= 1 // number 0 stands for a direction without items
		for i := 1; i >= 0; i-- {
			for slots[i] != 0 {
				slot := 63 - bits.LeadingZeros64(slots[i])
				slots[i] &^= 1 << slot
				dst = append(dst, layout.Item{Line: it.Line, Fp: fps[(64*i+slot-1)%maxSlots]})
			}
		}
	}
	return dst
}

// SetOverflow needs no guard: it changes only overflow bits, in the last word. A guest that
// leaves sets no bit.
func (t *table) SetOverflow(l *layout.Line, it layout.Item, stores *layout.Stores) {
	if mask := overflowBit(uint64(it.Fp)); it.Bucket == atHome && l[lastWord]&mask == 0 {
		l[lastWord] |= mask
		stores.Add(lastWord, false)
	}
}

func (t *table) overflowed(l *layout.Line, it layout.Item) bool {
	return it.Bucket == atHome && l[lastWord]&overflowBit(uint64(it.Fp)) != 0
}

// IsGuest implements layout.Hosts.
func (t *table) IsGuest(it layout.Item) bool { return it.Bucket == aGuest }

// SameBits implements layout.Hosts.
func (t *table) SameBits(a, b uint32) bool { return a%directions == b%directions }

// Related implements layout.Hosts.
func (t *table) Related(l *layout.Line, it layout.Item) (guest layout.Item, n int) {
	for i := range guestsOf(l) {
		if fp := uint32(t.guestAt(l, i)); t.SameBits(fp, it.Fp) && uint64(fp) < t.fingerprints {
			guest = layout.Item{Line: it.Line, Bucket: aGuest, Fp: fp}
			n++
		}
	}
	return guest, n
}

// ClearOverflow implements layout.Hosts. It needs no guard: the last item that needed the bit
// has been deleted, or has come home, which was guarded.
func (t *table) ClearOverflow(l *layout.Line, home layout.Item, stores *layout.Stores) {
	if mask := overflowBit(uint64(home.Fp)); l[lastWord]&mask != 0 {
		l[lastWord] &^= mask
		stores.Add(lastWord, false)
	}
}

// Absent implements layout.Hosts.
func (t *table) Absent(dst []layout.Item, l *layout.Line, line uint64) []layout.Item {
	dst = dst[:0]
	for fp := range uint32(directions) {
		if l[lastWord]&overflowBit(uint64(fp)) != 0 {
			dst = append(dst, t.Alternate(layout.Item{Line: line, Fp: fp}))
		}
	}
	return dst
}

// MakeBits implements layout.Hosts. Several goroutines may call it for different lines at the
// same time if store is atomic: overflow bits are in words that have guests too, and other
// goroutines read these words meanwhile.
func (t *table) MakeBits(v *layout.View, from, to uint64, store func(word, value uint64)) {
	stashed := map[uint64]uint64{} // by line: the overflow bits of its items in the stash
	layout.StashClasses(v.Stash, func(c layout.Class, _ uint64) {
		stashed[c.Line] |= overflowBit(uint64(c.Fp))
	})
	for line := from; line < to; line++ {
		set := stashed[line]
		for fp := range uint32(directions) {
			away := t.Alternate(layout.Item{Line: line, Fp: fp})
			if _, n := t.Related(layout.LineAt(v.Region, away.Line), away); n > 0 {
				set |= overflowBit(uint64(fp))
			}
		}
		was := layout.LineAt(v.Region, line)[lastWord]
		if is := was<<directions>>directions | set; is != was {
			store(line*layout.BlockWords+lastWord, is)
		}
	}
}

func (t *table) CheckLines(region []uint64, from, to uint64) (items, line uint64, err error) {
	for line = from; line < to; line++ {
		n, err := t.checkLine(layout.LineAt(region, line))
		items += n
		if err != nil {
			return items, line, err
		}
	}
	return items, line, nil
}

func (t *table) Items(dst []layout.Item, l *layout.Line, line uint64) []layout.Item {
	var fps [maxSlots]uint32
	n, err := t.slots(l, &fps)
	if err != nil {
		return dst
	}
	for _, fp := range fps[:n] {
		dst = append(dst, layout.Item{Line: line, Fp: fp})
	}
	for i := range guestsOf(l) {
		dst = append(dst, layout.Item{Line: line, Bucket: aGuest, Fp: uint32(t.guestAt(l, i))})
	}
	return dst
}

// checkLine counts the items of a line, and says which rule it breaks.
func (t *table) checkLine(l *layout.Line) (items uint64, err error) {
	var fps [maxSlots]uint32
	n, err := t.slots(l, &fps)
	home, guests := uint64(n), guestsOf(l)
	if err != nil {
		return home, err
	}
	left := t.unused(home, guests)
	if left < 0 {
		return home, fmt.Errorf("%d items at home and %d guests do not fit in a line", home, guests)
	}
	for bit := t.counts + home*t.r; left > 0; {
		width := uint64(min(left, 64))
		if w := window(l, bit) << (64 - width); w != 0 {
			return home, fmt.Errorf("%d bits from bit %d on are %#x, but belong to no item", width, bit, w>>(64-width))
		}
		bit, left = bit+width, left-int64(width)
	}
	for i := range guests {
		fp := uint32(t.guestAt(l, i))
		if i > 0 && uint64(fp) < t.guestAt(l, i-1) {
			return home, fmt.Errorf("guests are not sorted: %#x comes before %#x", t.guestAt(l, i-1), fp)
		}
	}
	return home + guests, nil
}

// CheckBits implements layout.Hosts.
func (t *table) CheckBits(region []uint64, from, to uint64) (line uint64, err error) {
	for line = from; line < to; line++ {
		l := layout.LineAt(region, line)
		for i := range guestsOf(l) {
			home := t.Alternate(layout.Item{Line: line, Bucket: aGuest, Fp: uint32(t.guestAt(l, i))})
			if t.Legal(home) && !t.overflowed(layout.LineAt(region, home.Line), home) {
				return line, fmt.Errorf("guest %#x has no overflow bit in its home line, %d", home.Fp, home.Line)
			}
		}
	}
	return 0, nil
}

// Probe averages over the fingerprints, which are all about equally likely. It takes the
// number of guests for the number of items away from home, since over all lines of an intact
// table the two are equal.
func (t *table) Probe(l *layout.Line, _ uint64) layout.Absent {
	items := min(t.items(l), t.b) + guestsOf(l)
	return layout.Absent{
		Rate:   matchRate(t.Params(), float64(items)),
		Second: float64(bits.OnesCount64(l[lastWord]>>(64-directions))) / directions,
	}
}
