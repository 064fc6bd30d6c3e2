package mmapfilter

import "slices"

// A meaning is what a history of hashes means (K7): for each key, by its number, the times of its
// copies, the oldest first. No two keys of a test have one hash.
type meaning [][]uint64

func (m meaning) len() (n int) {
	for _, times := range m {
		n += len(times)
	}
	return n
}

func (m meaning) insert(key int, time uint64) {
	m[key] = append(m[key], time) // no time is before that of the operation before
}

// insertUnique reports whether there was none of the key. If there was, its age does not change.
func (m meaning) insertUnique(key int, time uint64) (fresh bool) {
	if fresh = len(m[key]) == 0; fresh {
		m.insert(key, time)
	}
	return fresh
}

// delete is for a Delete that has answered true, whatever item it took. It reports whether there was
// one of the key.
func (m meaning) delete(key int) (there bool) {
	if there = len(m[key]) > 0; there {
		m[key] = m[key][1:]
	}
	return there
}

func (m meaning) expire(before uint64) (n int) {
	for key := range m {
		for len(m[key]) > 0 && m[key][0] < before && m.delete(key) {
			n++
		}
	}
	return n
}

// merge adds what another history means. If distinct is set, the youngest of each key stays.
func (m meaning) merge(other meaning, distinct bool) {
	for key := range m {
		m[key] = slices.Concat(m[key], other[key])
		slices.Sort(m[key])
		for distinct && len(m[key]) > 1 {
			m.delete(key)
		}
	}
}
