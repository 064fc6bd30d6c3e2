package writer

import "github.com/mmapfilter/mmapfilter/layout"

// Insert inserts the item of a hash. An insert that returns ErrFull has changed nothing, and does
// not count as an operation unless CountFull is called.
func (w *Writer) Insert(hash uint64) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, _, err := w.do(layout.Insert, hash)
	return err
}

// InsertUnique inserts an item unless a lookup answers "maybe", in one step.
func (w *Writer) InsertUnique(hash uint64) (added bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	grow, _, err := w.do(layout.AtLeastOne, hash)
	return grow > 0, err
}

// InsertUniqueAll does InsertUnique for up to Batch hashes in order and stops at the first error. It
// stores which of them it has added, and adds to done how many it has done, even if a fault ends it.
func (w *Writer) InsertUniqueAll(hashes []uint64, done *int, added []bool) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.prefetchHomes(hashes)
	for i, h := range hashes {
		grow, _, err := w.do(layout.AtLeastOne, h)
		if err != nil {
			return err
		}
		added[i] = grow > 0
		*done++
	}
	return nil
}

// CountFull counts an insert that found no room and is not tried again: Filter.DurableOps counts every
// call that has returned, since a client that resumes after a crash leaves out as many of its calls.
// If CountFull returns ErrMoved or ErrClosed, the insert has not been counted: try it again.
func (w *Writer) CountFull() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.mu.closed == nil {
		w.protocol.Skip()
	}
	return w.mu.closed
}
