package engine

import (
	"fmt"
	"time"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/wal"
	"github.com/mmapfilter/mmapfilter/recovery"
)

// fewLeft is how many operations may be left for the instant at which a handover keeps others out.
// Those wait until they are done: at paceBase for each, about as long as the shortest sleep (paceLeast).
const fewLeft = 512

// StartTap makes a checkpoint; from then on the tap lists all operations. It returns the hashes that
// the file keeps as of the checkpoint; they do not change. A writer has one tap at a time; Untap ends
// it.
func (w *Writer) StartTap(tap *Tap) (recovery.Kept, error) {
	w.checkpoints.Lock()
	defer w.checkpoints.Unlock()
	err := w.protocol.EndCheckpoint()
	if err == nil {
		err = w.beginTapped(tap)
	}
	if err == nil {
		err = w.protocol.EndCheckpoint()
	}
	if err != nil {
		return recovery.Kept{}, err
	}
	return w.protocol.Hashes()
}

// beginTapped is beginCheckpoint with a tap. REQUIRES: w.checkpoints.
func (w *Writer) beginTapped(tap *Tap) error {
	w.commit.Lock()
	defer w.commit.Unlock()
	seg, ok, err := w.nextGeneration(tap)
	if err != nil || !ok {
		return err
	}
	return w.harden(seg)
}

// Quiet calls do while no operation is under way. From then on the tap lists the operations,
// unless do fails.
func (w *Writer) Quiet(tap *Tap, do func() error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.mu.closed != nil {
		return w.mu.closed
	}
	if err := w.protocol.Err(); err != nil {
		return err
	}
	if err := do(); err != nil {
		return err
	}
	w.mu.tap = tap
	return nil
}

// Untap ends the tap, and what Rebuilding has begun.
func (w *Writer) Untap() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.tap, w.mu.mostTail, w.mu.pace.next = nil, 0, time.Time{}
}

