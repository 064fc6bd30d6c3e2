package writer

import (
	"time"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/recovery"
	"github.com/mmapfilter/mmapfilter/recovery/osfile"
)

// Sync commits: when it returns nil, everything done before it is durable.
func (w *Writer) Sync() error { return w.SyncAt(nil) }

// SyncAt is Sync. If seq is not nil, SyncAt sets the user sequence to the result of seq, which
// gets the number of operations since the user sequence was last set. seq is called while no
// operation is under way.
func (w *Writer) SyncAt(seq func(operations uint64) uint64) error {
	return w.commitWith(boundary{seq: seq})
}

// commitWith is commit, but makes room in the log if there is none.
func (w *Writer) commitWith(at boundary) error {
	for {
		err := w.commit(at)
		if err != errLogFull {
			return err
		}
		if err := w.nextHalf(); err != nil {
			return err
		}
	}
}

// A boundary says what a commit does when it ends the open segment, while no operation is under way.
type boundary struct {
	seq        func(operations uint64) uint64 // see SyncAt; or nil
	generation bool                           // it also ends the generation of the log. REQUIRES: w.checkpoints
	tap        *Tap                           // lists the operations from then on; or nil
	mark       *layout.Mark                   // the place of a replica in the followed history from this commit on; or nil
}

// commit ends the open segment, makes it durable and stores it to the file. Operations go on while it
// waits for the disk. It returns errLogFull if the log has no room for a commit.
func (w *Writer) commit(at boundary) error {
	w.commits.Lock()
	defer w.commits.Unlock()
	seg, err := w.cut(at)
	if err != nil || !seg.ended {
		return err
	}
	w.DropLargePages()
	if err := w.protocol.Harden(seg.Segment); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.dropPending(seg)
	return nil
}

// commitLocked is commit for a caller that has locked operations out. If always is set, it commits
// even if there is nothing to make durable. REQUIRES: w.commits, w.mu.
func (w *Writer) commitLocked(at boundary, always bool) error {
	seg, err := w.endSegment(at, always)
	if err != nil {
		return err
	}
	for w.dropPart() { // even if no operation changed anything: the file will be clean, so it needs small pages
	}
	if !seg.ended {
		return nil
	}
	if err := w.protocol.Harden(seg.Segment); err != nil {
		return err
	}
	w.dropPending(seg)
	return nil
}

// cut takes w.mu and ends the open segment. REQUIRES: w.commits.
func (w *Writer) cut(at boundary) (segment, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	seg, err := w.endSegment(at, false)
	if err != nil {
		return seg, err
	}
	if at.generation && w.protocol.Live() {
		w.protocol.BeginCheckpoint()
	}
	if at.tap != nil {
		at.tap.begin(w.protocol.Count())
		w.mu.tap = at.tap
	}
	return seg, nil
}

// endSegment ends the open segment and starts another. If there is nothing to make durable, it does so
// only if always is set. It returns errLogFull if the log has no room for a segment without operations.
// REQUIRES: w.commits, w.mu.
func (w *Writer) endSegment(at boundary, always bool) (segment, error) {
	if w.mu.closed != nil {
		return segment{}, w.mu.closed
	}
	if err := w.protocol.Err(); err != nil {
		return segment{}, err
	}
	if at.seq == nil && at.mark == nil && !always && w.protocol.SegmentBytes() == 0 {
		return segment{}, nil
	}
	if err := w.begin(); err != nil {
		return segment{}, err
	}
	if w.protocol.SegmentBytes() == 0 && !w.protocol.Room(1) || at.mark != nil && !w.protocol.Room(recovery.MarkStores) {
		return segment{}, errLogFull
	}
	var next uint64
	if at.seq != nil {
		next = at.seq(w.protocol.Operations())
	}
	if at.mark != nil {
		w.protocol.Mark(*at.mark)
	}
	seg := segment{w.protocol.EndSegment(at.seq != nil, next), w.mu.pending, true}
	if p := w.overlay.Load(); p != nil {
		w.overlay.Store(p.Next())
	}
	return seg, nil
}

// A segment is a segment of the log that is being made durable.
type segment struct {
	recovery.Segment
	operations int  // number of its operations
	ended      bool // false if there was nothing to commit
}

