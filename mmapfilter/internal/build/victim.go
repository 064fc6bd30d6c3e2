package build

import (
	"math/bits"

	"github.com/mmapfilter/mmapfilter/layout"
)

// takeTogether puts the items that arrived at one full line, loaded in w, into it. It sends as
// many items whose other lines had room at the end of the previous round. It chooses them
// together (place, P9), which sets fewer overflow bits than choosing one after the other. It does
// nothing and returns false if there are too few such items, or if more items arrived than a line
// holds; those are copies of one key.
func (b *builder) takeTogether(w *worker, line uint64, came []uint64) (done bool, err error) {
	if len(came) > layout.SlotsPerLine(b.plan.Geometry.Kind, b.plan.Geometry.Params) {
		return false, nil
	}
	c, some := &w.crowd, 0
	b.hosts.Gather(c, &w.line, line, came)
	for i, other := range c.Others { // the other line of an item that was sent here was full, and still is
		room := b.room.of(other)
		c.Rooms[i] = uint8(room)
		some += min(room, 1)
	}
	if some < len(came) {
		return false, nil
	}
	left, ok := b.hosts.Part(c, &w.line)
	for _, h := range left {
		if err := w.homeless.add(h); err != nil {
			return true, err
		}
	}
	return ok, nil
}

// The score of an item that may leave a line (place, P9). It orders items first by whether their other
// line has room, then by the cost that the move adds to lookups, then by how much room that line has:
// one step of cost outweighs any amount of room, and having room outweighs any cost.
const (
	perCost  = -(maxRoom + 1)
	leastOf  = layout.MostCost * perCost // the least score of a cost
	someRoom = -(layout.MostCost + 1) * perCost
)

// victim chooses the item that leaves the line loaded in w to make room: by chance, one of those
// with the highest score. In round 0 the new item itself may go; later it goes if no other item
// makes room.
func (b *builder) victim(w *worker, it layout.Item, h uint64, round int) (goes layout.Item) {
	w.victims = b.table.Victims(w.victims, &w.line, it)
	if round == 0 {
		w.victims = append(w.victims, it)
	}
	goes = it
	most := leastOf - 1 // less than any score
	chance, _ := bits.Mul64((h+uint64(round))*0x9E3779B97F4A7C15, uint64(len(w.victims)))
	for _, some := range [2][]layout.Item{w.victims[chance:], w.victims[:chance]} {
		for _, v := range some {
			score := 0
			if b.hosts != nil {
				score = perCost * b.hosts.Cost(&w.line, v)
			}
			if score+someRoom+maxRoom <= most { // whatever its room
				continue
			}
			if room := b.room.of(b.table.Alternate(v).Line); room > 0 {
				score += someRoom + room
			}
			if score > most {
				goes, most = v, score
			}
		}
	}
	return goes
}
