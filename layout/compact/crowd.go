package compact

import (
	"slices"

	"github.com/mmapfilter/mmapfilter/layout"
)

// guestFlag marks a guest in Crowd.Fps, above the bits of a fingerprint.
const guestFlag = 1 << 31

// Gather implements Chooser.
func (t *table) Gather(c *layout.Crowd, l *layout.Line, line uint64, came []uint64) {
	if len(came) > int(t.b) {
		panic("layout: more items have come than a line holds")
	}
	var fps [maxSlots]uint32
	n, _ := t.slots(l, &fps)
	c.Line, c.Fps = line, append(c.Fps[:0], fps[:n]...)
	for i := range guestsOf(l) {
		c.Fps = append(c.Fps, uint32(t.guest(l, i))|guestFlag)
	}
	for _, h := range came {
		it := t.Unhash(h)
		c.Fps = append(c.Fps, it.Fp|it.Bucket*guestFlag)
	}
	c.Rooms = slices.Grow(c.Rooms[:0], len(c.Fps))[:len(c.Fps)]
	clear(c.Rooms)
	c.Others = c.Others[:0]
	for _, fp := range c.Fps {
		c.Others = append(c.Others, t.Alternate(itemOf(line, fp)).Line)
	}
}

// itemOf is the item of an entry of Crowd.Fps.
func itemOf(line uint64, fp uint32) layout.Item {
	return layout.Item{Line: line, Bucket: fp / guestFlag, Fp: fp % guestFlag}
}

// Part implements Chooser. Guests go home first, those with the most room there before
// others. Then items leave in the directions whose bits are set, and then in one direction
// after the other: that in which the items have the most room, all together.
func (t *table) Part(c *layout.Crowd, l *layout.Line) (left []uint64, ok bool) {
	home, guests := uint64(0), uint64(0)
	var room [directions]int // of the items at home, with their number
	const one = 1 << 16      // item, above the room of all
	const _ = uint(one - 1 - 2*maxSlots*layout.MostRoom)
	for i, fp := range c.Fps {
		if fp&guestFlag != 0 {
			guests++
			continue
		}
		if home++; c.Rooms[i] > 0 {
			room[fp%directions] += one + int(c.Rooms[i])
		}
	}
	fits := func() bool { return home <= t.b && guests <= mostGuests && t.unused(home, guests) >= 0 }
	c.Left = c.Left[:0]
	const gone = ^uint32(0)
	leave := func(which func(fp uint32) bool) {
		for most := uint8(layout.MostRoom); most > 0; most-- {
			for i, fp := range c.Fps {
				if fits() {
					return
				}
				if fp == gone || c.Rooms[i] != most || !which(fp) {
					continue
				}
				if c.Fps[i] = gone; fp&guestFlag != 0 {
					guests--
				} else {
					home--
				}
				c.Left = append(c.Left, t.Hash(t.Alternate(itemOf(c.Line, fp))))
			}
		}
	}
	before := l[lastWord]
	set := func(direction uint32) bool { return l[lastWord]&t.overflowBit(uint64(direction)) != 0 }
	leave(func(fp uint32) bool { return fp&guestFlag != 0 })
	leave(func(fp uint32) bool { return fp&guestFlag == 0 && set(fp) })
	for !fits() {
		best := uint32(0)
		for direction := range uint32(directions) {
			if set(direction) {
				room[direction] = 0
			}
			if room[direction] > room[best] {
				best = direction
			}
		}
		if room[best] == 0 {
			l[lastWord] = before
			return nil, false
		}
		l[lastWord] |= t.overflowBit(uint64(best))
		leave(func(fp uint32) bool { return fp&guestFlag == 0 && fp%directions == best })
	}
	t.settle(l, c, gone)
	return c.Left, true
}

// settle puts the items of a crowd that are not gone into a line. Most of them are in order.
func (t *table) settle(l *layout.Line, c *layout.Crowd, gone uint32) {
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
	all := c.Fps[:n] // guests are last: their flag is above all fingerprints
	home, _ := slices.BinarySearch(all, guestFlag)
	t.encode(l, all[:home])
	for _, fp := range all[home:] {
		t.placeGuest(l, uint64(fp%guestFlag))
	}
}
