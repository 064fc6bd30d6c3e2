package writer

import "github.com/mmapfilter/mmapfilter/layout"

// known has hashes that are in the history, so that InsertUnique need not write each repeat to it. It
// is exact: each hash has one place, which the next one takes. An empty place has 0, so that hash is
// unknown.
type known [1 << 16]uint64

func (k *known) has(hash uint64) bool {
	return k != nil && hash != 0 && k[hash%uint64(len(k))] == hash
}

// did notes what an operation has made of a hash.
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
