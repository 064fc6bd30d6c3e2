package writer

import "github.com/mmapfilter/mmapfilter/layout"

// do does an operation on a hash: it plans what the operation does to the items, and finishes it. It
// returns by how many the items grow, and whether it has done anything, if only to the history. If
// it fails, nothing has happened. REQUIRES: w.mu.
func (w *Writer) do(op layout.Op, hash uint64) (grow int, done bool, err error) {
	if err := w.ready(); err != nil {
		return 0, false, err
	}
	grow, done, err = w.plan(op, hash, false)
	switch {
	case done:
		w.finish(op, grow, hash)
	case err == nil:
		w.protocol.Skip() // the operation counts: see CountFull
	}
	return grow, done, err
}
