package writer

import "github.com/mmapfilter/mmapfilter/layout"

// Delete deletes an item of a hash. It reports false if there certainly is no such item. Such
// a delete changes nothing, but counts as an operation: see CountFull.
func (w *Writer) Delete(hash uint64) (bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, done, err := w.do(layout.Delete, hash)
	return done, err
}
