package writer

import "github.com/mmapfilter/mmapfilter/recovery"

// Sync commits: when it returns nil, everything done before it is durable.
func (w *Writer) Sync() error { return w.SyncAt(nil) }

// SyncAt is Sync. If seq is not nil, the user sequence becomes what it returns for the number of
// operations since the last one was set. It is called while no operation is under way.
func (w *Writer) SyncAt(seq func(operations uint64) uint64) error {
	for {
		err := w.commit(seq)
		if err != errLogFull {
			return err
		}
		if err := w.nextHalf(); err != nil {
			return err
		}
	}
}

// commit ends the open segment, makes it durable and stores it to the file. It returns errLogFull if the
// log has no room for that.
func (w *Writer) commit(seq func(uint64) uint64) error {
	w.commits.Lock()
	defer w.commits.Unlock()
	seg, err := w.cut(seq)
	if err != nil {
		return err
	}
	return w.harden(seg)
}

// harden makes a segment durable, if there is one. REQUIRES: w.commits.
func (w *Writer) harden(seg segment) error {
	if !seg.ended {
		return nil
	}
	w.unseal(w.between)
	if err := w.protocol.Harden(seg.Segment); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.dropPending(seg)
	return nil
}

// cut takes w.mu and ends the open segment. REQUIRES: w.commits.
func (w *Writer) cut(seq func(uint64) uint64) (segment, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.endSegment(seq)
}

// endSegment ends the open segment and starts another, unless there is nothing to make durable. It
// returns errLogFull if the log has no room for a segment without operations. REQUIRES: w.commits, w.mu.
func (w *Writer) endSegment(seq func(uint64) uint64) (segment, error) {
	if w.mu.closed != nil {
		return segment{}, w.mu.closed
	}
	if err := w.protocol.Err(); err != nil {
		return segment{}, err
	}
	if seq == nil && w.protocol.SegmentBytes() == 0 {
		return segment{}, nil
	}
	return w.endAnySegment(seq)
}

// endAnySegment is endSegment, also if there is nothing to make durable.
func (w *Writer) endAnySegment(seq func(uint64) uint64) (segment, error) {
	if err := w.begin(); err != nil {
		return segment{}, err
	}
	if w.protocol.SegmentBytes() == 0 && !w.protocol.Room(1) {
		return segment{}, errLogFull
	}
	var next uint64
	if seq != nil {
		next = seq(w.protocol.Operations())
	}
	seg := segment{w.protocol.EndSegment(seq != nil, next), w.mu.pending, true}
	if p := w.overlay.Load(); p != nil {
		w.overlay.Store(p.Next())
	}
	return seg, nil
}

// A segment is a segment of the log that is being made durable.
type segment struct {
	recovery.Segment
	operations int
	ended      bool // otherwise there is none
}

