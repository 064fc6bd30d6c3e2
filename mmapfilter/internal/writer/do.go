package writer

import "github.com/mmapfilter/mmapfilter/layout"

// Insert inserts the item of a hash. An insert that returns ErrFull has changed nothing, and is not
// counted as an operation unless CountFull is called.
func (w *Writer) Insert(hash uint64) error {
	_, _, err := w.one(layout.Insert, hash)
	return err
}

// InsertUnique inserts an item unless a lookup answers "maybe". Lookup and insert are one step.
func (w *Writer) InsertUnique(hash uint64) (added bool, err error) {
	grow, _, err := w.one(layout.AtLeastOne, hash)
	return grow > 0, err
}

// Delete deletes an item of a hash. It reports false if the filter certainly has no such
// item. Such a delete changes nothing, but is counted as an operation (see CountFull).
func (w *Writer) Delete(hash uint64) (bool, error) {
	_, done, err := w.one(layout.Delete, hash)
	return done, err
}

func (w *Writer) one(op layout.Op, hash uint64) (grow int, done bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if grow, done, err = w.do(op, hash, false); done {
		w.tell(1)
	}
	return grow, done, err
}

// Batch is how many operations of a batch are done under one lock.
const Batch = 64

// DoAll does an operation on up to Batch hashes in order, and stops at the first error. It adds the
// number of operations that it has done to done, even if a fault ends it. If added is not nil, added[i]
// says whether the operation on hashes[i] added an item. listed has the same meaning as for plan.
func (w *Writer) DoAll(op layout.Op, hashes []uint64, listed bool, done *int, added []bool) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	untold := 0
	defer func() {
		if untold > 0 {
			w.tell(untold)
		}
	}()
	w.prefetchHomes(hashes)
	for i, h := range hashes {
		grow, did, err := w.do(op, h, listed)
		if err != nil {
			return err
		}
		if added != nil {
			added[i] = grow > 0
		}
		if did {
			untold++
		}
		*done++
	}
	return nil
}

// do does an operation on a hash, but does not call tell: it plans what the operation does to the items,
// and appends it. grow is the change in the number of items; done reports whether the operation has
// changed anything, if only the history. If do fails, nothing has happened. listed has the same meaning
// as for plan. REQUIRES: w.mu.
func (w *Writer) do(op layout.Op, hash uint64, listed bool) (grow int, done bool, err error) {
	if err := w.ready(); err != nil {
		return 0, false, err
	}
	grow, done, err = w.plan(op, hash, listed)
	switch {
	case done:
		w.append(op, grow, hash, true)
	case err == nil:
		w.protocol.Skip() // counts the operation, as CountFull explains
	}
	return grow, done, err
}

// CountFull counts an insert that found no room and is not tried again. Filter.DurableOps counts every
// call that has returned, because a client that resumes after a crash skips that many of its calls. If
// CountFull returns ErrMoved or ErrClosed, the insert has not been counted: try it again.
func (w *Writer) CountFull() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.mu.closed == nil {
		w.protocol.Skip()
	}
	return w.mu.closed
}
