package compact

import (
	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/kernel"
)

// A direct has what the kernels for single keys need. Those for AVX-512 with VBMI read all
// but table; the other one reads only table and the layout.Direct.
type direct struct {
	layout.Direct
	table *table
	slotted
	_ [12]uint64 // so that slotVectors begins a cache line, as an allocation of this size does
	slotVectors
}

// Direct returns a Direct for tables whose counts are in two words, or nil if the ISA in
// use has no code for single keys.
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
