package writer

import (
	"sync/atomic"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/kernel"
)

// Word returns the newest value of a word of the file, for lookups of this process. For a word of the
// runtime page, it returns a removal counter of the pending words, not the counter of the file.
func (w *Writer) Word(word uint64) uint64 {
	switch {
	case word >= layout.WordRegion:
		if p := w.overlay.Load(); p != nil {
			if v, ok := p.Word(word - layout.WordRegion); ok {
				return v
			}
		}
		return atomic.LoadUint64(&w.words[word])
	case word >= layout.WordStash:
		return atomic.LoadUint64(&w.stash[word-layout.WordStash])
	}
	return atomic.LoadUint64(&w.runtime[word-layout.WordRuntime])
}

// loadMapped reads the image of a line from the file, zeroes the rest of l, and returns which words of
// the file the image covers.
func (w *Writer) loadMapped(line uint64, l *layout.Line) (first, n uint64) {
	at, words := w.table.Words(line)
	first, n = layout.WordRegion+at, uint64(words)
	mapped := w.words[first : first+n]
	for i := range mapped {
		l[i] = atomic.LoadUint64(&mapped[i])
	}
	clear(l[n:])
	return first, n
}

// loadLine reads the newest image of a line and returns which words of the file the image covers.
// REQUIRES: w.mu; without it the words may be from different instants.
func (w *Writer) loadLine(line uint64, l *layout.Line) (first, n uint64) {
	if w.keptLines > 1 { // the line is a block
		w.loadBlock(line, l)
		return layout.WordRegion + line*layout.BlockWords, layout.BlockWords
	}
	first, n = w.loadMapped(line, l)
	if p := w.overlay.Load(); p != nil {
		p.Update(first-layout.WordRegion, l[:n])
	}
	return first, n
}

// loadBlock reads the newest values of the words of a block. REQUIRES: w.mu.
func (w *Writer) loadBlock(block uint64, l *layout.Line) {
	if p := w.overlay.Load(); p != nil && p.Line(block, l) {
		return
	}
	m := (*layout.Line)(w.words[layout.WordRegion+block*layout.BlockWords:])
	// Unrolled, since an insert into a full table loads four lines.
	l[0], l[1] = atomic.LoadUint64(&m[0]), atomic.LoadUint64(&m[1])
	l[2], l[3] = atomic.LoadUint64(&m[2]), atomic.LoadUint64(&m[3])
	l[4], l[5] = atomic.LoadUint64(&m[4]), atomic.LoadUint64(&m[5])
	l[6], l[7] = atomic.LoadUint64(&m[6]), atomic.LoadUint64(&m[7])
}

// isPending reports whether p has words of the blocks of a line.
func (w *Writer) isPending(p *Overlay, line uint64) bool {
	word, n := w.table.Words(line)
	first, last := word/layout.BlockWords, (word+uint64(n)-1)/layout.BlockWords
	return p.Has(first) || last != first && p.Has(last)
}

// homeBlock returns the block of the region in which the home line of a hash starts.
func (w *Writer) homeBlock(hash uint64) uint64 {
	first, _ := w.table.Words(w.table.Split(hash).Line)
	return first / layout.BlockWords
}

// PrefetchHome prefetches the home line of a hash. An operation calls it before it takes the lock.
// No load passes a locked instruction, so without the prefetch the cache miss would begin only
// after the lock is taken.
func (w *Writer) PrefetchHome(hash uint64) { w.prefetchHomeLine(w.table.Split(hash).Line) }

// prefetchHomeLine prefetches the words of a home line that an operation reads, and what a store to the
// line needs, since most operations store to it.
func (w *Writer) prefetchHomeLine(line uint64) {
	w.prefetch(line)
	w.prefetchPending(line)
}

// prefetch prefetches the words that loadLine reads for a line.
func (w *Writer) prefetch(line uint64) {
	at, n := w.table.Words(line)
	for block := at / layout.BlockWords; block <= (at+uint64(n)-1)/layout.BlockWords; block++ {
		kernel.Prefetch(&w.words[layout.WordRegion+block*layout.BlockWords])
	}
}

// prefetchPending prefetches the slots of the pending table that a store to the line needs.
func (w *Writer) prefetchPending(line uint64) {
	if p := w.overlay.Load(); p != nil {
		first, _ := w.table.Words(line)
		p.Active().Prefetch(first / layout.BlockWords)
	}
}

// prefetchHomes prefetches the blocks in which the home lines of up to Batch hashes start, and what a
// store to these lines needs. It makes all prefetches in one burst: a prefetch waits until its address
// is translated, and the prefetches of a burst wait at the same time.
func (w *Writer) prefetchHomes(hashes []uint64) {
	var blocks [Batch]uint64
	layout.HomeBlocks(w.looks, w.table.Lines(), hashes, blocks[:])
	kernel.PrefetchBlocks(w.view.Region, blocks[:len(hashes)])
	if p := w.overlay.Load(); p != nil {
		for _, block := range blocks[:len(hashes)] {
			p.Active().Prefetch(block)
		}
	}
}
