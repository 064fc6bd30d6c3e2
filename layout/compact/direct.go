package compact

import "github.com/mmapfilter/mmapfilter/layout"

// A direct has what the kernels for single keys need. In a set, a kernel finds it by the address of
// its layout.Direct.
type direct struct {
	layout.Direct
	table *table
}

// Direct returns a Direct for tables whose counts are in two words at most, or nil if the ISA in
// use has no code for single keys.
func (t *table) Direct(d layout.Direct) *layout.Direct {
	if t.countWords > 2 || !isa().Single() {
		return nil
	}
	own := &direct{Direct: d, table: t}
	own.Use(codeOf(t.width()))
	return &own.Direct
}
