package compact

import (
	"math/bits"
	"slices"

	"github.com/mmapfilter/mmapfilter/layout"
)

// Gather implements Chooser.
func (t *table) Gather(c *layout.Crowd, l *layout.Line, came []uint64) {
	if len(came) > int(t.b) {
		panic("layout: more items have come than a line holds")
	}
	var fps [maxSlots]uint32
	n, _ := t.slots(l, &fps)
	c.Fps = append(c.Fps[:0], fps[:n]...)
	for _, h := range came {
		it := t.Split(h)
		c.Line, c.Fps = it.Line, append(c.Fps, it.Fp)
	}
	n = len(c.Fps)
	c.Rooms = slices.Grow(c.Rooms[:0], n)[:n]
	clear(c.Rooms)
	others := slices.Grow(c.Others[:0], n)[:n]
	for i, fp := range c.Fps {
		others[i] = layout.AlternateLine(c.Line, uint64(fp), t.lines)
	}
	c.Others = others
}

// Part implements Chooser.
func (t *table) Part(c *layout.Crowd, l *layout.Line) (left []uint64) {
	may, n := mayLeave(c), len(c.Fps)-int(t.b)
	if n < 1 || n > len(may) {
		panic("layout: a crowd fits, or too few of its items may leave")
	}
	marks := t.marksFor(c, may, l[lastWord], n)
	free := may[:0]
	for _, i := range may {
		if t.overflowBits(uint64(c.Fps[i]))&^marks == 0 {
			free = append(free, i)
		}
	}
	c.Left = c.Left[:0]
	const gone = ^uint32(0)
	for room := uint8(layout.MostRoom); room > 0; room-- {
		for _, i := range free {
			if fp := uint64(c.Fps[i]); c.Rooms[i] == room && len(c.Left) < n {
				l[lastWord] |= t.overflowBits(fp)
				c.Left = append(c.Left, layout.JoinHash(c.Others[i], fp<<t.shift, t.lines))
				c.Fps[i] = gone
			}
		}
	}
	t.encode(l, staying(c, gone))
	return c.Left
}

// mayLeave sets c.May to the indices of movable items. It is branch-free, since a
// branch would mispredict: -room has its high bit set unless room is 0.
func mayLeave(c *layout.Crowd) []uint8 {
	may, n := slices.Grow(c.May[:0], len(c.Rooms))[:len(c.Rooms)], 0
	for i, room := range c.Rooms {
		may[n] = uint8(i)
		n += int(-room >> 7)
	}
	c.May = may[:n]
	return c.May
}

// staying returns the fingerprints of the items that are not gone, sorted. Most of them
// are in order.
func staying(c *layout.Crowd, gone uint32) []uint32 {
	n := 0
	for _, fp := range c.Fps {
		if fp == gone {
			continue
		}
		at := n
		for ; at > 0 && c.Fps[at-1] > fp; at-- {
			c.Fps[at] = c.Fps[at-1]
		}
		c.Fps[at] = fp
		n++
	}
	return c.Fps[:n]
}

// marksFor sets overflow bits in a last word until n of some items of a crowd need no
// other. It sets the pair of bits whose items have the most room elsewhere, all
// together, and then repeatedly the bit with which the items that can leave have the
// most. (Counting the items instead of their room makes more lookups go on, since more
// items come back. Trying every pair and taking the best helps, but takes many times
// the work.)
func (t *table) marksFor(c *layout.Crowd, some []uint8, last uint64, n int) uint64 {
	const one = 1 << 16 // item, above the room of all: at most that of a crowd
	const _ = uint(one - 1 - 2*maxSlots*layout.MostRoom)
	var have [overflowPairs]uint32      // the items that have this pair
	var leaving [maxOverflowBits]uint32 // those that have this bit, and another one that is set
	first := uint32(0)                  // the pair of those with most room, below that
	for _, i := range some {
		pair := c.Fps[i] % overflowPairs
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
