package compact

import (
	"sync/atomic"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/kernel"
)

// The lookups of Compact. A lookup reads five or six of the eight words of a line, which mean
// something only together. So every change except of overflow bits is guarded: if no counter
// has moved, all bits but overflow bits come from one instant. Overflow bits are in one word,
// and a writer sets them before the item that needs them leaves the line.

// LookAt asks once for each word that it needs. For an item at home it needs the words of
// the counts, the last word, and the words of the remainders that the counts point to. For
// a guest it needs the last word and the words of the guests.
func (t *table) LookAt(at func(word uint64) uint64, it layout.Item) (found, beyond bool) {
	var l layout.Line
	fp := uint64(it.Fp)
	load := func(i uint64) { l[i] = at(layout.WordRegion + it.Line*layout.BlockWords + i) }
	if it.Bucket == aGuest {
		load(lastWord)
		if n := guestsOf(&l); n > 0 {
			for i := (guestsEnd - n*t.guest) / 64; i < lastWord; i++ {
				load(i)
			}
		}
		return t.lookGuest(&l, fp), false
	}
	for i := range t.countWords {
		load(uint64(i))
	}
	load(lastWord)
	first, n := t.run(&l, fp>>t.r)
	from, to := t.counts+first*t.r, t.counts+(first+n)*t.r
	for i := max(from/64, uint64(t.countWords)); 64*i < to && i < lastWord; i++ {
		load(i)
	}
	return t.look(&l, fp)
}

// Look is LookAt for a line in memory.
func (t *table) Look(words []uint64, it layout.Item) (found, beyond bool) {
	l := (*layout.Line)(words)
	if it.Bucket == aGuest {
		return t.lookGuest(l, uint64(it.Fp)), false
	}
	return t.look(l, uint64(it.Fp))
}

// FirstLook implements layout.Looks. The kernel leaves a lookup open if the run of its
// quotient is very long.
func (t *table) FirstLook(v *layout.View, h uint64) (found, open bool) {
	if t.countWords <= 2 && isa() != kernel.Go {
		return one(t, v, h)
	}
	return layout.FirstLook(t, v, h)
}

// FirstLooks is FirstLook for a batch. There are kernels for tables whose counts are in two words at
// most, which are all tables except those with the shortest fingerprints.
func (t *table) FirstLooks(v *layout.View, hashes []uint64, found []bool, open []uint8) (done int) {
	if isa() == kernel.Go || t.countWords > 2 {
		hashes = hashes[:len(hashes)&^(kernel.Group-1)]
		t.looksInGo(v.Region, hashes, found, open)
		return len(hashes)
	}
	return t.looks(batch{region: &v.Region[0]}, hashes, found, open)
}

// ahead is by how many hashes the prefetch of a line precedes the look, as in the kernels.
const ahead = 16

// looksInGo does in Go what the kernels for one table do.
func (t *table) looksInGo(region, hashes []uint64, found []bool, open []uint8) {
	asked := 0
	for i, h := range hashes {
		for ; asked < min(i+ahead, len(hashes)); asked++ {
			line, _ := layout.SplitHash(hashes[asked], t.lines)
			kernel.Prefetch(&region[line*layout.BlockWords])
		}
		line, rest := layout.SplitHash(h, t.lines)
		match, away := t.lookInGo((*layout.Line)(region[line*layout.BlockWords:]), uint64(t.fingerprint(rest)))
		matched := (match | -match) >> 63
		found[i] = matched != 0
		open[i/kernel.Group] |= uint8(away &^ matched << (i % kernel.Group))
	}
}

// FirstLooksInSet is FirstLooks for a set: it looks each hash up in the table of its shard.
func (t *table) FirstLooksInSet(tables []atomic.Pointer[layout.Direct], hashes []uint64, found []bool, open []uint8) (done int) {
	return t.looks(batch{tables: &tables[0], shards: uint64(len(tables))}, hashes, found, open)
}

func (t *table) looks(b batch, hashes []uint64, found []bool, open []uint8) (done int) {
	groups := len(hashes) / kernel.Group
	if isa() == kernel.Go || t.countWords > 2 || groups == 0 {
		return 0
	}
	b.table, b.hashes, b.found, b.open, b.groups = t, &hashes[0], &found[0], &open[0], uint64(groups)
	b.run(t.width())
	return groups * kernel.Group
}

// width returns the widest look that this machine has.
func (t *table) width() lookWidth {
	switch {
	case isa() != kernel.AVX512 || t.vectors == nil:
		return narrow
	case t.r <= 8:
		return oneByte
	case t.r <= 16:
		return twoBytes
	}
	return fourBytes
}

// Kernel returns the name of the ISA in use, or of Go if PDEP is microcode on this machine.
func (t *table) Kernel() string { return isa().String() }

func isa() kernel.ISA {
	if kernel.PDEPIsSlow {
		return kernel.Go
	}
	return kernel.InUse()
}
