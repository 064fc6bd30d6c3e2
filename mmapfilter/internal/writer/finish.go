package writer

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/wal"
)

// finish appends the planned operation to the log and publishes it to this process's lookups. op is the
// meaning of the operation in the history, and grow the change in the number of items. REQUIRES: w.mu.
func (w *Writer) finish(op layout.Op, grow int, hash uint64) {
	w.append(op, grow, hash, true)
	w.tell(1)
}

// append is finish without tell. counted says that Filter.DurableOps counts the
// operation. REQUIRES: w.mu.
func (w *Writer) append(does layout.Op, grow int, hash uint64, counted bool) {
	if grow == 0 && !w.protocol.KeepsHashes() { // the filter keeps no history
		w.protocol.Skip()
		w.tapped(does, hash)
		return
	}
	if w.overlay.Load() == nil {
		w.overlay.Store(Over(w.mu.spare))
	}
	op := &w.mu.op
	if counted {
		w.protocol.Append(op.stores, grow, does, hash)
	} else {
		w.protocol.AppendUncounted(op.stores, grow, does, hash)
	}
	w.tapped(does, hash)
	if w.mu.known == nil && does == layout.AtLeastOne && w.protocol.KeepsHashes() {
		w.mu.known = new(known)
	}
	w.mu.known.did(does, hash)
	w.publish(op)
	op.reset()
	w.mu.pending++
}

// publish shows the stores of an operation to this process's lookups, in order. The removal
// counter of a guarded store is odd from before this store until after the last store of the
// operation, as it will be in the mapping (W4, R2). Consecutive stores to a block are made in
// one step, as in the log. REQUIRES: w.mu.
func (w *Writer) publish(op *operation) {
	p := w.overlay.Load()
	stash := false
	odd := w.mu.odd[:0]
	var block layout.Line
	words := uint8(0) // bit i: word i of block must be stored
	for i, s := range op.stores {
		if counter := layout.CounterOf(s.Word); s.Guarded && !slices.Contains(odd, counter) {
			atomic.AddUint64(&w.runtime[counter], 1)
			odd = append(odd, counter)
		}
		if s.Word < layout.WordRegion {
			atomic.StoreUint64(&w.stash[s.Word-layout.WordStash], s.Value)
			stash = true
			continue
		}
		at := s.Word % layout.BlockWords
		block[at], words = s.Value, words|1<<at
		if i+1 == len(op.stores) || op.stores[i+1].Word/layout.BlockWords != s.Word/layout.BlockWords {
			p.Active().StoreWords((s.Word-layout.WordRegion)/layout.BlockWords, words, &block, w.before)
			words = 0
		}
	}
	for _, counter := range odd {
		atomic.AddUint64(&w.runtime[counter], 1)
	}
	w.mu.odd = odd
	if stash {
		w.mu.stashed.count(w.table, w.stash)
	}
}

// tapped puts an operation into the tap, if there is one. REQUIRES: w.mu.
func (w *Writer) tapped(op layout.Op, hash uint64) {
	if w.mu.tap != nil {
		w.mu.tap.put(hash, op, w.protocol.Count())
		w.mu.pace.extra += time.Duration(w.mu.tap.Slow.Load())
	}
}

// tell updates the length after the last n operations were appended, and asks the Work for what is due.
// A stuck checkpoint is not due here: the timer tries it again, and so does an operation that finds no
// room in the log. REQUIRES: w.mu.
func (w *Writer) tell(n int) {
	w.length.Store(w.protocol.Length())
	w.measureHistory()
	if w.mu.mostTail > 0 && w.protocol.Tail() > w.mu.mostTail {
		w.mu.pace.later(n)
	}
	size, used := w.protocol.LogUse()
	if w.Work == nil || size == 0 { // the file may have been closed
		return
	}
	rest := w.lastPart(size)
	needed := float64(rest) / float64(size)
	if w.protocol.Checkpointing() {
		needed = max(1-w.protocol.Progress(), paceSyncs)
	}
	words := 0
	if p := w.overlay.Load(); p != nil {
		words = p.Active().Len()
	}
	lacking := max(missing(size, used, needed), missing(MaxWords, int64(words), paceApply))
	stuck := w.protocol.Stuck() != nil
	if stuck { // waiting for the checkpoint would be in vain
		lacking = 0
	}
	w.mu.pace.owe(n, lacking)
	d := due{commit: words >= segmentWords} // also while a checkpoint goes on
	switch {
	case used > size-rest && !stuck:
		d.room = int(rest / wal.RecordBytes)
	case used > size/growEarly && !w.protocol.Moving() && w.mu.grown != w.protocol.LogGeneration() && w.firstLog < w.mostLog:
		w.mu.grown = w.protocol.LogGeneration()
		d.largerLog = true
	}
	if w.mu.due = d; d != (due{}) || w.mu.pending <= n { // these are the first pending operations, and begin the interval
		w.Work.ask(d)
	}
}

// Compact makes HistoryIsLong report true once the history is long for the items that it means: when it
// takes twice the room of the items, and a quarter of a MiB more, or when as many deletes wait for a
// rebuild (K7) as waiting says. Call Compact before the first operation.
func (w *Writer) Compact(waiting uint64) {
	w.waits = waiting
	w.measureHistory()
}

func (w *Writer) measureHistory() {
	const least = 1 << 15 // operations
	if w.waits == 0 {
		return
	}
	tail := w.protocol.Tail()
	if w.tail.Store(tail); tail > w.meant()+least || w.protocol.History().Waiting >= w.waits {
		w.tooLong.Store(true)
	}
}

// Tail returns how many operations have come since the last rebuild, if Compact was called and the
// filter has its hashes.
func (w *Writer) Tail() uint64 { return w.tail.Load() }

// meant returns about how many items the history means. REQUIRES: w.mu.
func (w *Writer) meant() uint64 {
	n := w.protocol.Length()
	return n - min(w.protocol.History().Waiting, n)
}

// Rebuilding tells the writer that a rebuild begins, which will make the history short. It does nothing
// unless Compact was called. If many operations come before Untap, the later ones are let through one by
// one, paceLong apart. Otherwise the history could become longer than K5 allows before there is a new
// file. A thousand operations a second are few, but none of them waits for the whole rebuild.
func (w *Writer) Rebuilding() {
	const least = 80_000 // operations; at 8 bytes each, 1 MiB also has room for the operations of a Replace
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.waits > 0 {
		w.mu.mostTail = 2*w.meant() + least
	}
}

// HistoryIsLong reports whether a rebuild is due, to make the history shorter (see Compact).
func (w *Writer) HistoryIsLong() bool { return w.tooLong.Load() }

// lastPart returns how much of a half of the log is left when the background asks for a checkpoint.
// Before the checkpoint can begin, it waits for a commit that is under way and for a commit of its
// own. Meanwhile operations fill the last part. The last part is an eighth of the half, or more
// in a small log, since a commit takes long if it stores to many pages for the first time since a
// checkpoint.
func (w *Writer) lastPart(size int64) int64 {
	const share, enough = 8, 4 << 20
	return max(size/share, min(size/2, enough), int64(2*w.most*wal.RecordBytes))
}

// segmentWords is how many words a segment changes before it is committed: about as many as the
// processor's cache holds (blockCounts says how many bytes a word takes). If there is a Work, a segment
// may grow larger while the previous commit takes long.
const segmentWords = 1 << 17

// A larger log is created when 1/growEarly of a half is in use, so that the next checkpoint can move to
// it. In a small log, that checkpoint begins when half of a half is in use (see lastPart), so operations
// can fill the quarter in between while the larger log is created.
const growEarly = 4
