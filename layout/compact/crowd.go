package compact

import (
	"slices"

	"github.com/mmapfilter/mmapfilter/layout"
)

// guestFlag marks a guest in Crowd.Fps, above the bits of a fingerprint.
const guestFlag = 1 << 31

// Gather implements layout.Hosts.
func (t *table) Gather(c *layout.Crowd, l *layout.Line, line uint64, came []uint64) {
	if len(came) > int(t.b) {
		panic("layout: more items have come than a line holds")
	}
	var fps [maxSlots]uint32
	n, _ := t.slots(l, &fps)
	c.Line, c.Fps = line, append(c.Fps[:0], fps[:n]...)
	for i := range guestsOf(l) {
		c.Fps = append(c.Fps, uint32(t.guestAt(l, i))|guestFlag)
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

// itemOf returns the item of an entry of Crowd.Fps.
func itemOf(line uint64, fp uint32) layout.Item {
	return layout.Item{Line: line, Bucket: fp / guestFlag, Fp: fp % guestFlag}
}

// The groups in which items leave a line: for each direction whose overflow bit is not set, its
// items; the guests; and the items in directions whose bits are set.
const (
	groupGuests = directions + iota
	groupSet
	groups
)

// A queue has the items of a crowd that may leave, by group and by the room that they find
// elsewhere. It has their indices plus one; 0 ends a list.
type queue struct {
	first [groups][layout.MostRoom + 1]uint8
	next  [1 << 8]uint8
	room  [groups]int // the sum over the items, plus oneItem for each
}

const oneItem = 1 << 16 // more than the room of all items together

const _ = uint(oneItem - 1 - 2*maxSlots*layout.MostRoom)

// Part implements layout.Hosts. Guests go home first, in the order of the room in their
// home lines, the most room first. Then items leave in the directions whose overflow bits
// are set. Then items leave in other directions, one direction after the other: first the
// direction whose items together find the most room.
func (t *table) Part(c *layout.Crowd, l *layout.Line) (left []uint64, ok bool) {
	home, guests := uint64(0), uint64(0)
	var q queue
	for i := len(c.Fps) - 1; i >= 0; i-- {
		fp, group := c.Fps[i], uint32(groupGuests)
		if fp&guestFlag != 0 {
			guests++
		} else if home++; l[lastWord]&overflowBit(uint64(fp)) != 0 {
			group = groupSet
		} else {
			group = fp % directions
		}
		if room := c.Rooms[i]; room > 0 {
			q.room[group] += oneItem + int(room)
			q.next[i%len(q.next)], q.first[group][room] = q.first[group][room], uint8(i+1)
		}
	}
	fits := func() bool { return home <= t.b && guests <= mostGuests && t.unused(home, guests) >= 0 }
	c.Left = c.Left[:0]
	const gone = ^uint32(0)
	leave := func(group int) {
		for room := layout.MostRoom; room > 0; room-- {
			for i := q.first[group][room]; i != 0 && !fits(); i = q.next[i-1] {
				fp := &c.Fps[i-1]
				c.Left = append(c.Left, t.Hash(t.Alternate(itemOf(c.Line, *fp))))
				if *fp&guestFlag != 0 {
					guests--
				} else {
					home--
				}
				*fp = gone
			}
		}
		q.room[group] = 0
	}
	before := l[lastWord]
	leave(groupGuests)
	leave(groupSet)
	for !fits() {
		best := 0
		for direction, room := range q.room[:directions] {
			if room > q.room[best] {
				best = direction
			}
		}
		if q.room[best] == 0 {
			l[lastWord] = before
			return nil, false
		}
		l[lastWord] |= overflowBit(uint64(best))
		leave(best)
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