// Replay does operations that were taken from a tap, in order. It returns how many it has done. What
// each does to the items may differ from what it did in the old file; what it means is the same (K7).
func (w *Writer) Replay(hashes []uint64, ops []layout.Op) (n int, err error) {
	for n < len(hashes) {
		inserts := 0
		for inserts < min(len(hashes)-n, Batch) && ops[n+inserts] == layout.Insert {
			inserts++
		}
		if inserts > 0 {
			following := hashes[n+inserts : min(n+inserts+Batch, len(hashes))]
			if err := w.InsertAll(hashes[n:n+inserts], following, &n); err != nil {
				return n, err
			}
			continue
		}
		if err := w.replayOne(ops[n], hashes[n]); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

func (w *Writer) replayOne(op layout.Op, hash uint64) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.again(op, hash)
}

// Handover has next, the writer of a new file, take over from w. It calls replay to do in next what
// is in the tap: first while operations go on, until at most few are left, and then, with few = 0, while
// none can proceed. From that instant on, operations are done in both files (see double), while next
// becomes durable, with the counters of w, and gets the name. Operations do not wait for the disk;
// syncs do. Then Handover calls swap, which puts the new file to use. From then on w returns ErrMoved.
//
// Handover calls look(true) before it marks the old file as superseded, after which lookups there
// answer "maybe": from then on they should use the new file, which has the same keys. If the new file
// cannot take the place of the old one, Handover calls look(false).
//
// No checkpoint of either file can begin during a handover. If one is under way or due soon, the log
// could fill up meanwhile: Handover makes it, or leaves it to the background, and returns ErrAgain. If
// wait is set, it goes on although a checkpoint is due, and waits for one of w that is under way:
// where operations come fast, one may be due at each try. Handover also returns ErrAgain while a
// larger log is being made.
//
// If exact is set, both files must have the same history when the doubling begins and when it ends. If
// Handover fails before it calls swap, nothing has changed but what replay did. If it fails after that,
// next has failed.
func (w *Writer) Handover(next *Writer, exact, wait bool, replay func(few int) error, look func(new bool), swap func()) error {
	next.checkpoints.Lock()
	defer next.checkpoints.Unlock()
	switch {
	case !wait && next.halfFull(), next.lacksRoom(next.most):
		return putOff(next.checkpointLocked())
	case next.protocol.Checkpointing():
		return putOff(next.protocol.EndCheckpoint()) // many operations may have come meanwhile
	}
	if err := next.settle(); err != nil {
		return err
	}
	next.EndUnsealing() // it takes long, and from here on syncs of w wait
	if wait {
		w.checkpoints.Lock()
	} else if !w.checkpoints.TryLock() {
		return ErrAgain
	}
	defer w.checkpoints.Unlock()
	if !wait && w.protocol.Checkpointing() {
		return ErrAgain
	}
	if !wait && w.halfFull() {
		w.askForCheckpoint()
		return ErrAgain
	}
	if err := w.protocol.Catch(w.settle); err != nil { // a file that is not live cannot be superseded
		return err
	}
	next.commit.Lock()
	defer next.commit.Unlock()
	next.hold(true)
	defer next.hold(false)
	w.commit.Lock()
	defer w.commit.Unlock()
	for _, x := range []*Writer{w, next} {
		release, ok := x.protocol.HoldGrowth()
		if !ok {
			return ErrAgain
		}
		defer release()
	}
	if err := replay(fewLeft); err != nil { // what came while we waited for locks
		return err
	}
	last, err := w.beginDoubles(next, exact, replay)
	if err != nil {
		return err
	}
	defer w.endDoubles()
	if err := next.harden(last); err != nil {
		return err
	}
	if err := w.doubling(); err != nil {
		return err
	}
	look(true)
	if err := next.protocol.TakePlace(w.protocol); err != nil {
		look(false)
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.sound(); err != nil { // see doubling; but next has the name
		next.Fail(fmt.Errorf("the file whose place it takes: %w", err))
	}
	w.mu.closed, w.mu.tap = ErrMoved, nil
	swap()
	return next.protocol.Err()
}

// putOff returns ErrAgain unless what had to be done first has failed.
func putOff(err error) error {
	if err != nil {
		return err
	}
	return ErrAgain
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

// beginDoubles has replay do the rest in next. From that instant on, operations are done in both files.
// It returns the segment of next that ends there, which has the counters of w. Operations wait
// meanwhile. REQUIRES: w.checkpoints, w.commit, and those of next.
func (w *Writer) beginDoubles(next *Writer, exact bool, replay func(few int) error) (last segment, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	begun := time.Now()
	defer next.stalled(begun)
	if w.mu.closed != nil {
		return last, w.mu.closed
	}
	if err := w.sound(); err != nil {
		return last, err
	}
	if err := replay(0); err != nil {
		return last, err
	}
	next.mu.Lock()
	defer next.mu.Unlock()
	if exact && next.protocol.History().At != w.protocol.History().At {
		return last, ErrDiverged
	}
	if err := next.protocol.HashesErr(); err != nil && w.protocol.HashesErr() == nil {
		return last, err // the new file could not write them
	}
	next.protocol.Adopt(w.protocol)
	last, err = next.cutSegment(nil) // also if only the counters have changed
	if err == errLogFull {
		err = ErrAgain
	}
	if err == nil {
		w.mu.doubles, w.mu.held, w.mu.tap = doubles{next, exact}, true, nil
		if exact {
			next.mu.known = w.mu.known
		}
		next.mu.handover = time.Since(begun)
	}
	return last, err
}

// doubling returns an error if the files have no longer the same history, or if one of the writers has
// failed.
func (w *Writer) doubling() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.sound(); err != nil {
		return err
	}
	next := w.mu.doubles.in
	if err := next.Err(); err != nil {
		return err
	}
	if w.mu.doubles.exact && next.protocol.History().At != w.protocol.History().At {
		return ErrDiverged
	}
	return nil
}

// endDoubles ends what beginDoubles began.
func (w *Writer) endDoubles() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.doubles, w.mu.held = doubles{}, false
}

// halfFull reports whether operations would soon wait for room if no checkpoint could begin.
func (w *Writer) halfFull() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	size, used := w.protocol.LogUse()
	return used > size/2
}

// askForCheckpoint has the background make a checkpoint: unless operations come, nothing else would.
func (w *Writer) askForCheckpoint() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if size, _ := w.protocol.LogUse(); w.Behind != nil {
		w.Behind(int(size / wal.RecordBytes))
	}
}

// hold has operations fail with ErrAgain where they would wait for room.
func (w *Writer) hold(held bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.held = held
}

// Expire deletes an item for each hash. All of these items were there when the tap began. deleted
// counts, by hash, the items that others have deleted since: Expire adds those in the tap, and leaves
// out as many of its own deletes. stolen are the classes of which deletes of keys that were not there
// have taken items: of these, keys may share an item that is left, so that the history alone says what
// was deleted. It returns how many items it has deleted.
func (w *Writer) Expire(hashes []uint64, tap *Tap, deleted map[uint64]uint64, stolen map[layout.Class]bool) (n uint64, err error) {
	for len(hashes) > 0 && err == nil {
		block := hashes[:min(len(hashes), Batch)]
		hashes = hashes[len(block):]
		err = w.expire(block, tap, deleted, stolen, &n)
	}
	return n, err
}

func (w *Writer) expire(hashes []uint64, tap *Tap, deleted map[uint64]uint64, stolen map[layout.Class]bool, n *uint64) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, h := range hashes {
		if err := w.ready(); err != nil { // it may let others in
			return err
		}
		if err := tap.drain(deleted); err != nil {
			return err
		}
		if deleted[h] > 0 {
			deleted[h]--
			continue
		}
		grow := 0
		if !stolen[w.table.Class(w.table.Split(h))] {
			grow, _, _ = w.plan(layout.Delete, h, true)
		}
		w.mu.tap = nil // the tap lists the deletes of others
		w.finish(layout.Delete, grow, h)
		w.mu.tap = tap
		*n++
	}
	return nil
}
