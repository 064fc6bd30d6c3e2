package engine

import (
	"github.com/mmapfilter/mmapfilter/layout"
)

// While a new file becomes durable and takes the name of the old one, a crash may leave either file.
// So operations are done in both: whichever file has the name, its log has every operation that has
// returned (C2). Syncs wait until the new file has the name for good, so that none promises what only
// the old file has (C1).
//
// An operation is planned in the old file, done in the new one, and then finished in the old one, so
// that it is in both or in neither. It waits for nothing: if one of the files has no room, it returns
// ErrAgain, and the caller waits for the end of the handover (AwaitHandover) and tries again.

// AwaitHandover waits until no handover is under way. An operation that returned ErrAgain can then be
// tried again.
func (w *Writer) AwaitHandover() {
	w.commit.Lock()
	w.commit.Unlock() //lint:ignore SA2001 a handover holds it until its end
}

// double does an operation in the other file, too, if a handover is under way. It does so before w
// changes. It returns ErrAgain if it cannot; then nothing has happened. REQUIRES: w.mu.
func (w *Writer) double(op layout.Op, hash uint64) error {
	next := w.mu.doubles.in
	if next == nil {
		return nil
	}
	next.mu.Lock()
	defer next.mu.Unlock()
	if next.protocol.Catch(func() error { return next.again(op, hash) }) != nil {
		return ErrAgain // if it has failed, so will the handover
	}
	return nil
}

// again does an operation of another file, which is in the history. REQUIRES: w.mu.
func (w *Writer) again(op layout.Op, hash uint64) error {
	err := w.ready()
	if err != nil {
		return err
	}
	grow, _, err := w.plan(op, hash, true)
	if err == nil {
		w.finish(op, grow, hash)
	}
	return err
}

// skip counts an operation that changes nothing, in both files: a delete that finds no item, or an
// insert that finds no room. Filter.DurableOps counts every call that has returned, since a client
// that resumes after a crash leaves out that many of its calls. REQUIRES: w.mu.
func (w *Writer) skip() {
	w.protocol.Skip()
	if next := w.mu.doubles.in; next != nil {
		next.mu.Lock()
		defer next.mu.Unlock()
		next.protocol.Skip()
	}
}
