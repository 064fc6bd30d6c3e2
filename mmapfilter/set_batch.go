package mmapfilter

import (
	"sync"

	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/engine"
)

var setHashes = sync.Pool{New: func() any { return new([engine.LookupBlock]uint64) }}

// ContainsBatch is [Filter.ContainsBatch] for the set. One manifest answers the whole batch.
func (s *Set) ContainsBatch(keys [][]byte, found []bool) {
	found = found[:len(keys)]
	st := s.state.Load()
	if st == nil {
		sayMaybe(found)
		return
	}
	scratch := setHashes.Get().(*[engine.LookupBlock]uint64)
	defer setHashes.Put(scratch)
	for len(keys) > 0 {
		hashes := scratch[:min(len(keys), len(scratch))]
		for i := range hashes {
			hashes[i] = st.hash.Hash(keys[i])
		}
		st.lookups.ContainsHashes(hashes, found[:len(hashes)])
		keys, found = keys[len(hashes):], found[len(hashes):]
	}
}
