package build

import (
	"sync/atomic"

	"github.com/mmapfilter/mmapfilter/layout"
)

// A lineRoom holds the number of free slots of each line, up to maxRoom.
type lineRoom struct {
	before []uint64 // at the end of the previous round
	now    []uint64
}

const (
	maxRoom  = layout.MostRoom // all bits of a line's count
	roomBits = 2
	perWord  = 64 / roomBits
)

func newLineRoom(lines uint64) lineRoom {
	n := (lines + perWord - 1) / perWord
	r := lineRoom{make([]uint64, n), make([]uint64, n)}
	for i := range r.now {
		r.now[i] = ^uint64(0)
	}
	return r
}

// of returns the room that a line had at the end of the previous round.
func (r lineRoom) of(line uint64) int {
	return int(r.before[line/perWord] >> (line % perWord * roomBits) & maxRoom)
}

// next starts a round.
func (r lineRoom) next() { copy(r.before, r.now) }

// set is called by all workers. Their lines may have their bits in the same word.
func (r lineRoom) set(line, free uint64) {
	word, shift := &r.now[line/perWord], line%perWord*roomBits
	for {
		old := atomic.LoadUint64(word)
		changed := old&^(maxRoom<<shift) | min(free, maxRoom)<<shift
		if old == changed || atomic.CompareAndSwapUint64(word, old, changed) {
			return
		}
	}
}
