package build

import (
	"slices"

	"github.com/mmapfilter/mmapfilter/layout"
)

// A worker is the state that one goroutine of a build keeps from task to task.
type worker struct {
	hashes, tmp []uint64
	read        int     // hashes that the last load read, with each equal one counted
	ages        []uint8 // of those that it returned; empty if all have age 0
	merge       mergeBuffers
	line        layout.Line
	beyond      []uint64 // hashes of a line that it has no room for
	victims     []layout.Item
	crowd       layout.Crowd
	homeless    *collector
}

// manyHashes is how many hashes of a partition, 32 MiB of them, are gathered before equal ones
// are dropped. Hashes are uniform, so a partition has that many only if there are many billions
// of keys, or very many copies of a few.
const manyHashes = 4 << 20

// load reads and sorts the hashes of the partitions [from, to). If distinct is set, it keeps one
// of each group of equal hashes.
func (w *worker) load(s *spool, from, to int, drop, distinct bool) ([]uint64, error) {
	n, limit := s.size(from, to), manyHashes
	if distinct {
		n = min(n, limit)
	}
	w.hashes, w.read = slices.Grow(w.hashes[:0], n), 0
	err := s.each(from, to, drop, func(chunk []uint64) {
		w.read += len(chunk)
		w.hashes = append(w.hashes, chunk...)
		if distinct && len(w.hashes) > limit {
			slices.Sort(w.hashes)
			w.hashes = slices.Compact(w.hashes)
			limit = max(limit, 2*len(w.hashes))
		}
	})
	if err != nil {
		return nil, err
	}
	w.tmp = slices.Grow(w.tmp[:0], len(w.hashes))
	sorted := sortHashes(w.hashes, w.tmp[:len(w.hashes)], s.prefixBits(to-from))
	if distinct {
		sorted = slices.Compact(sorted)
	}
	return sorted, nil
}
