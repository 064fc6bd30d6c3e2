package writer

import (
	"time"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/recovery"
)

// StartTap makes a checkpoint; from then on the tap lists all operations. It returns the hashes that
// were kept up to the checkpoint, which do not change. A writer has one tap at a time; Untap ends it.
func (w *Writer) StartTap(tap *Tap) (recovery.Kept, error) {
	w.checkpoints.Lock()
	defer w.checkpoints.Unlock()
	err := w.beginCheckpoint(tap)
	if err == nil {
		err = w.protocol.EndCheckpoint()
	}
	if err != nil {
		return recovery.Kept{}, err
	}
	return w.protocol.Hashes()
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
	tap.begin(w.protocol.Count())
	if err := do(); err != nil {
		return err
	}
	w.mu.tap = tap
	return nil
}

// Untap ends the tap, and the delays that Rebuilding has begun.
func (w *Writer) Untap() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.tap, w.mu.mostTail, w.mu.pace.next = nil, 0, time.Time{}
}

// CountFrom makes the writer of a new file continue the Count that the old file had when the tap began.
// Call it before the first Replay.
func (w *Writer) CountFrom(tap *Tap) { w.adopt(tap.begun) }

func (w *Writer) adopt(c recovery.Count) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.protocol.Adopt(c)
}

// Replay does operations that were taken from a tap, in order. It returns how many it has done. An
// operation may change other items than it did in the old file, but it means the same in the history
// (K7), and is counted as one operation, as it was there. So each checkpoint of the new file has a
// position and the Count that belongs to it. Other processes that copy the file need both.
func (w *Writer) Replay(hashes []uint64, ops []layout.Op) (n int, err error) {
	for n < len(hashes) {
		if ops[n] == counted {
			w.adopt(recovery.Count{Seq: hashes[n], Operations: hashes[n+1]})
			n += 2
			continue
		}
		same := 1
		for same < min(len(hashes)-n, Batch) && ops[n+same] == ops[n] {
			same++
		}
		if err := w.DoAll(ops[n], hashes[n:n+same], true, &n, nil); err != nil {
			return n, err
		}
	}
	return n, nil
}

// Expire deletes an item for each hash. The filter had all of these items when the tap began. deleted
// counts, by hash, the items that other calls have deleted since then. Expire adds the deletes of the
// tap to deleted, and leaves out as many of its own deletes. stolen has the classes from which deletes
// of absent keys have taken items. In such a class, several keys may share the items that are left, so
// Expire deletes only in the history. counted says whether Filter.DurableOps counts its deletes. It
// returns how many items it has deleted.
func (w *Writer) Expire(hashes []uint64, tap *Tap, deleted map[uint64]uint64, stolen map[layout.Class]bool, counted bool) (n uint64, err error) {
	for len(hashes) > 0 && err == nil {
		block := hashes[:min(len(hashes), Batch)]
		hashes = hashes[len(block):]
		err = w.expire(block, tap, deleted, stolen, counted, &n)
	}
	return n, err
}

func (w *Writer) expire(hashes []uint64, tap *Tap, deleted map[uint64]uint64, stolen map[layout.Class]bool, counted bool, n *uint64) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, h := range hashes {
		if err := w.ready(); err != nil { // other calls may do operations while ready waits
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
		w.mu.tap = nil // the tap must list only the deletes of other calls
		w.append(layout.Delete, grow, h, counted)
		w.tell(1)
		w.mu.tap = tap
		*n++
	}
	return nil
}
