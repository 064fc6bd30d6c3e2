package main

import "math/bits"

const (
	lineBits     = 512
	quotientBits = 6
	quotients    = 1 << quotientBits
	guestBits    = 4 // bits for the number of guests
	mostGuests   = 1<<guestBits - 1
)

// A room is what a line has for its items, and what they take of it: bits, or slots if all
// items take the same.
type room struct {
	slots       int // items that fit in a line if all of them are at home
	size        int
	home, guest int  // of an item at home, of a guest
	most        int  // guests
	shared      bool // guests are in the slots too
}

// newRoom returns that of an idea, with fingerprints of f bits and v overflow bits.
func newRoom(idea string, f, v int) room {
	free := lineBits - quotients - 1 - v // of which a slot takes one for the counts
	r := f - quotientBits
	same := func(n int) room { return room{slots: n, size: n, home: 1, guest: 1, most: n} }
	switch idea {
	case "pairs":
		return same(free / (1 + r))
	case "slotbit":
		return same(free / (1 + r + 1))
	}
	free -= guestBits
	more := quotientBits // that a guest takes, and that are left so that an item at home can make room for one
	slots := (free - more) / (1 + r)
	if idea == "list" {
		more = bits.Len(uint(slots - 1))
		slots = (free - more) / (1 + r)
	}
	return room{slots: slots, size: free - slots, home: r, guest: r + more, most: mostGuests, shared: idea == "list"}
}

// takes reports whether a line has room for that many items.
func (r *room) takes(home, guests int) bool {
	inSlots := home
	if r.shared {
		inSlots += guests
	}
	return inSlots <= r.slots && guests <= r.most && home*r.home+guests*r.guest <= r.size
}