// dropPending drops the pending words of a segment that has been stored to the file. REQUIRES:
// w.commits, w.mu.
func (w *Writer) dropPending(seg segment) {
	p := w.overlay.Load()
	if w.mu.pending -= seg.operations; w.mu.pending == 0 {
		if p != nil {
			w.mu.spare = p.Active() // it is empty, and has a good size for the next segment
			w.overlay.Store(nil)
		}
		return
	}
	w.overlay.Store(p.Drop())
	if w.Work != nil { // operations arrived while we waited for the disk
		w.Work.ask(due{})
	}
}

// Checkpoint commits, makes the file durable and starts the log anew. Operations and commits
// go on meanwhile, in the next generation of the log.
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

// BeginCheckpoint is the first half of Checkpoint: it commits, and makes the log go on in its
// next generation, unless a checkpoint has begun already.
func (w *Writer) BeginCheckpoint() error {
	w.checkpoints.Lock()
	defer w.checkpoints.Unlock()
	if w.protocol.Checkpointing() {
		return w.Sync()
	}
	return w.beginCheckpoint(nil)
}

// EndCheckpoint is the second half of Checkpoint: it makes the file durable, if a
// checkpoint has begun.
func (w *Writer) EndCheckpoint() error {
	w.checkpoints.Lock()
	defer w.checkpoints.Unlock()
	if err := w.protocol.Err(); err != nil {
		return err
	}
	return w.protocol.EndCheckpoint()
}

// CheckpointFor ends a checkpoint that has begun, and then makes one if the log lacks room for need
// stores. The background calls it, and then Grow.
func (w *Writer) CheckpointFor(need int) error {
	w.checkpoints.Lock()
	defer w.checkpoints.Unlock()
	err := w.protocol.EndCheckpoint()
	if err == nil && w.lacksRoom(need) {
		err = w.checkpointLocked()
	}
	return err
}

// forgetPast removes former files of hashes once Options.KeepChanges is over. The lock keeps a rebuild
// from renaming files meanwhile.
func (w *Writer) forgetPast(files *osfile.Files) {
	w.checkpoints.Lock()
	defer w.checkpoints.Unlock()
	osfile.ForgetPast(files.Path(), time.Duration(w.Superblock().KeepChanges()))
}

// beginCheckpoint commits and begins a checkpoint, if there is a log. If a checkpoint has begun
// already, beginCheckpoint ends it first. tap, if not nil, lists the operations from the end of the
// segment on. REQUIRES: w.checkpoints.
func (w *Writer) beginCheckpoint(tap *Tap) error {
	if err := w.protocol.EndCheckpoint(); err != nil {
		return err
	}
	return w.commit(boundary{generation: true, tap: tap})
}

// lacksRoom reports whether there is a log and it has no room for need stores.
func (w *Writer) lacksRoom(need int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.protocol.Live() && !w.protocol.Room(need)
}

// nextHalf makes the log go on in its other half if the half in use lacks room for an operation.
// If the other half is still needed, nextHalf first ends the checkpoint that is under way.
// Without a Work, the checkpoint that it begins stays under way until the next one.
func (w *Writer) nextHalf() error {
	w.checkpoints.Lock()
	defer w.checkpoints.Unlock()
	if !w.lacksRoom(w.most) {
		return nil
	}
	if err := w.beginCheckpoint(nil); err != nil {
		return err
	}
	if w.Work == nil {
		return w.Grow()
	}
	w.Work.ask(due{room: w.most})
	return nil
}

// Grow creates a larger log for the next checkpoint to move to, unless the log already has its full
// size. Operations and commits go on meanwhile.
func (w *Writer) Grow() error {
	w.mu.Lock()
	size, _ := w.protocol.LogBytes()
	larger := min(size*logGrowth, w.mostLog)
	full := size == 0 || w.firstLog >= w.mostLog || size >= w.mostLog
	w.mu.Unlock()
	if full {
		return nil
	}
	return w.protocol.GrowLog(larger)
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
	err := w.commitLocked(boundary{}, false)
	w.mu.closed = ErrClosed
	if err != nil {
		return err
	}
	return w.protocol.Clean()
}

// Close closes the files, so that another writer may open them. Call Clean first to leave a complete
// file. After Close, call no operation.
func (w *Writer) Close() error {
	w.released.Store(true)
	w.checkpoints.Lock() // a Recent may be reading the logs
	defer w.checkpoints.Unlock()
	w.mu.Lock() // another goroutine may be reading the state
	closeFiles := w.protocol.Detach()
	w.mu.Unlock()
	return closeFiles()
}
