package writer

import (
	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/wal"
)

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

// Change implements place.Lines.
func (op *operation) Change(words *layout.Stores) {
	l := op.newest
	op.w.prefetchPending(l.line)
	for i := range words.Len() {
		word, guarded := words.At(i)
		op.append(wal.Store{Word: l.first + uint64(word), Value: l.image[word], Guarded: guarded})
	}
}

// append adds a store. Two consecutive stores to one word become one store.
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
func (op *operation) StashLen() int { return op.w.mu.stashed.entries }

// ChangeStash implements place.Lines.
func (op *operation) ChangeStash(word, value uint64, guarded bool) {
	op.append(wal.Store{Word: word, Value: value, Guarded: guarded})
}

// begun reports whether the operation has stores.
func (op *operation) begun() bool { return len(op.stores) > 0 }

func (op *operation) reset() { op.stores, op.loads = op.stores[:0], 0 }
