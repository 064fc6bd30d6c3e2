package mmapfilter

import (
	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/kernel"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/pending"
)

// contains is Table.Contains for the newest state: the mapping, overlaid with what is
// pending.
func (w *writer) contains(hash uint64) bool {
	p := w.overlay.Load()
	if p == nil { // all that has been acknowledged is in the mapping
		return layout.Contains(w.table, &w.view, hash)
	}
	return w.containsUnder(p, hash)
}

// containsUnder is contains with an overlay that was loaded before.
//
// Most home lines have nothing pending: then the mapping settles most lookups. As long
// as p is the overlay, only words of its committing segment are stored to the mapping,
// and that segment gets no more words. So a block that has no word in p, asked before the
// block is read or after, does not change meanwhile, and is as it was at the instant
// when p was asked.
func (w *writer) containsUnder(p *pending.Overlay, hash uint64) bool {
	found, open := w.table.FirstLook(&w.view, hash)
	if open {
		return w.containsBeyond(p, hash)
	}
	if !p.Has(w.homeBlock(hash)) && w.overlay.Load() == p {
		return found
	}
	return layout.Lookup(w.table, w.newest, hash)
}

// containsBeyond is containsUnder for hashes that the home line does not settle. If
// nothing is pending in either line, and was not while they were read, as above, then
// Lookup would have read what Contains did.
func (w *writer) containsBeyond(p *pending.Overlay, hash uint64) bool {
	found := layout.Contains(w.table, &w.under, hash)
	it := w.table.Split(hash)
	if !w.isPending(p, it.Line) && !w.isPending(p, w.table.Alternate(it).Line) && w.overlay.Load() == p {
		return found
	}
	return layout.Lookup(w.table, w.newest, hash)
}

// isPending reports whether p has words of the blocks that a line is in.
func (w *writer) isPending(p *pending.Overlay, line uint64) bool {
	word, n := w.table.Words(line)
	first, last := word/blockWords, (word+uint64(n)-1)/blockWords
	return p.Has(first) || last != first && p.Has(last)
}

// homeBlock returns the block of the region that the home line of a hash starts in.
func (w *writer) homeBlock(hash uint64) uint64 {
	first, _ := w.table.Words(w.table.Split(hash).Line)
	return first / blockWords
}

// containsAll is contains for a batch, whose cache misses overlap.
func (w *writer) containsAll(hashes []uint64, found []bool) {
	scratch := lookupScratches.Get().(*lookupScratch)
	defer lookupScratches.Put(scratch)
	for len(hashes) > 0 {
		n := min(len(hashes), lookupBlock)
		w.containsBlock(scratch, hashes[:n], found)
		hashes, found = hashes[n:], found[n:]
	}
}

// containsBlock is contains for a block of hashes.
func (w *writer) containsBlock(scratch *lookupScratch, hashes []uint64, found []bool) {
	if p := w.overlay.Load(); p == nil {
		layout.ContainsHashes(w.table, &w.view, hashes, found)
	} else {
		w.containsBlockUnder(p, scratch, hashes, found)
	}
	if w.unsure() {
		sayMaybe(found[:len(hashes)])
	}
}

// unsure reports whether a key that a lookup has just not found may be there (C1). Once
// a write has failed, memory may differ from what opening the file again finds. Once
// the file is released, another writer may move items without touching this one's
// counters. Call it after the lookup.
func (w *writer) unsure() bool { return w.released.Load() || w.log.Failed() }

// containsBlockUnder is containsUnder for a block of hashes. It prefetches what it
// needs one step ahead, and reads p before the mapping: otherwise the few lookups that
// the mapping does not settle would take most of the time.
func (w *writer) containsBlockUnder(p *pending.Overlay, scratch *lookupScratch, hashes []uint64, found []bool) {
	blocks, bytes := scratch.blocks[:len(hashes)], (len(hashes)+7)/8
	open, unsettled := scratch.open[:bytes], scratch.pending[:bytes]
	clear(open)
	clear(unsettled)
	layout.HomeBlocks(w.table, hashes, blocks)
	p.MayHave(blocks, unsettled)
	kernel.EachBit(unsettled, func(i int) { p.PrefetchTags(blocks[i]) })
	layout.FirstLooks(w.table, &w.view, hashes, found, open)
	kernel.EachBit(open, func(i int) { w.prefetch(w.table.Alternate(w.table.Split(hashes[i])).Line) })
	for i := range unsettled {
		unsettled[i] &^= open[i]
	}
	kernel.EachBit(unsettled, func(i int) {
		if !p.SeemsToHave(blocks[i]) {
			unsettled[i/8] &^= 1 << (i % 8)
		}
	})
	same := w.overlay.Load() == p
	kernel.EachBit(open, func(i int) { found[i] = w.containsBeyond(p, hashes[i]) })
	kernel.EachBit(unsettled, func(i int) { found[i] = layout.Lookup(w.table, w.newest, hashes[i]) })
	if !same {
		for i, h := range hashes {
			found[i] = w.contains(h)
		}
	}
}
