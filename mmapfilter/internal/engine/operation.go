package engine

import (
	"sync/atomic"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/kernel"
	"github.com/mmapfilter/mmapfilter/layout/wal"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/pending"
)

// An operation is one change of the filter in progress: it is the Lines of its placer, and the
// Preview of the inserts that follow in a batch. It collects the stores in order and leaves the
// pending words alone until it is complete. Only these stores, word by word, say what it
// changed: lines may share words.
type operation struct {
	w      *Writer
	stores []wal.Store

	// The lines loaded last, with all changes made to them; one alone if lines share words.
	lines  [keptLines]loadedLine
	loads  int // of other lines than these
	newest *loadedLine
}

// A loadedLine is the image of a line.
type loadedLine struct {
	line  uint64
	first uint64 // of its words in the file
	image layout.Line
}

// keptLines is how many lines an operation keeps: a move, and the return of a guest, go back and
// forth between two.
const keptLines = 4

// Load implements place.Lines.
func (op *operation) Load(line uint64) *layout.Line {
	kept := op.w.keptLines
	for i := range min(op.loads, kept) {
		if l := &op.lines[i]; l.line == line {
			op.newest = l
			return &l.image
		}
	}
	l := &op.lines[op.loads%kept]
	var n uint64
	l.line = line
	l.first, n = op.w.loadLine(line, &l.image)
	for _, s := range op.stores {
		if i := s.Word - l.first; i < n {
			l.image[i] = s.Value
		}
	}
	op.newest = l
	op.loads++
	return &l.image
}

// Prefetch implements place.Lines.
func (op *operation) Prefetch(line uint64) { op.w.prefetch(line) }

// Full implements place.Lines.
func (op *operation) Full(line uint64) bool { return !op.begun() && op.w.full(line) }

// Change implements place.Lines. If LookAhead has seen the insert, what Change needs is already
// prefetched.
func (op *operation) Change(words *layout.Stores) {
	if !op.w.mu.placer.Expects() {
		op.w.prefetchTags(op.newest.line)
	}
	l := op.newest
	for i := range words.Len() {
		word, guarded := words.At(i)
		op.append(wal.Store{Word: l.first + uint64(word), Value: l.image[word], Guarded: guarded})
	}
}

// loadMapped reads the image of a line from the file, zeroes the rest, and returns the words of
// the file that the image covers.
func (w *Writer) loadMapped(line uint64, l *layout.Line) (first, n uint64) {
	at, words := w.table.Words(line)
	first, n = layout.WordRegion+at, uint64(words)
	mapped := w.words[first : first+n]
	if n == layout.BlockWords { // unrolled, since an insert into a full table loads four lines
		m := (*[layout.BlockWords]uint64)(mapped)
		l[0], l[1] = atomic.LoadUint64(&m[0]), atomic.LoadUint64(&m[1])
		l[2], l[3] = atomic.LoadUint64(&m[2]), atomic.LoadUint64(&m[3])
		l[4], l[5] = atomic.LoadUint64(&m[4]), atomic.LoadUint64(&m[5])
		l[6], l[7] = atomic.LoadUint64(&m[6]), atomic.LoadUint64(&m[7])
		return first, n
	}
	for i := range mapped {
		l[i] = atomic.LoadUint64(&mapped[i])
	}
	clear(l[n:])
	return first, n
}

// full reports whether a line is known to have no free slot. It reads only the file, which is
// right if nothing is pending in the line. False means nothing. REQUIRES: w.mu.
func (w *Writer) full(line uint64) bool {
	if !w.fullMapped(line) {
		return false
	}
	p := w.overlay.Load()
	return p == nil || !w.isPending(p, line)
}

func (w *Writer) fullMapped(line uint64) bool {
	return w.table.Full(w.words[layout.WordRegion:], line)
}

// loadLine reads the newest image of a line and returns the words of the file that it covers.
// REQUIRES: w.mu; without it the words may be of different instants.
func (w *Writer) loadLine(line uint64, l *layout.Line) (first, n uint64) {
	p := w.overlay.Load()
	if w.unit == pending.OneBlock {
		w.loadBlock(line, l)
		return layout.WordRegion + line*layout.BlockWords, layout.BlockWords
	}
	first, n = w.loadMapped(line, l)
	if p != nil {
		p.Update(first-layout.WordRegion, l[:n])
	}
	return first, n
}

// loadBlock is loadLine where each line is a block, and blocks are pending.
func (w *Writer) loadBlock(block uint64, l *layout.Line) {
	if p := w.overlay.Load(); p == nil || !p.Line(block, l) {
		w.loadMapped(block, l)
	}
}

// prefetch prefetches what loadLine reads of a line.
func (w *Writer) prefetch(line uint64) {
	at, n := w.table.Words(line)
	for block := at / layout.BlockWords; block <= (at+uint64(n)-1)/layout.BlockWords; block++ {
		kernel.Prefetch(&w.words[layout.WordRegion+block*layout.BlockWords])
	}
}

// PrefetchHome prefetches the home line of a hash. An operation calls it before it takes the
// lock: no load passes the locked instruction, so otherwise the cache miss would begin only
// after it.
func (w *Writer) PrefetchHome(hash uint64) { w.prefetchHomeLine(w.table.Split(hash).Line) }

// prefetchHomeLine prefetches what an operation reads of a home line, and what a store to it
// needs: most operations store to it.
func (w *Writer) prefetchHomeLine(line uint64) {
	w.prefetch(line)
	w.prefetchTags(line)
}

// prefetchTags prefetches the entries of the pending table that a store to the line
// needs.
func (w *Writer) prefetchTags(line uint64) {
	if p := w.overlay.Load(); p != nil {
		first, _ := w.table.Words(line)
		p.Active().PrefetchTags(first / layout.BlockWords)
	}
}

// append adds a store. Two consecutive stores to one word become one.
func (op *operation) append(s wal.Store) {
	if n := len(op.stores); n > 0 && op.stores[n-1].Word == s.Word {
		op.stores[n-1].Value = s.Value
		op.stores[n-1].Guarded = op.stores[n-1].Guarded || s.Guarded
		return
	}
	op.stores = append(op.stores, s)
}

// Stash implements place.Lines.
func (op *operation) Stash() []uint64 { return op.w.stash }

// StashLen implements place.Lines.
func (op *operation) StashLen() int { return op.w.mu.stashLen }

// ChangeStash implements place.Lines.
func (op *operation) ChangeStash(word, value uint64, guarded bool) {
	op.append(wal.Store{Word: word, Value: value, Guarded: guarded})
}

// FullLines implements place.Preview.
func (op *operation) FullLines(lines []uint64) uint64 { return op.w.fullLines(lines) }

// Peek implements place.Preview.
func (op *operation) Peek(line uint64, l *layout.Line) { op.w.loadLine(line, l) }

// PrefetchChange implements place.Preview.
func (op *operation) PrefetchChange(line uint64) { op.w.prefetchTags(line) }

// begun reports whether the operation has stores.
func (op *operation) begun() bool { return len(op.stores) > 0 }

func (op *operation) reset() { op.stores, op.loads = op.stores[:0], 0 }
