package writer

import (
	"sync"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/kernel"
)

// Contains looks a hash up in the newest state, which is the file overlaid with the pending words.
// Call Unsure afterwards.
func (w *Writer) Contains(hash uint64) bool {
	p := w.overlay.Load()
	if p == nil { // the file has all operations
		return layout.Contains(w.looks, &w.view, hash)
	}
	return w.containsUnder(p, hash)
}

// containsUnder is Contains with an overlay that was loaded earlier. Most home lines have no pending
// words, so the file answers most lookups (see the package essay).
func (w *Writer) containsUnder(p *Overlay, hash uint64) bool {
	found, open := w.looks.FirstLook(&w.view, hash)
	if open {
		return w.containsBeyond(p, hash)
	}
	if !p.Has(w.homeBlock(hash)) && w.overlay.Load() == p {
		return found
	}
	return layout.Lookup(w.looks, w.newest, hash)
}

// containsBeyond is containsUnder for hashes that the home line leaves open. If neither line has pending
// words now, neither had any when it was read, and Lookup would have read the same words.
func (w *Writer) containsBeyond(p *Overlay, hash uint64) bool {
	found := layout.Contains(w.looks, &w.under, hash)
	it := w.table.Split(hash)
	if !w.isPending(p, it.Line) && !w.isPending(p, w.table.Alternate(it).Line) && w.overlay.Load() == p {
		return found
	}
	return layout.Lookup(w.looks, w.newest, hash)
}

// ContainsAll is Contains for a batch, whose cache misses overlap. If the writer is Unsure after a part
// of the batch, all answers of the part are "maybe".
func (w *Writer) ContainsAll(hashes []uint64, found []bool) {
	scratch := scratches.Get().(*scratch)
	defer scratches.Put(scratch)
	for len(hashes) > 0 {
		n := min(len(hashes), layout.LookupPart)
		if p := w.overlay.Load(); p == nil {
			layout.ContainsHashes(w.looks, &w.view, hashes[:n], found)
		} else {
			w.containsPartUnder(p, scratch, hashes[:n], found)
		}
		if w.Unsure() {
			for i := range found[:n] {
				found[i] = true
			}
		}
		hashes, found = hashes[n:], found[n:]
	}
}

// A scratch is the memory for a part of a batch. Local variables would move to the heap on
// every call, since they are passed to methods of an interface.
type scratch struct {
	blocks          [layout.LookupPart]uint64
	open, unsettled [layout.LookupPart / 8]uint8
}

var scratches = sync.Pool{New: func() any { return new(scratch) }}

// Unsure reports whether a key may be in the filter although a lookup has just not found it (C1).
// Once a write has failed, memory may differ from what the next process finds in the file. Once the
// file is released, another writer may move items without touching this writer's counters. Call
// Unsure after the lookup.
func (w *Writer) Unsure() bool { return w.released.Load() || w.protocol.Failed() }

// containsPartUnder is containsUnder for a part of a batch. It prefetches what it needs one step
// ahead, and asks p before it reads the file. Otherwise the few lookups that the file leaves open
// would take most of the time.
func (w *Writer) containsPartUnder(p *Overlay, scratch *scratch, hashes []uint64, found []bool) {
	blocks, bytes := scratch.blocks[:len(hashes)], (len(hashes)+7)/8
	open, unsettled := scratch.open[:bytes], scratch.unsettled[:bytes]
	clear(open)
	clear(unsettled)
	layout.HomeBlocks(w.looks, w.table.Lines(), hashes, blocks)
	p.MayHave(blocks, unsettled)
	kernel.EachBit(unsettled, func(i int) { p.Prefetch(blocks[i]) })
	layout.FirstLooks(w.looks, &w.view, hashes, found, open)
	kernel.EachBit(open, func(i int) { w.prefetch(w.table.Alternate(w.table.Split(hashes[i])).Line) })
	for i := range unsettled {
		unsettled[i] &^= open[i]
	}
	kernel.EachBit(unsettled, func(i int) {
		if !p.Has(blocks[i]) {
			unsettled[i/8] &^= 1 << (i % 8)
		}
	})
	same := w.overlay.Load() == p
	kernel.EachBit(open, func(i int) { found[i] = w.containsBeyond(p, hashes[i]) })
	kernel.EachBit(unsettled, func(i int) { found[i] = layout.Lookup(w.looks, w.newest, hashes[i]) })
	if !same {
		for i, h := range hashes {
			found[i] = w.Contains(h)
		}
	}
}
