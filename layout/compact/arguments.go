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
	region *uint64 // nil for a set: then tables has the regions
	hashes *uint64
	found  *bool                          // for each hash: whether its home line has the fingerprint
	open   *uint8                         // bit i%8 of open[i/8]: whether the home line leaves hash i open
	groups uint64                         // of 8 hashes, at least one
	tables *atomic.Pointer[layout.Direct] // of a set; they differ from table only in the number of lines
	shards uint64                         // number of tables
}

// A lookWidth says what a kernel compares in a line. With narrow, it compares only the slots of the run
// of the quotient. With any other width, it compares all slots at once, and of each remainder as many
// bytes as the number says.
type lookWidth int

const (
	narrow    lookWidth = 0
	oneByte   lookWidth = 1
	twoBytes  lookWidth = 2
	fourBytes lookWidth = 4
)

// Remainders of at least apart bits get two bytes of a word each, so a word has four of them.
const apart = 13

// bySlots sets the slotVectors, if the machine can use them and a register has a byte for every slot.
// A word of the register has the same slots in each look. If remainders have fewer than apart bits, the
// bits of these slots lie within eight bytes of the line, which the word fetches. Otherwise it fetches
// two bytes for each slot.
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
				v.from[look][8*word+place] = byte(from) // the kernel uses only the low six bits
			}
		}
	}
	if slot == t.b {
		t.vectors = v
	}
}
