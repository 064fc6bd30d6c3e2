package writer

import (
	"time"

	"github.com/mmapfilter/mmapfilter/layout"
)

// Replace makes next, the writer of a new file, take over from w (K3). The new file was built with the
// items of one instant, and since then a tap of w has listed every operation. catchUp repeats
// operations of the tap in next, until at most a given number are left. use makes the filter use the
// file of a writer, w or next.
//
// Operations wait in one pause, which begins with the handover. Everything that takes long comes before
// the pause: the checkpoints of both files, and a sync of next. (The checkpoints come first, because the
// rename in the pause syncs the directory, which may write whatever is dirty in files of the directory,
// and because no checkpoint can begin in the pause.) In the pause the last operations are repeated in
// next. Now next has all operations and becomes durable with the Count of w; then it gets the name.
// Lookups already use next in the pause, since w is marked as superseded and would answer "maybe". All
// other calls of next wait for its locks.
//
// If exact is set, both files must have the same history at the handover. If next does not get the name,
// Replace returns an error, w goes on as if nothing had happened, and next must not be used. Otherwise w
// returns ErrMoved from then on. If the disk fails after next has got the name, Replace returns the
// error of next, which has failed.
//
// Replace catches faults in the file of w; they make w fail. Its caller catches faults in the file of
// next.
func (w *Writer) Replace(next *Writer, exact bool, catchUp func(most int) error, use func(*Writer)) error {
	for _, x := range []*Writer{w, next} {
		x.protocol.HoldGrowth(true) // waiting for the end of a GrowLog could take long
		defer x.protocol.HoldGrowth(false)
	}
	if err := w.prepare(next, catchUp); err != nil {
		return err
	}
	w.checkpoints.Lock()
	defer w.checkpoints.Unlock()
	if err := w.protocol.Catch(w.settle); err != nil { // a file that is not live cannot be superseded
		return err
	}
	if err := catchUp(fewLeft); err != nil { // with operations that came meanwhile, while commits need not wait
		return err
	}
	w.commits.Lock()
	defer w.commits.Unlock()
	if err := catchUp(fewLeft); err != nil { // with operations that came while Replace waited for the lock
		return err
	}
	if err := next.Sync(); err != nil {
		return err
	}
	if err := catchUp(fewLeft); err != nil {
		return err
	}

	w.mu.Lock() // the handover
	defer w.mu.Unlock()
	begun := time.Now()
	defer func() {
		w.stalled(begun) // also if Replace fails
		next.stalledFor(time.Duration(w.longestStall.Load()))
	}()
	if w.mu.closed != nil {
		return w.mu.closed
	}
	if err := w.sound(); err != nil {
		return err
	}
	if err := catchUp(0); err != nil {
		return err
	}
	if err := next.nextHalf(); err != nil { // room for the commit
		return err
	}
	defer next.LockAll()()
	if err := next.follow(w, exact); err != nil {
		return err
	}
	placed := false
	next.handover.Lock()
	defer next.handover.Unlock()
	use(next)
	defer func() {
		if !placed { // after a fault, too
			next.mu.closed = ErrMoved
			use(w)
		}
	}()
	if err := next.protocol.TakePlace(w.protocol); err != nil {
		return err
	}
	placed = true
	w.mu.closed, w.mu.tap = ErrMoved, nil
	next.mu.stall = time.Since(begun)
	return next.Err()
}

const (
	// fewLeft is how many operations may be left for the pause. They are few enough to be done in less
	// time than the disk takes for one sync.
	fewLeft = 512
	// mostRounds bounds how often Replace makes checkpoints before the pause. If operations fill
	// half a log during each checkpoint, another checkpoint does not help, and the pause may take as
	// long as a checkpoint.
	mostRounds = 3
)

// prepare makes checkpoints of both files, and catches up with the operations that come meanwhile,
// until neither log is likely to fill up soon. Operations go on.
func (w *Writer) prepare(next *Writer, catchUp func(most int) error) error {
	if err := next.goLive(); err != nil {
		return err
	}
	for range mostRounds {
		if err := w.protocol.Catch(w.Checkpoint); err != nil {
			return err
		}
		if err := next.Checkpoint(); err != nil {
			return err
		}
		if err := catchUp(fewLeft); err != nil {
			return err
		}
		if !w.halfFull() && !next.halfFull() {
			break
		}
	}
	return nil
}

// goLive makes the file live, and drops the large pages of a sealed file, which must happen before the
// first store to its lines.
func (w *Writer) goLive() error {
	w.checkpoints.Lock()
	defer w.checkpoints.Unlock()
	if err := w.settle(); err != nil {
		return err
	}
	w.DropLargePages()
	return nil
}

// settle ends a checkpoint that has begun, and makes the file live. REQUIRES: w.checkpoints.
func (w *Writer) settle() error {
	if err := w.protocol.EndCheckpoint(); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.mu.closed != nil {
		return w.mu.closed
	}
	return w.begin()
}

// halfFull reports whether a checkpoint will soon be due.
func (w *Writer) halfFull() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	size, used := w.protocol.LogUse()
	return used > size/2
}

// follow makes all operations of w, the new file, durable with the Count of old, even if only the Count
// has changed. REQUIRES: the locks of w and old.
func (w *Writer) follow(old *Writer, exact bool) error {
	if exact && w.protocol.History().At != old.protocol.History().At {
		return ErrDiverged
	}
	if err := w.protocol.HashesErr(); err != nil && old.protocol.HashesErr() == nil {
		return err // the new file could not write its hashes
	}
	if err := w.protocol.EndCheckpoint(); err != nil {
		return err
	}
	if exact {
		w.mu.known = old.mu.known
	}
	c := old.protocol.Count()
	c.Operations = old.protocol.History().Counted(c.Operations) // in a replica, Operations may count changes of a set
	w.protocol.Adopt(c)
	at := boundary{}
	if exact && w.protocol.Superblock().Follows() {
		at.mark = old.mark()
	}
	err := w.commitLocked(at, true)
	w.follows.Store(w.protocol.Follows())
	return err
}

// mark returns the place of a replica with hashes in the history that it follows, perhaps in the middle
// of a set of changes. REQUIRES: w.mu.
func (w *Writer) mark() *layout.Mark {
	_, at := w.protocol.Followed()
	c := w.protocol.Count()
	return &layout.Mark{At: at, Set: w.protocol.History().Set, UserSeq: c.Seq, Operations: c.Operations}
}
