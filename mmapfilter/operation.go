package mmapfilter

import (
	"sync/atomic"

	"github.com/mmapfilter/mmapfilter/layout"
)

// An operation is one change of the filter under way: the space its placer works
// on. It collects the stores in their order, and leaves the pending words alone
// until it is complete.
type operation struct {
	w      *writer
	stores []layout.Store
	lines  []stagedLine // that it has changed, and one more
	staged int          // of them it has changed
	loaded *stagedLine  // last
}

// A stagedLine is a line with what the operation has done to it.
type stagedLine struct {
	line  uint64
	image layout.Line
}

// maxStagedLines is how many lines an operation changes at most: those of a path
// of moves, the home line of the item, and the line that a delete made room in.
const maxStagedLines = maxPathMoves + 1 + 2

func newOperation(w *writer) operation {
	return operation{w: w, lines: make([]stagedLine, maxStagedLines+1)}
}

func (op *operation) load(line uint64) *layout.Line {
	for i := range op.lines[:op.staged] {
		if op.lines[i].line == line {
			op.loaded = &op.lines[i]
			return &op.loaded.image
		}
	}
	op.loaded = &op.lines[op.staged]
	op.loaded.line = line
	op.w.loadLine(line, &op.loaded.image)
	return &op.loaded.image
}

func (op *operation) store(changed *layout.Stores) {
	if changed.Len() == 0 {
		return
	}
	s := op.loaded
	if s == &op.lines[op.staged] {
		op.staged++
	}
	for i := range changed.Len() {
		word, guarded := changed.At(i)
		op.append(layout.Store{Word: layout.WordRegion + s.line*lineWords + uint64(word), Value: s.image[word], Guarded: guarded})
	}
}

// loadLine gives the newest image of a line. REQUIRES: w.mu, without which the
// words may be of different instants.
func (w *writer) loadLine(line uint64, l *layout.Line) {
	at := layout.WordRegion + line*lineWords
	for i, words := 0, w.words[at:at+lineWords]; i < len(l); i++ {
		l[i] = atomic.LoadUint64(&words[i])
	}
	if p := w.overlay.Load(); p != nil {
		p.update(at/lineWords, l)
	}
}

// prefetch asks for what loadLine reads of a line.
func (w *writer) prefetch(line uint64) {
	at := layout.WordRegion + line*lineWords
	layout.Prefetch(&w.words[at])
	if p := w.overlay.Load(); p != nil {
		p.prefetch(at / lineWords)
	}
}

// append adds a store; two to one word that follow each other are one.
func (op *operation) append(s layout.Store) {
	if n := len(op.stores); n > 0 && op.stores[n-1].Word == s.Word {
		op.stores[n-1].Value = s.Value
		op.stores[n-1].Guarded = op.stores[n-1].Guarded || s.Guarded
		return
	}
	op.stores = append(op.stores, s)
}

func (op *operation) stash() []uint64 { return op.w.stash }

func (op *operation) storeStash(word, value uint64, guarded bool) {
	op.append(layout.Store{Word: word, Value: value, Guarded: guarded})
}

// begun reports whether something is staged.
func (op *operation) begun() bool { return len(op.stores)+op.staged > 0 }

func (op *operation) reset() { op.stores, op.staged = op.stores[:0], 0 }
