package blocked

import (
	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/kernel"
)

// FirstLook implements layout.Looks.
func (t *table) FirstLook(v *layout.View, h uint64) (found, open bool) {
	if kernel.InUse().Single() {
		return one(t, v, h)
	}
	return layout.FirstLook(t, v, h)
}

// FirstLooks is layout.FirstLooks for as many hashes as fill groups, if there is a kernel.
func (t *table) FirstLooks(v *layout.View, hashes []uint64, found []bool, open []uint8) (done int) {
	k, groups := kernel.InUse(), len(hashes)/kernel.Group
	if k == kernel.Go || groups == 0 {
		return 0
	}
	batch := batch{
		region: &v.Region[0], runtime: &v.Runtime[0],
		hashes: &hashes[0], found: &found[0], open: &open[0], groups: uint64(groups),
		lines: t.lines, values: t.values, ones: t.ones, highs: t.highs, lanes: t.lanes,
	}
	batch.run(k)
	return groups * kernel.Group
}

// Kernel returns the name of the kernel for batches.
func (t *table) Kernel() string { return kernel.InUse().String() }

// FullLines returns as a bit set which of the lines have no free slot, for an insert that looks for
// a line with room. Only AVX-512 has code for it.
func (t *table) FullLines(region, lines []uint64) (full uint64, ok bool) {
	if kernel.InUse() != kernel.AVX512 || len(lines) == 0 {
		return 0, false
	}
	return fullAVX512(&region[0], &lines[0], len(lines), t.lanes&^t.highs, t.highs), true
}
