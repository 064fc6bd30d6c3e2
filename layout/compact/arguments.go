package compact

import (
	"slices"
	"sync/atomic"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/kernel"
)

// A batch is the argument block of the batch kernels. The assembly reads its fields by offset: keep
// their order.
type batch struct {
	table  *table
	region *uint64 // nil if the kernel is for a set, whose tables are in tables
	hashes *uint64
	found  *bool                          // one for each hash: its home line has the fingerprint
	open   *uint8                         // bit i%8 of open[i/8]: the home line of hash i does not settle it
	groups uint64                         // of 8 hashes, at least one
	tables *atomic.Pointer[layout.Direct] // of a set, all like table but for their lines
	shards uint64                         // their number
}

// A lookWidth says how a kernel looks in a line: at the run of the quotient alone, or at all slots at
// once, at as many of the bytes of each remainder.
type lookWidth int

const (
	narrow    lookWidth = 0
	oneByte   lookWidth = 1
	twoBytes  lookWidth = 2
	fourBytes lookWidth = 4
)

// From apart bits on, each remainder has two bytes of a word to itself, four to a word.
const apart = 13

// bySlots makes the vectors, where the machine can use them and a register has room for all slots. In
// all looks, a word of the register has the same slots; they lie in eight bytes of the line, or far
// apart.
func (t *table) bySlots() {
	if !kernel.HasVBMI || t.countWords > 2 {
		return
	}
	v := new(slotVectors)
	begins := [looks]uint64{0, 8, t.r - min(t.r, 16), t.r - min(t.r, 8)}
	if t.r <= 16 {
		begins[1] = begins[3]
	}
	at := func(slot uint64, look int) uint64 { return t.counts + slot*t.r + begins[look] } // the bit in the line
	slot := uint64(0)
	for word := range uint64(layout.LineBytes / 8) {
		first := slot
		for place := range uint64(8) {
			var shifts [looks]uint64
			for look := range shifts {
				if shifts[look] = at(slot, look) - at(first, look)/8*8; t.r >= apart {
					shifts[look] = 16*place + at(slot, look)%8
				}
			}
			if slot == t.b || slices.Max(shifts[:]) > 64-8 {
				break
			}
			for look := range shifts {
				v.shifts[look][8*word+place] = byte(shifts[look])
			}
			t.inUse |= 1 << (8*word + place)
			slot++
		}
		for place := range uint64(8) {
			v.values[8*word+place] = byte(min(t.values, 0xFF))
			for look := range begins {
				from := at(first, look)/8 + place
				if t.r >= apart {
					from = at(first+place/2, look)/8 + place%2
				}
				v.from[look][8*word+place] = byte(from) // the low six bits count
			}
		}
	}
	if slot == t.b {
		t.vectors = v
	}
}
