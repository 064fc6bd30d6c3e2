package layout

import (
	"math/bits"
	"slices"
)

// A Crowd holds the items of a full line and items that have come to it: more than the
// line has slots.
type Crowd struct {
	Others []uint64 // the other line of each item
	Rooms  []uint8  // the room in that line, up to MostRoom; an item with 0 stays

	line uint64
	fps  []uint32 // of the items of the line, in order, then of those that have come
	may  []uint8  // indices of movable items
	left []uint64
}

// MostRoom is the largest value in Crowd.Rooms.
const MostRoom = 3

// A Chooser is a Table in which any items of a full line can make room for any others.
type Chooser interface {
	// Gather fills c with the items of a full line and those of the sorted hashes that
	// have come to it, in this order. There may be at most as many hashes as the line
	// has slots. Every item is marked as one that stays.
	Gather(c *Crowd, l *Line, came []uint64)
	// Part puts as many items of c into l as it has slots and returns the hashes that
	// the others have in their other lines. It chooses items that together leave few
	// overflow bits in l, beside those that are set already; among items that leave no
	// further bits, those with the most room. Rooms must mark at least as many items as
	// have to leave.
	Part(c *Crowd, l *Line) (left []uint64)
}

// Gather implements Chooser.
func (t *compact) Gather(c *Crowd, l *Line, came []uint64) {
	if len(came) > int(t.b) {
		panic("layout: more items have come than a line holds")
	}
	var fps [maxSlots]uint32
	n, _ := t.slots(l, &fps)
	c.fps = append(c.fps[:0], fps[:n]...)
	for _, h := range came {
		it := t.Split(h)
		c.line, c.fps = it.Line, append(c.fps, it.Fp)
	}
	n = len(c.fps)
	c.Rooms = slices.Grow(c.Rooms[:0], n)[:n]
	clear(c.Rooms)
	others := slices.Grow(c.Others[:0], n)[:n]
	for i, fp := range c.fps {
		others[i] = alternate(c.line, uint64(fp), t.lines)
	}
	c.Others = others
}

// Part implements Chooser.
func (t *compact) Part(c *Crowd, l *Line) (left []uint64) {
	may, n := c.mayLeave(), len(c.fps)-int(t.b)
	if n < 1 || n > len(may) {
		panic("layout: a crowd fits, or too few of its items may leave")
	}
	marks := t.marksFor(c, may, l[lastWord], n)
	free := may[:0]
	for _, i := range may {
		if t.overflowBits(uint64(c.fps[i]))&^marks == 0 {
			free = append(free, i)
		}
	}
	c.left = c.left[:0]
	const gone = ^uint32(0)
	for room := uint8(MostRoom); room > 0; room-- {
		for _, i := range free {
			if fp := uint64(c.fps[i]); c.Rooms[i] == room && len(c.left) < n {
				l[lastWord] |= t.overflowBits(fp)
				c.left = append(c.left, joinHash(c.Others[i], fp<<t.shift, t.lines))
				c.fps[i] = gone
			}
		}
	}
	t.encode(l, c.staying(gone))
	return c.left
}

// mayLeave sets c.may to the indices of movable items. It is branch-free, since a
// branch would mispredict: -room has its high bit set unless room is 0.
func (c *Crowd) mayLeave() []uint8 {
	may, n := slices.Grow(c.may[:0], len(c.Rooms))[:len(c.Rooms)], 0
	for i, room := range c.Rooms {
		may[n] = uint8(i)
		n += int(-room >> 7)
	}
	c.may = may[:n]
	return c.may
}

// staying returns the fingerprints of the items that are not gone, sorted. Most of them
// are in order.
func (c *Crowd) staying(gone uint32) []uint32 {
	n := 0
	for _, fp := range c.fps {
		if fp == gone {
			continue
		}
		at := n
		for ; at > 0 && c.fps[at-1] > fp; at-- {
			c.fps[at] = c.fps[at-1]
		}
		c.fps[at] = fp
		n++
	}
	return c.fps[:n]
}

// marksFor sets overflow bits in a last word until n of some items of a crowd need no
// other. It sets the pair of bits whose items have the most room elsewhere, all
// together, and then repeatedly the bit with which the items that can leave have the
// most. (Counting the items instead of their room makes more lookups go on, since more
// items come back. Trying every pair and taking the best helps, but takes many times
// the work.)
func (t *compact) marksFor(c *Crowd, some []uint8, last uint64, n int) uint64 {
	const one = 1 << 16 // item, above the room of all: at most that of a crowd
	const _ = uint(one - 1 - 2*maxSlots*MostRoom)
	var have [overflowPairs]uint32      // the items that have this pair
	var leaving [maxOverflowBits]uint32 // those that have this bit, and another one that is set
	first := uint32(0)                  // the pair of those with most room, below that
	for _, i := range some {
		pair := c.fps[i] % overflowPairs
		have[pair] += one | uint32(c.Rooms[i])
		first = max(first, have[pair]%one<<8|pair)
	}
	set, left := uint64(0), uint32(0)
	mark := func(o uint32) {
		set |= 1 << o
		left += leaving[o%maxOverflowBits] / one
		for _, s := range t.sharing[o%maxOverflowBits] {
			leaving[s.other%maxOverflowBits] += have[s.pair%overflowPairs]
		}
	}
	below := 64 - t.v
	for w := last >> below; w != 0; w &= w - 1 {
		mark(uint32(bits.TrailingZeros64(w)))
	}
	if set == 0 {
		mark(uint32(t.pairs[first%overflowPairs][0]))
	}
	for int(left) < n {
		best := uint32(0) // a bit, below the room of those that leave with it
		for o, items := range leaving[:t.v] {
			unset := uint32(set>>o&1) - 1
			best = max(best, items%one<<8&unset|uint32(o))
		}
		if best>>8 == 0 { // all others need two
			for i, items := range have {
				o := uint32(t.pairs[i][0])
				unset := uint32(set>>o&1) - 1
				best = max(best, items%one<<8&unset|o)
			}
		}
		mark(best & 0xFF)
	}
	return last | set<<below
}
