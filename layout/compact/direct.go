package compact

import (
	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/kernel"
)

// A direct is what the kernels for single keys need: that for AVX-512 with VBMI all but
// table, the other one table and what a layout.Direct has.
type direct struct {
	layout.Direct
	table *table
	slotted
	_ [12]uint64 // to a line of the cache: an allocation of this size begins with one
	slotVectors
}

// Direct implements single lookups, for tables whose counts are in two words.
func (t *table) Direct(d layout.Direct) *layout.Direct {
	if t.countWords > 2 || !isa().Single() {
		return nil
	}
	own := &direct{Direct: d, table: t}
	narrow, short, long := addresses()
	own.Use(narrow)
	if isa() != kernel.AVX512 || !kernel.HasVBMI {
		return &own.Direct
	}
	own.slotted, own.slotVectors = t.bySlots()
	if own.Use(long); t.r <= 8 {
		own.Use(short)
	}
	return &own.Direct
}
