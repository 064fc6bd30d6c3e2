package peer

import "fmt"

// Quotient is the quotient filter (Bender et al., "Don't Thrash: How to Cache Your Hash on Flash",
// VLDB 2012): 2^q slots of r + 3 bits. The fingerprint of a key has q + r bits. Its quotient, the
// high q bits, names a slot. Its remainder is stored there or in a later slot, as with linear
// probing.
//
// The remainders of one quotient are adjacent and in ascending order: a run. Runs are in the order
// of their quotients. A sequence of runs in which only the first entry is in its own slot is a
// cluster. Three bits of a slot are enough to find the run of a quotient:
//
//	occupied      some key has this slot's number as its quotient. It tells of the
//	              slot, not of the entry that is in it, and never moves
//	continuation  the entry is not the first of its run
//	shifted       the entry is not in the slot that its quotient names
//
// An empty slot has none of the three. The first slot follows the last.
//
// Keys with the same fingerprint have adjacent entries, so deletes are exact: the filter is a
// multiset of fingerprints. At a load of a, the rate is 1 - e^(-a/2^r), and a key costs (r+3)/a
// bits. The paper has q = 27, r = 9, a = 0.9: 192 MiB, 120.80 million keys, 13.33 bits a key and
// 0.18 %.
type Quotient struct {
	slots     packed // remainder << 3 | the three bits
	last      uint64 // 2^q - 1
	remainder int    // r
	entries   uint64
	limit     uint64 // of entries
}

const (
	occupied = 1 << iota
	continuation
	shifted
	metadataBits = iota
	metadata     = 1<<metadataBits - 1
)

// quotientLoad is the load at which the filter counts as full. Clusters grow without bound as
// the load approaches 1; the paper fills its filter to 90 %.
const quotientLoad = 0.9

// NewQuotient makes a quotient filter of 2^q slots of remainder + 3 bits. It is full when 90 %
// of them are in use.
func NewQuotient(q, remainder int) (*Quotient, error) {
	if q < 3 || q > 40 || remainder < 1 || q+remainder > 64 {
		return nil, fmt.Errorf("a quotient filter of 2^%d slots and remainders of %d bits", q, remainder)
	}
	slots, width := uint64(1)<<q, remainder+metadataBits
	return &Quotient{
		slots:     newPacked(slots, width),
		last:      slots - 1,
		remainder: remainder,
		limit:     uint64(quotientLoad * float64(slots)),
	}, nil
}

// split returns the fingerprint of a key. Quotient and remainder use different bits of the
// hash.
func (f *Quotient) split(key uint64) (q, r uint64) {
	h := hash(key)
	return h >> f.remainder & f.last, h & (1<<f.remainder - 1)
}

func (f *Quotient) next(slot uint64) uint64     { return (slot + 1) & f.last }
func (f *Quotient) previous(slot uint64) uint64 { return (slot - 1) & f.last }
func (f *Quotient) is(slot, bit uint64) bool    { return f.slots.get(slot)&bit != 0 }

// run returns where the run of an occupied quotient begins, or must begin if it has no entry yet. It
// goes back to the head of the cluster, and from there forward, one run for each occupied quotient.
//
// REQUIRES: slot q is occupied, and not empty.
func (f *Quotient) run(q uint64) uint64 {
	owner := q
	for f.is(owner, shifted) {
		owner = f.previous(owner)
	}
	start := owner
	for owner != q {
		owner = f.nextOccupied(owner)
		start = f.next(start)
		for f.is(start, continuation) {
			start = f.next(start)
		}
	}
	return start
}

func (f *Quotient) nextOccupied(slot uint64) uint64 {
	slot = f.next(slot)
	for !f.is(slot, occupied) {
		slot = f.next(slot)
	}
	return slot
}

// find looks for a remainder in the run of a quotient. If it is not there, slot is where it belongs.
//
// REQUIRES: slot q is occupied, and its run has an entry.
func (f *Quotient) find(q, r uint64) (start, slot uint64, found bool) {
	start = f.run(q)
	for slot = start; ; {
		entry := f.slots.get(slot)
		if stored := entry >> metadataBits; stored >= r {
			return start, slot, stored == r
		}
		slot = f.next(slot)
		if !f.is(slot, continuation) {
			return start, slot, false
		}
	}
}

func (f *Quotient) Contains(key uint64) bool { return f.contains(f.split(key)) }

func (f *Quotient) contains(q, r uint64) bool {
	if !f.is(q, occupied) {
		return false
	}
	_, _, found := f.find(q, r)
	return found
}

func (f *Quotient) Insert(key uint64) bool { return f.insert(f.split(key)) }

func (f *Quotient) insert(q, r uint64) bool {
	if f.entries >= f.limit {
		return false
	}
	f.entries++
	home := f.slots.get(q)
	if home&metadata == 0 {
		f.slots.set(q, r<<metadataBits|occupied)
		return true
	}
	entry := r << metadataBits
	var slot uint64
	if home&occupied == 0 {
		f.slots.set(q, home|occupied)
		slot = f.run(q)
	} else {
		var start uint64
		start, slot, _ = f.find(q, r)
		if slot != start {
			entry |= continuation
		} else {
			f.slots.set(start, f.slots.get(start)|continuation) // the old first entry of the run
		}
	}
	if slot != q {
		entry |= shifted
	}
	f.shiftIn(slot, entry)
	return true
}

// shiftIn puts an entry in a slot, and moves that slot's entry and those after it one slot on,
// up to the next empty slot.
func (f *Quotient) shiftIn(slot, entry uint64) {
	for {
		old := f.slots.get(slot)
		f.slots.set(slot, entry|old&occupied)
		if old&metadata == 0 {
			return
		}
		entry = old&^occupied | shifted
		slot = f.next(slot)
	}
}

func (f *Quotient) Delete(key uint64) bool { return f.delete(f.split(key)) }

func (f *Quotient) delete(q, r uint64) bool {
	if !f.is(q, occupied) {
		return false
	}
	start, slot, found := f.find(q, r)
	if !found {
		return false
	}
	f.entries--
	if slot == start {
		if after := f.next(slot); f.is(after, continuation) {
			// The second entry of the run becomes the first.
			f.slots.set(after, f.slots.get(after)&^continuation)
			f.shiftOut(slot, f.previous(q))
			return true
		}
		f.slots.set(q, f.slots.get(q)&^occupied) // the run is now empty
	}
	f.shiftOut(slot, q)
	return true
}

// shiftOut removes the entry of a slot, and moves the entries after it one slot back, up to an
// empty slot or an entry in its own slot. An entry that moves into its own slot is the first of
// its run. The quotient of the next run is the next occupied slot after owner, and so on with
// each run that begins.
func (f *Quotient) shiftOut(slot, owner uint64) {
	for {
		after := f.next(slot)
		entry := f.slots.get(after)
		if entry&shifted == 0 {
			f.slots.set(slot, 0) // the cluster ends: no later entry has this slot as its quotient
			return
		}
		if entry&continuation == 0 {
			owner = f.nextOccupied(owner)
			if owner == slot {
				entry &^= shifted
			}
		}
		f.slots.set(slot, entry&^occupied|f.slots.get(slot)&occupied)
		slot = after
	}
}

// Bytes leaves out the one word after the slots.
func (f *Quotient) Bytes() uint64 { return (f.last + 1) / 8 * f.slots.width }
