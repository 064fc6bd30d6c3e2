package compact

import "github.com/mmapfilter/mmapfilter/layout"

// Guests are the items that are not in their home line. Guest i of a line is the bits below guest
// i-1: its quotient and its remainder. Guests are in ascending order. A guest has come in the
// direction of its fingerprint, so all guests of one direction in a line have the same home, and
// no other line has guests of this home and direction. So in the home line, the overflow bit of a
// direction is set exactly as long as this one line, or the stash, has such an item.

func guestsOf(l *layout.Line) uint64 {
	return layout.LoadOf(l, lastWord) >> (guestsEnd % 64) % (1 << guestBits)
}

// guestAt returns the fingerprint of a guest. As in run, the words may come from different
// instants.
func (t *table) guestAt(l *layout.Line, i uint64) uint64 {
	return window(l, guestsEnd-(i+1)*t.guest) & (1<<t.guest - 1)
}

// lookGuest reports whether a line has a guest with a fingerprint.
func (t *table) lookGuest(l *layout.Line, fp uint64) bool {
	for i := range guestsOf(l) {
		if t.guestAt(l, i) == fp {
			return true
		}
	}
	return false
}

// placeGuest adds a guest to a line that has room for it.
func (t *table) placeGuest(l *layout.Line, fp uint64) {
	n, i := guestsOf(l), uint64(0)
	for i < n && t.guestAt(l, i) < fp {
		i++
	}
	top := guestsEnd - i*t.guest // of the new guest
	remove(l, guestsEnd-(n+1)*t.guest, top, t.guest)
	layout.PutBits(l[:], top-t.guest, t.guest, fp)
	l[lastWord] += 1 << (guestsEnd % 64)
}

// removeGuest removes one guest with this fingerprint, and reports whether there was one.
func (t *table) removeGuest(l *layout.Line, fp uint64) bool {
	n := guestsOf(l)
	for i := range n {
		if t.guestAt(l, i) == fp {
			insert(l, guestsEnd-n*t.guest, guestsEnd-i*t.guest, t.guest, 0)
			l[lastWord] -= 1 << (guestsEnd % 64)
			return true
		}
	}
	return false
}

// unused returns the bits between the slots in use and the guests. Only in a damaged line
// is it negative.
func (t *table) unused(home, guests uint64) int64 {
	return int64(guestsEnd-t.counts) - int64(home*t.r+guests*t.guest)
}

// hasRoom reports whether a line has room for one more item.
func (t *table) hasRoom(home, guests uint64, bucket uint32) bool {
	if bucket == aGuest {
		return guests < mostGuests && t.unused(home, guests) >= int64(t.guest)
	}
	return home < t.b && t.unused(home, guests) >= int64(t.r)
}
