package main

import "math/bits"

const (
	lineBits     = 512
	quotientBits = 6
	quotients    = 1 << quotientBits
	guestBits    = 4 // bits for the number of guests
	mostGuests   = 1<<guestBits - 1
)

// A room is how much a line has for its items, and how much an item takes: in bits, or in slots if
// all items take the same.
type room struct {
	slots       int  // items that fit in a line if all of them are at home
	size        int  // of the room
	home, guest int  // that an item at home takes, and a guest
	most        int  // guests in a line
	shared      bool // guests take slots, too
}

// newRoom returns the room for an idea, with fingerprints of f bits and v overflow bits.
func newRoom(idea string, f, v int) room {
	free := lineBits - quotients - 1 - v // each slot takes one of these for the counts
	r := f - quotientBits
	same := func(n int) room { return room{slots: n, size: n, home: 1, guest: 1, most: n} }
	switch idea {
	case "pairs":
		return same(free / (1 + r))
	case "slotbit":
		return same(free / (1 + r + 1))
	}
	free -= guestBits
	// A guest takes these bits, too. They stay free, so that it can take the place of an item at home.
	more := quotientBits
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
