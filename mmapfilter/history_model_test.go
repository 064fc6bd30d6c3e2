package mmapfilter

import "slices"

// A meaning is what a history of hashes means (K7): for each key, by its number, the times of its
// copies, oldest first. All keys of a test have different hashes.
type meaning [][]uint64

func (m meaning) len() (n int) {
	for _, times := range m {
		n += len(times)
	}
	return n
}

func (m meaning) insert(key int, time uint64) {
	m[key] = append(m[key], time) // times never decrease
}

// insertUnique reports whether there was no copy of the key. If there was one, its time does not change.
func (m meaning) insertUnique(key int, time uint64) (fresh bool) {
	if fresh = len(m[key]) == 0; fresh {
		m.insert(key, time)
	}
	return fresh
}

// delete is for a Delete that returned true, whatever item it removed. It reports whether there was a
// copy of the key.
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

// merge adds what another history means. If distinct is set, only the youngest copy of each key stays.
func (m meaning) merge(other meaning, distinct bool) {
	for key := range m {
		m[key] = slices.Concat(m[key], other[key])
		slices.Sort(m[key])
		for distinct && len(m[key]) > 1 {
			m.delete(key)
		}
	}
}
