package engine

import "github.com/mmapfilter/mmapfilter/layout"

// do does an operation on a hash: it plans what that does to the items here, does it in the other
// file if a handover is under way, and then finishes it here. It returns by how many the items grow,
// and whether it has done anything, if only to the history. If it fails, nothing has happened; an
// insert without room counts all the same, unless the caller may try it again. REQUIRES: w.mu.
func (w *Writer) do(op layout.Op, hash uint64) (grow int, done bool, err error) {
	if err := w.ready(); err != nil {
		return 0, false, err
	}
	grow, done, err = w.plan(op, hash, false)
	if !done {
		if err == nil || !w.Retries {
			w.skip()
		}
		return 0, false, err
	}
	if err := w.double(op, hash); err != nil {
		w.mu.op.reset()
		return 0, false, err
	}
	w.finish(op, grow, hash)
	return grow, true, nil
}
