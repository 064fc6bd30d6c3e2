package engine

import (
	"errors"
	"math"
	"time"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/wal"
	"github.com/mmapfilter/mmapfilter/recovery"
)

// fewLeft is how many operations may be left for the last step of a handover: so few that they take
// less time than its syncs.
const fewLeft = 512

// mostCommits is how many commits of the new file come before the last step.
const mostCommits = 8

// calm is how long each sync before the last step may take. If one takes longer, the disk
// is busy with something else, and the syncs of the last step would wait for that, too.
const calm = 10 * time.Millisecond

// ErrDiverged is returned if a replay does not lead to the same items: the hashes are not those of
// the filter.
var ErrDiverged = errors.New("K3: the operations do not fit the items that they are for")

// Tapped is Checkpoint, and puts what is done after it into a tap. It returns the hashes that the
// file keeps as of then: they stay as they are. A writer has one tap at a time; Untap ends it.
func (w *Writer) Tapped(tap *Tap) (recovery.HashFile, layout.Hashes, error) {
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
		return nil, layout.Hashes{}, err
	}
	return w.protocol.Hashes()
}

// beginTapped is beginCheckpoint with a tap. REQUIRES: w.checkpoints.
func (w *Writer) beginTapped(tap *Tap) error {
	w.commit.Lock()
	defer w.commit.Unlock()
	b, ok, err := w.nextGeneration(tap)
	if err != nil || !ok {
		return err
	}
	return w.harden(b)
}

// Quiet calls do at an instant at which no operation is under way, and puts what is done after it
// into a tap, unless do fails.
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

// Untap ends the tap.
func (w *Writer) Untap() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.tap = nil
}

