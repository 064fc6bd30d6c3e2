package engine

import (
	"github.com/mmapfilter/mmapfilter/layout"
)

// Insert inserts the item of a hash. An insert that returns ErrFull has changed nothing, but counts:
// see skip.
func (w *Writer) Insert(hash uint64) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.insertLocked(hash)
}

// insertLocked is Insert. REQUIRES: w.mu.
func (w *Writer) insertLocked(hash uint64) error {
	if err := w.ready(); err != nil {
		return err
	}
	if !w.planInsert(w.table.Split(hash)) {
		return ErrFull
	}
	if err := w.double(Insert, hash); err != nil {
		w.mu.op.reset()
		return err
	}
	w.finish(1, hash)
	return nil
}

// planInsert plans an insert and reports whether there is room. An insert without room counts (see
// skip), unless the caller may try it again. REQUIRES: w.mu.
func (w *Writer) planInsert(home layout.Item) bool {
	if w.tryInsert(home) {
		return true
	}
	if !w.Retries {
		w.skip()
	}
	return false
}

// SkipFull counts an insert that found no room and is not tried again: see Retries. If it returns
// ErrMoved or ErrClosed, the insert has not been counted: try it again.
func (w *Writer) SkipFull() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.mu.closed == nil {
		w.skip()
	}
	return w.mu.closed
}

// InsertUnique inserts an item unless a lookup answers "maybe", in one step.
func (w *Writer) InsertUnique(hash uint64) (added bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.insertUniqueLocked(hash)
}

// InsertUniqueAll does InsertUnique for up to Batch hashes in order and stops at the first error. It
// adds to done how many it has done, and to added how many of these it has added, even if a fault
// ends it.
func (w *Writer) InsertUniqueAll(hashes []uint64, done, added *int) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.prefetchHomes(hashes)
	for _, h := range hashes {
		new, err := w.insertUniqueLocked(h)
		if err != nil {
			return err
		}
		if *done++; new {
			*added++
		}
	}
	return nil
}

// insertUniqueLocked is InsertUnique. REQUIRES: w.mu.
func (w *Writer) insertUniqueLocked(hash uint64) (added bool, err error) {
	if err := w.ready(); err != nil {
		return false, err
	}
	if layout.Lookup(w.looks, w.newest, hash) {
		if err := w.double(LeftOut, hash); err != nil {
			return false, err
		}
		w.protocol.Skip()
		w.tapped(LeftOut, hash)
		return false, nil
	}
	err = w.insertLocked(hash)
	return err == nil, err
}
