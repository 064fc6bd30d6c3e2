package engine

import (
	"math"

	"github.com/mmapfilter/mmapfilter/layout"
)

// Unknown is the count if it cannot be determined.
const Unknown = math.MaxUint64

// Count returns the number of items of the class of a hash, or Unknown.
func (w *Writer) Count(hash uint64) uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	n, ok := layout.Count(w.table, w.newest, hash)
	if !ok || w.Unsure() {
		return Unknown
	}
	return n
}