// Replay does operations that were taken from a tap, in order. It returns how many it has done. If
// exact is set, a delete of what is not there is an error. What was left out in the old file may
// have to be inserted in this one, whose other fingerprints do not answer for it.
func (w *Writer) Replay(hashes []uint64, kinds []Kind, exact bool) (n int, err error) {
	for n < len(hashes) {
		inserts := 0
		for inserts < min(len(hashes)-n, Batch) && kinds[n+inserts] == Insert {
			inserts++
		}
		if inserts > 0 {
			following := hashes[n+inserts : min(n+inserts+Batch, len(hashes))]
			if err := w.InsertAll(hashes[n:n+inserts], following, &n); err != nil {
				return n, err
			}
			continue
		}
		var err error
		var done bool
		if kinds[n] == Delete {
			if done, err = w.Delete(hashes[n]); err == nil && exact && !done {
				err = ErrDiverged
			}
		} else if done, err = w.InsertUnique(hashes[n]); done {
			w.more++
		}
		if err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// Handover has next, the writer of a new file, take over from w. It calls replay to do in next what
// is in the tap: first while operations go on, until few are left, and then, with few set to 0, while
// none can proceed. Then it makes next durable, with the counters of w, and calls swap, which puts
// the new file to use. From then on w does nothing, and returns ErrMoved.
//
// No checkpoint of w can begin meanwhile. So operations that come faster than replay does them wait
// for room in the log, and few will be left. If w makes a checkpoint when Handover is called, so many
// could come until it ends that they wait for long: then Handover returns ErrAgain, unless wait is
// set. It does so too if they would soon need a checkpoint, and has the background make it, or if the
// disk is busy.
//
// If exact is set, both must have as many items then, but for those that were left out in w. If
// Handover fails, nothing has happened but for what replay did; unless it has called swap: then next
// has failed. It returns ErrAgain also if next has no room in its log or makes a checkpoint, and if a
// log is being made.
func (w *Writer) Handover(next *Writer, exact, wait bool, replay func(few int) error, swap func()) error {
	if wait {
		w.checkpoints.Lock()
	} else if !w.checkpoints.TryLock() {
		return ErrAgain
	}
	defer w.checkpoints.Unlock()
	if !wait && (w.protocol.Checkpointing() || w.halfFull()) {
		return ErrAgain
	}
	if err := w.protocol.EndCheckpoint(); err != nil {
		return err
	}
	// What comes while next commits is left for the last step. So commits become shorter first.
	for tries, left := 0, math.MaxInt; tries < mostCommits && left > fewLeft; tries++ {
		begun := time.Now()
		if err := next.protocol.SyncNames(); err != nil { // and what the file system has to write before
			return err
		}
		busy := time.Since(begun) > calm
		if err := replay(fewLeft); err != nil {
			return err
		}
		begun = time.Now()
		if err := next.Sync(false, 0); err != nil {
			return err
		}
		if busy = busy || time.Since(begun) > calm; busy && !wait { // and checkpoints of w are kept out
			return ErrAgain
		}
		left = w.waiting()
	}
	next.checkpoints.Lock()
	defer next.checkpoints.Unlock()
	if next.protocol.Checkpointing() { // what has come by the time it ends is too much for now
		if err := next.protocol.EndCheckpoint(); err != nil {
			return err
		}
		return ErrAgain
	}
	w.commit.Lock()
	defer w.commit.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	begun := time.Now()
	defer next.stalled(begun)
	if w.mu.closed != nil {
		return w.mu.closed
	}
	if err := w.protocol.Err(); err != nil {
		return err
	}
	if err := w.begin(); err != nil { // a file that is not live cannot be superseded
		return err
	}
	next.hold(true)
	defer next.hold(false)
	if err := replay(0); err != nil {
		return err
	}
	next.commit.Lock()
	defer next.commit.Unlock()
	next.mu.Lock()
	defer next.mu.Unlock()
	if err := next.begin(); err != nil {
		return err
	}
	if exact && next.protocol.Length() != w.protocol.Length()+next.more {
		return ErrDiverged
	}
	if err := next.protocol.HashesErr(); err != nil && w.protocol.HashesErr() == nil {
		return err // the new file could not write them
	}
	for _, x := range []*Writer{w, next} {
		release, ok := x.protocol.HoldGrowth()
		if !ok {
			return ErrAgain
		}
		defer release()
	}
	next.protocol.Adopt(w.protocol)
	if err := next.commitCounters(); err != nil {
		return err
	}
	if err := next.protocol.TakePlace(w.protocol); err != nil {
		return err
	}
	w.mu.closed, w.mu.tap = ErrMoved, nil
	swap()
	next.mu.handover = time.Since(begun)
	return next.protocol.Err()
}

// waiting returns how many operations are in the tap.
func (w *Writer) waiting() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.mu.tap == nil {
		return 0
	}
	return w.mu.tap.Len()
}

// halfFull reports whether operations would soon wait for room if no checkpoint could begin. If so, it
// has the background make one: without operations, nothing else would.
func (w *Writer) halfFull() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	size, used := w.protocol.LogUse()
	full := used > size/2
	if full && w.Behind != nil {
		w.Behind(int(size / wal.RecordBytes))
	}
	return full
}

// hold has operations fail with ErrAgain where they would wait for room.
func (w *Writer) hold(held bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.held = held
}

// commitCounters commits, also if only the counters have changed. REQUIRES: w.commit, w.mu.
func (w *Writer) commitCounters() error {
	b, err := w.cutSegment(nil)
	if err == errLogFull {
		return ErrAgain
	}
	if err == nil {
		err = w.protocol.Harden(b.Segment)
	}
	if err == nil {
		w.dropPending(b)
	}
	return err
}

// Expire deletes items of hashes, in blocks. The tap was begun when these items were there, and
// deleted says which of them have been deleted since: Expire leaves out one item for each, and
// keeps count. It returns how many items it has deleted.
func (w *Writer) Expire(hashes []uint64, tap *Tap, deleted map[uint64]uint64) (n uint64, err error) {
	for len(hashes) > 0 && err == nil {
		block := hashes[:min(len(hashes), Batch)]
		hashes = hashes[len(block):]
		err = w.expire(block, tap, deleted, &n)
	}
	return n, err
}

func (w *Writer) expire(hashes []uint64, tap *Tap, deleted map[uint64]uint64, n *uint64) error {
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
		w.mu.tap = nil // this delete is not one of the others
		there := w.deleteReady(h)
		w.mu.tap = tap
		if !there {
			return ErrDiverged
		}
		*n++
	}
	return nil
}
