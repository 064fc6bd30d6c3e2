package writer

import "github.com/mmapfilter/mmapfilter/layout"

// known has hashes that are in the history, so that InsertUnique need not add each repeat to the
// history. It never has a hash that is not in the history. Each hash has one place in the array, and a
// newer hash replaces an older one there. An empty place has 0, so the hash 0 is never known.
type known [1 << 16]uint64

func (k *known) has(hash uint64) bool {
	return k != nil && hash != 0 && k[hash%uint64(len(k))] == hash
}

// did notes that the history has the hash of an operation or, after a delete, may lack it.
func (k *known) did(op layout.Op, hash uint64) {
	if k == nil {
		return
	}
	switch at := &k[hash%uint64(len(k))]; {
	case op != layout.Delete:
		*at = hash
	case *at == hash:
		*at = 0
	}
}
