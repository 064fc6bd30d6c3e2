package engine

// Delete deletes an item of a hash. It reports false if there certainly is none; such a delete
// changes nothing, but counts: see skip.
func (w *Writer) Delete(hash uint64) (bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.ready(); err != nil {
		return false, err
	}
	return w.deleteReady(hash)
}

// deleteReady is Delete after ready. REQUIRES: w.mu.
func (w *Writer) deleteReady(hash uint64) (bool, error) {
	if !w.remove(hash) {
		w.skip()
		return false, nil
	}
	if err := w.double(Delete, hash); err != nil {
		w.mu.op.reset()
		return false, err
	}
	w.finish(-1, hash)
	return true, nil
}
