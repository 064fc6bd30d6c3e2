package engine

import (
	"time"

	"github.com/mmapfilter/mmapfilter/layout"
)

// While the file that takes the place of another becomes durable and gets the name, nobody knows which of
// the two a crash would leave. So operations are done in both: what a call has done is in the log of
// whichever file has the name (C2). Syncs wait until it is known, so that none has promised what only the
// old file has (C1).
//
// An operation is planned in the old file, done in the new one, and then finished in the old one, so that
// it is in both or in neither. It waits for nothing: if one of the files has no room, it returns ErrAgain,
// and the caller has it wait for the end of the handover (see AwaitHandover) and tries again.

// beginDoubles has operations done in next, too, from an instant on at which replay has done in it all
// that w has. It returns the segment of next that says so, which has the counters of w. Operations wait
// meanwhile. REQUIRES: w.checkpoints, w.commit, and those of next.
func (w *Writer) beginDoubles(next *Writer, exact bool, replay func(few int) error) (last segment, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	begun := time.Now()
	defer next.stalled(begun)
	if w.mu.closed != nil {
		return last, w.mu.closed
	}
	if err := w.protocol.Err(); err != nil {
		return last, err
	}
	if err := replay(0); err != nil {
		return last, err
	}
	next.mu.Lock()
	defer next.mu.Unlock()
	if exact && next.protocol.Length() != w.protocol.Length()+next.more {
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
		w.mu.doubles, w.mu.held, w.mu.tap = doubles{in: next, exact: exact}, true, nil
		next.mu.handover = time.Since(begun)
	}
	return last, err
}

// doubles say where else the operations of a writer are done.
type doubles struct {
	in    *Writer // or nil
	exact bool    // it has the same items
	err   error   // what kept an operation from being the same in both
}

// doubling returns an error if an operation was not the same in both files.
func (w *Writer) doubling() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.mu.doubles.err
}

// endDoubles ends what beginDoubles began.
func (w *Writer) endDoubles() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.doubles, w.mu.held = doubles{}, false
}

// AwaitHandover waits until no handover is under way. Operations that return ErrAgain are tried again
// then.
func (w *Writer) AwaitHandover() {
	w.commit.Lock()
	w.commit.Unlock() //lint:ignore SA2001 a handover holds it until its end
}

// double does an operation in the other file, too, if a handover is under way. It does so before w
// changes. It returns ErrAgain if it cannot; then nothing has happened. REQUIRES: w.mu.
func (w *Writer) double(kind Kind, hash uint64) error {
	next := w.mu.doubles.in
	if next == nil {
		return nil
	}
	next.mu.Lock()
	defer next.mu.Unlock()
	if next.ready() != nil {
		return ErrAgain // if it has failed, so will the handover
	}
	switch {
	case kind == Delete:
		if done, _ := next.deleteReady(hash); !done && w.mu.doubles.exact {
			w.mu.doubles.err = ErrDiverged
		}
		return nil
	case kind == LeftOut && layout.Lookup(next.table, next.newest, hash):
		next.protocol.Skip()
		return nil
	case !next.place(next.table.Split(hash)):
		return ErrAgain
	}
	if kind == LeftOut {
		next.more++
	}
	next.finish(1, hash)
	return nil
}

// skip counts an operation that changes nothing, in both files. REQUIRES: w.mu.
func (w *Writer) skip() {
	w.protocol.Skip()
	if next := w.mu.doubles.in; next != nil {
		next.mu.Lock()
		defer next.mu.Unlock()
		next.protocol.Skip()
	}
}
