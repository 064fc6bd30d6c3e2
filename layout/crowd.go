package layout

import (
	"math/bits"
	"slices"
)

// A Crowd is what a full line holds and what has come there: more items than it has slots.
type Crowd struct {
	Others []uint64 // the other line of each item
	Rooms  []uint8  // how much room it has there, up to MostRoom; with 0 it stays

	line uint64
	fps  []uint32 // of the items of the line, in their order, and of those that have come
	may  []uint8  // the numbers of those that may leave
	left []uint64
}

// MostRoom is the most that there may be in Rooms.
const MostRoom = 3

// A Chooser is a Table in which any items of a full line may make room for any others.
type Chooser interface {
	// Gather makes c of a full line, and of the items of sorted hashes that have come to it, in
	// this order: at most as many as it has slots. All are to stay.
	Gather(c *Crowd, l *Line, came []uint64)
	// Part puts as many items of c into l as it has slots. The others leave, those with few
	// overflow bits left in l, together with those that it has; of items that leave no other bits,
	// those with most room. It gives the hashes that they have in their other lines.
	// At least so many have to have room.
	Part(c *Crowd, l *Line) (left []uint64)
}

// Gather is of a Chooser.
func (t *compact) Gather(c *Crowd, l *Line, came []uint64) {
	if len(came) > int(t.b) {
		panic("layout: more have come than a line holds")
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

// Part is of a Chooser.
func (t *compact) Part(c *Crowd, l *Line) (left []uint64) {
	may, n := c.mayLeave(), len(c.fps)-int(t.b)
	if n < 1 || n > len(may) {
		panic("layout: a crowd that fits, or of which too few may leave")
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

// mayLeave makes may the numbers of those that may leave, without a branch, since nobody can
// foretell who may: less than nothing, but not nothing, has the high bit.
func (c *Crowd) mayLeave() []uint8 {
	may, n := slices.Grow(c.may[:0], len(c.Rooms))[:len(c.Rooms)], 0
	for i, room := range c.Rooms {
		may[n] = uint8(i)
		n += int(-room >> 7)
	}
	c.may = may[:n]
	return c.may
}

// staying gives the fingerprints that are not gone, in their order: most of them are in it.
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

// marksFor sets overflow bits in a last word until n of some items of a crowd need no other:
// one of the pair whose items have most room elsewhere, all together, and then each time the bit
// with which the items that can leave have most. (For how many they are in place of their room,
// 5 to 13 % more lookups go on: more of them come back. Tried from every pair, of which the
// best is taken, a seventh fewer do, for many times the work.)
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
