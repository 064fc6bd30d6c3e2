package guard

import (
	"sync"
	"sync/atomic"
)

// An overflow keeps the hashes that found no room in the filter until the filter is rebuilt.
type overflow struct {
	any atomic.Bool // it has hashes
	mu  struct {
		sync.RWMutex
		before map[uint64]int // hashes that the rebuild under way includes, and the number of copies of each
		after  map[uint64]int // all other hashes, and the number of copies of each
		n      int            // number of hashes in both
	}
}

// mostOverflow bounds the number of hashes in an overflow, and so its memory. Tests change it.
var mostOverflow = 1 << 20

func (o *overflow) has(hash uint64) bool {
	if !o.any.Load() {
		return false
	}
	o.mu.RLock()
	defer o.mu.RUnlock()
	return o.mu.before[hash] > 0 || o.mu.after[hash] > 0
}

// add adds a hash. It reports false if the overflow is full.
func (o *overflow) add(hash uint64) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.mu.n == mostOverflow {
		return false
	}
	if o.mu.after == nil {
		o.mu.after = map[uint64]int{}
	}
	o.mu.after[hash]++
	o.mu.n++
	o.any.Store(true)
	return true
}

// addAll adds hashes. It reports false if some of them found no room.
func (o *overflow) addAll(hashes []uint64) (ok bool) {
	ok = true
	for _, h := range hashes {
		ok = o.add(h) && ok
	}
	return ok
}

// take removes one copy of a hash, and reports whether it was there.
func (o *overflow) take(hash uint64) bool {
	if !o.any.Load() {
		return false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, m := range []map[uint64]int{o.mu.after, o.mu.before} {
		if m[hash] > 0 {
			if m[hash]--; m[hash] == 0 {
				delete(m, hash)
			}
			o.mu.n--
			o.any.Store(o.mu.n > 0)
			return true
		}
	}
	return false
}

// begin marks the hashes that a rebuild will include, and returns their number.
func (o *overflow) begin() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.mu.before == nil {
		o.mu.before, o.mu.after = o.mu.after, nil
		return o.mu.n
	}
	for h, n := range o.mu.after {
		o.mu.before[h] += n
	}
	o.mu.after = nil
	return o.mu.n
}

// end ends the rebuild. If the rebuild succeeded, end drops the marked hashes, and returns all other
// hashes, which stay in the overflow.
func (o *overflow) end(succeeded bool) (hashes []uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !succeeded {
		for h, n := range o.mu.before {
			if o.mu.after == nil {
				o.mu.after = map[uint64]int{}
			}
			o.mu.after[h] += n
		}
		o.mu.before = nil
		return nil
	}
	o.mu.before, o.mu.n = nil, 0
	for h, n := range o.mu.after {
		o.mu.n += n
		for range n {
			hashes = append(hashes, h)
		}
	}
	o.any.Store(o.mu.n > 0)
	return hashes
}
