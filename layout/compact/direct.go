package compact

import (
	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/kernel"
)

// A direct is what the kernels for single keys need: that for AVX-512 with VBMI all but
// table, the other one table and what a layout.Direct has.
type direct struct {
	layout.Direct
	lines uint64
	table *table
	slotted
	_ [14]uint64 // to 8 bytes before a line of the cache: an allocation of this size begins that far behind one
	slotVectors
	pairs [256]uint64 // the overflow bit of the low 8 bits of a fingerprint
}

// Direct implements single lookups, for tables whose counts are in two words.
func (t *table) Direct(d layout.Direct) *layout.Direct {
	if t.countWords > 2 || !isa().Single() {
		return nil
	}
	own := &direct{Direct: d, lines: t.lines, table: t}
	narrow, short, long := addresses()
	own.Look(narrow.hash, narrow.key)
	if isa() != kernel.AVX512 || !kernel.HasVBMI {
		return &own.Direct
	}
	own.slotted, own.slotVectors = t.bySlots()
	if own.Look(long.hash, long.key); t.r <= 8 {
		own.Look(short.hash, short.key)
	}
	for i := range own.pairs {
		own.pairs[i] = t.overflowBit(uint64(i))
	}
	return &own.Direct
}
