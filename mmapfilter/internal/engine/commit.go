package engine

import (
	"time"

	"github.com/mmapfilter/mmapfilter/recovery"
)

// Sync commits: when it returns nil, everything done before it is durable. If setSeq is set, the
// user sequence becomes seq.
func (w *Writer) Sync(setSeq bool, seq uint64) error {
	w.commit.Lock()
	defer w.commit.Unlock()
	return w.syncLocked(setSeq, seq)
}

// syncLocked is Sync. REQUIRES: w.commit.
func (w *Writer) syncLocked(setSeq bool, seq uint64) error {
	b, ok, err := w.endSegmentNow(setSeq, seq)
	if err != nil || !ok {
		return err
	}
	if err := w.protocol.Harden(b.Segment); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.dropPending(b)
	return nil
}

// endSegmentNow is endSegment. REQUIRES: w.commit.
func (w *Writer) endSegmentNow(setSeq bool, seq uint64) (segment, bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.endSegment(setSeq, seq)
}

// endSegment ends the open segment and starts another. It reports false if there is nothing to
// make durable. REQUIRES: w.commit, w.mu.
func (w *Writer) endSegment(setSeq bool, seq uint64) (b segment, ok bool, err error) {
	if err := w.protocol.Err(); err != nil {
		return b, false, err
	}
	if w.mu.closed {
		return b, false, ErrClosed
	}
	if !setSeq && w.protocol.SegmentBytes() == 0 {
		return b, false, nil
	}
	if err := w.begin(); err != nil {
		return b, false, err
	}
	if w.protocol.SegmentBytes() == 0 && !w.protocol.Room(1) {
		if err := w.protocol.Checkpoint(w.nextLog(true)); err != nil {
			return b, false, err
		}
	}
	b = segment{Segment: w.protocol.EndSegment(setSeq, seq), operations: w.mu.pending}
	if p := w.overlay.Load(); p != nil {
		w.overlay.Store(p.Next())
	}
	return b, true, nil
}

// A segment is a segment of the log that is being made durable.
type segment struct {
	recovery.Segment
	operations int
}

// dropPending drops the pending words of a segment that has been stored to the file. REQUIRES:
// w.commit, w.mu.
func (w *Writer) dropPending(b segment) {
	p := w.overlay.Load()
	if w.mu.pending -= b.operations; w.mu.pending == 0 {
		if p != nil {
			w.mu.spare = p.Active() // empty; the next segment will have its size
			w.overlay.Store(nil)
		}
		return
	}
	w.overlay.Store(p.Drop())
	if w.Behind != nil { // operations arrived while we waited for the disk
		w.Behind(0)
	}
}

// Checkpoint commits, makes the file durable and starts the log anew.
func (w *Writer) Checkpoint() error { return w.CheckpointFor(0) }

// CheckpointFor is Checkpoint. A need other than 0 means that the log lacks room for that many
// stores: CheckpointFor then does nothing if the log has the room by now, and otherwise makes
// the next log larger.
func (w *Writer) CheckpointFor(need int) error {
	w.checkpoints.Lock()
	defer w.checkpoints.Unlock()
	if err := w.Sync(false, 0); err != nil {
		return err
	}
	due := w.checkpointDue(need)
	if due { // write nearly all of the region now, while operations go on
		if err := w.protocol.SyncRegion(); err != nil {
			return err
		}
	}
	w.commit.Lock()
	defer w.commit.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	defer w.stalled(time.Now())
	if err := w.protocol.Err(); err != nil {
		return err
	}
	if w.mu.closed {
		return ErrClosed
	}
	if !due {
		return nil
	}
	if err := w.hardenAll(); err != nil {
		return err
	}
	return w.protocol.Checkpoint(w.nextLog(need > 0))
}

// checkpointDue reports whether there is a log and, if need is not 0, whether it lacks room for
// that many stores.
func (w *Writer) checkpointDue(need int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.protocol.Live() && (need == 0 || !w.protocol.Room(need))
}

// stalled records that operations have waited since the given time.
func (w *Writer) stalled(since time.Time) {
	d := int64(time.Since(since))
	for {
		longest := w.longestStall.Load()
		if d <= longest || w.longestStall.CompareAndSwap(longest, d) {
			return
		}
	}
}

// hardenAll commits while no operation can proceed. REQUIRES: w.commit, w.mu.
func (w *Writer) hardenAll() error {
	b, ok, err := w.endSegment(false, 0)
	if err != nil || !ok {
		return err
	}
	if err := w.protocol.Harden(b.Segment); err != nil {
		return err
	}
	w.dropPending(b)
	return nil
}

// nextLog returns the size of the log after a checkpoint.
func (w *Writer) nextLog(wasFull bool) int64 {
	size, _ := w.protocol.LogBytes()
	if wasFull && w.firstLog < w.mostLog {
		return max(size, min(size*logGrowth, w.mostLog))
	}
	return size
}

// LockAll keeps operations, commits and checkpoints out until unlock is called.
func (w *Writer) LockAll() (unlock func()) {
	w.checkpoints.Lock()
	w.commit.Lock()
	w.mu.Lock()
	return func() {
		w.mu.Unlock()
		w.commit.Unlock()
		w.checkpoints.Unlock()
	}
}

// Clean commits and leaves a file that is complete without its log. Later operations return
// ErrClosed.
func (w *Writer) Clean() error {
	defer w.LockAll()()
	if w.mu.closed {
		return nil
	}
	err := w.hardenAll()
	w.mu.closed = true
	if err != nil {
		return err
	}
	return w.protocol.Clean()
}

// Close releases the volume, so that another writer may have it. Call Clean first, and no
// operation afterwards.
func (w *Writer) Close() error {
	w.released.Store(true)
	w.mu.Lock() // another goroutine may be reading the state
	defer w.mu.Unlock()
	return w.protocol.Close()
}