// dropPending drops the pending words of a segment that has been stored to the file. REQUIRES:
// w.commits, w.mu.
func (w *Writer) dropPending(seg segment) {
	p := w.overlay.Load()
	if w.mu.pending -= seg.operations; w.mu.pending == 0 {
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

// Checkpoint commits, makes the file durable and starts the log anew. Operations and commits
// go on meanwhile; what they do is in the next generation of the log.
func (w *Writer) Checkpoint() error {
	w.checkpoints.Lock()
	defer w.checkpoints.Unlock()
	return w.checkpointLocked()
}

// checkpointLocked is Checkpoint. REQUIRES: w.checkpoints.
func (w *Writer) checkpointLocked() error {
	if err := w.beginCheckpoint(nil); err != nil {
		return err
	}
	return w.protocol.EndCheckpoint()
}

// BeginCheckpoint is the first half of Checkpoint: it commits, and has the log go on in its
// next generation, unless a checkpoint has begun already.
func (w *Writer) BeginCheckpoint() error {
	w.checkpoints.Lock()
	defer w.checkpoints.Unlock()
	if w.protocol.Checkpointing() {
		return w.Sync()
	}
	return w.beginCheckpoint(nil)
}

// EndCheckpoint is the other half: it makes the file durable, if a checkpoint has begun.
func (w *Writer) EndCheckpoint() error {
	w.checkpoints.Lock()
	defer w.checkpoints.Unlock()
	if err := w.protocol.Err(); err != nil {
		return err
	}
	return w.protocol.EndCheckpoint()
}

// CheckpointFor ends a checkpoint that has begun, and then makes one if the log lacks room for need
// stores. It is for the background, which also calls Grow.
func (w *Writer) CheckpointFor(need int) error {
	w.checkpoints.Lock()
	defer w.checkpoints.Unlock()
	err := w.protocol.EndCheckpoint()
	if err == nil && w.lacksRoom(need) {
		err = w.checkpointLocked()
	}
	return err
}

// beginCheckpoint commits and begins a checkpoint, if there is a log. If one has begun already, it ends
// that first. From the end of the segment on tap lists the operations, unless it is nil. REQUIRES:
// w.checkpoints.
func (w *Writer) beginCheckpoint(tap *Tap) error {
	if err := w.protocol.EndCheckpoint(); err != nil {
		return err
	}
	w.commits.Lock()
	defer w.commits.Unlock()
	seg, err := w.nextGeneration(tap)
	if err != nil {
		return err
	}
	return w.harden(seg)
}

// nextGeneration ends the open segment, as cut does, and the generation of the log. REQUIRES:
// w.checkpoints, w.commits.
func (w *Writer) nextGeneration(tap *Tap) (segment, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	seg, err := w.endSegment(nil)
	if err != nil {
		return seg, err
	}
	if w.protocol.Live() {
		w.protocol.BeginCheckpoint()
	}
	if tap != nil {
		w.mu.tap = tap
	}
	return seg, nil
}

// lacksRoom reports whether there is a log and it has no room for need stores.
func (w *Writer) lacksRoom(need int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.protocol.Live() && !w.protocol.Room(need)
}

// nextHalf has the log go on in its other half if this one lacks room for an operation. If the other
// half is still in use, it first ends the checkpoint that is under way. Without a background, the
// checkpoint that it begins stays under way until the next one.
func (w *Writer) nextHalf() error {
	begun, err := w.beginIfFull()
	if err != nil || !begun {
		return err
	}
	if w.Behind == nil {
		return w.Grow()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.Behind(w.most)
	return nil
}

// beginIfFull begins a checkpoint if the log lacks room for an operation.
func (w *Writer) beginIfFull() (begun bool, err error) {
	w.checkpoints.Lock()
	defer w.checkpoints.Unlock()
	if !w.lacksRoom(w.most) {
		return false, nil
	}
	return true, w.beginCheckpoint(nil)
}

// Grow makes a larger log for the next checkpoint to move to, unless the log has its full
// size. Everything else goes on meanwhile.
func (w *Writer) Grow() error {
	if bytes := w.largerLog(); bytes > 0 {
		return w.protocol.GrowLog(bytes)
	}
	return nil
}

// largerLog returns the size of the log after this one, or 0 if it is large enough.
func (w *Writer) largerLog() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	size, _ := w.protocol.LogBytes()
	if size == 0 || w.firstLog >= w.mostLog || size >= w.mostLog {
		return 0
	}
	return min(size*logGrowth, w.mostLog)
}

// hardenAll commits while no operation can proceed. REQUIRES: w.commits, w.mu.
func (w *Writer) hardenAll() error {
	seg, err := w.endSegment(nil)
	if err != nil {
		return err
	}
	// Also if all operations changed nothing: a file that is clean next must be in small pages.
	w.unseal(func(step func()) { step() })
	if !seg.ended {
		return nil
	}
	return w.hardenLocked(seg)
}

// hardenLocked is harden while no operation can proceed. REQUIRES: w.commits, w.mu.
func (w *Writer) hardenLocked(seg segment) error {
	if err := w.protocol.Harden(seg.Segment); err != nil {
		return err
	}
	w.dropPending(seg)
	return nil
}

// LockAll keeps operations, commits and checkpoints out until unlock is called.
func (w *Writer) LockAll() (unlock func()) {
	w.checkpoints.Lock()
	w.commits.Lock()
	w.mu.Lock()
	return func() {
		w.mu.Unlock()
		w.commits.Unlock()
		w.checkpoints.Unlock()
	}
}

// Clean commits and leaves a file that is complete without its log. Later operations return
// ErrClosed.
func (w *Writer) Clean() error {
	defer w.LockAll()()
	if w.mu.closed != nil {
		return nil
	}
	err := w.hardenAll()
	w.mu.closed = ErrClosed
	if err != nil {
		return err
	}
	return w.protocol.Clean()
}

// Close releases the volume, so that another writer may have it. Call Clean first, and no
// operation afterwards.
func (w *Writer) Close() error { return w.detach()() }

func (w *Writer) detach() (closeFiles func() error) {
	w.released.Store(true)
	w.mu.Lock() // another goroutine may be reading the state
	defer w.mu.Unlock()
	return w.protocol.Detach()
}
