package blocked

import (
	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/kernel"
)

// A direct has what the kernels for single keys need. Allocations of this size begin at a
// multiple of 16 bytes, so no constant of two words straddles two cache lines.
type direct struct {
	layout.Direct
	constants
}

// Direct returns a Direct for AVX-512 or AVX2, or nil if another ISA is in use.
func (t *table) Direct(d layout.Direct) *layout.Direct {
	k := kernel.InUse()
	if !k.Single() {
		return nil
	}
	own := &direct{Direct: d, constants: t.constants}
	narrow, wide := addresses()
	if k == kernel.AVX512 {
		own.Use(wide)
	} else {
		own.Use(narrow)
	}
	return &own.Direct
}
