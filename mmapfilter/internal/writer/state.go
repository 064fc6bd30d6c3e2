package writer

import (
	"time"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/recovery"
)

// Err returns recovery.ErrFailed, with its cause, once a write has failed.
func (w *Writer) Err() error { return w.protocol.Err() }

// Fail makes the writer fail with a cause, which is a fault in its memory, or a panic that may have left
// an operation half done.
func (w *Writer) Fail(cause error) { w.protocol.Fail(cause) }

// Len returns the number of items.
func (w *Writer) Len() uint64 { return w.length.Load() }

// Durable returns the user sequence of the last durable SyncAt, and how many later operations are
// durable. If w is taking the place of another writer in a Replace, Durable waits until Replace
// has succeeded or failed. It does not wait for operations.
func (w *Writer) Durable() (seq, operations uint64) {
	w.handover.Lock()
	defer w.handover.Unlock()
	seq, operations, _ = w.protocol.Durable()
	return seq, operations
}

// Position returns the descent of the history, and the last durable position in it. It may
// wait, as Durable does.
func (w *Writer) Position() (descent uint64, at layout.Position) {
	w.handover.Lock()
	defer w.handover.Unlock()
	return w.protocol.Position()
}

// Source is like Position, for the history that a replica with hashes follows. ok is false if
// the file follows none.
func (w *Writer) Source() (descent uint64, at layout.Position, ok bool) {
	w.handover.Lock()
	defer w.handover.Unlock()
	return w.protocol.Source()
}

// Superblock returns a copy of the newest superblock.
func (w *Writer) Superblock() *layout.Superblock {
	w.mu.Lock()
	defer w.mu.Unlock()
	sb := *w.protocol.Superblock()
	return &sb
}

// A State describes a writer at an instant.
type State struct {
	StashLen             int   // stash entries in use
	Pending              int   // operations in the log and not yet stored to the file
	LogBytes, LogUsed    int64 // size of the log; bytes in use of the half that operations go to
	Cramped              error // why the log keeps its size, or nil
	Commits, Checkpoints uint64
	History              layout.Kept
	RebuildStall         time.Duration // how long operations waited while this writer took over
	LongestStall         time.Duration // longest time that an operation waited for a log, for room in it, or for the disk to keep pace
}

// State describes the writer now.
func (w *Writer) State() State {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := State{StashLen: w.mu.stashed.entries, Pending: w.mu.pending, Cramped: w.protocol.Cramped(), LongestStall: time.Duration(w.longestStall.Load()), RebuildStall: w.mu.stall, History: w.protocol.History()}
	s.LogBytes, _ = w.protocol.LogBytes()
	_, s.LogUsed = w.protocol.LogUse()
	s.Commits, s.Checkpoints = w.protocol.Counts()
	return s
}

// Protocol returns the writer of the log and the file. Use it only to read state.
func (w *Writer) Protocol() *recovery.Writer { return w.protocol }

// The methods below are for tests and measurements.

// Table returns the table.
func (w *Writer) Table() layout.Table { return w.table }

// Stash returns the newest state of the stash.
func (w *Writer) Stash() []uint64 { return w.stash }

// Idle reports whether an operation would begin without waiting for a lock or for room in the
// log.
func (w *Writer) Idle() bool {
	if !w.mu.TryLock() {
		return false
	}
	defer w.mu.Unlock()
	return w.protocol.Room(w.most)
}

// LimitLog changes how large the log may be. It takes effect at the next checkpoint.
func (w *Writer) LimitLog(most int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.firstLog, w.mostLog = min(w.firstLog, most), most
}

// Newest returns a copy of the lines and the stash, with all pending operations.
func (w *Writer) Newest() layout.View {
	g := w.protocol.Geometry()
	view := layout.NewView(make([]uint64, (layout.OffRegion-layout.OffRuntime+g.RegionBytes)/8), g)
	w.mu.Lock()
	defer w.mu.Unlock()
	var l layout.Line
	for i := range g.Lines {
		w.loadLine(i, &l)
		layout.Store(w.table, view.Region, i, &l)
	}
	copy(view.Stash, w.stash)
	return view
}

// Recent calls do with the durable operations of the history that NAME.hashes lacks. No checkpoint
// ends meanwhile; operations and commits go on.
func (w *Writer) Recent(do func(*recovery.Recent) error) error {
	w.checkpoints.Lock()
	defer w.checkpoints.Unlock()
	w.mu.Lock()
	closed, r := w.mu.closed, w.protocol.Recent()
	w.mu.Unlock()
	if closed != nil {
		return closed
	}
	return w.protocol.Catch(func() error { return do(&r) })
}
