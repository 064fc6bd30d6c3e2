package writer

import "github.com/mmapfilter/mmapfilter/layout"

// Delete deletes an item of a hash. It reports false if there certainly is none; such a delete
// changes nothing, but counts: see CountFull.
func (w *Writer) Delete(hash uint64) (bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, done, err := w.do(layout.Delete, hash)
	return done, err
}
