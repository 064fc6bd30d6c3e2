package crashsim

import "github.com/mmapfilter/mmapfilter/layout"

// StoreRun stores values, in order, to the words from word on.
func (f *filterFile) StoreRun(word uint64, values []uint64) {
	head := values[:min(uint64(len(values)), max(word, layout.WordRuntime)-word)]
	f.v.storeRun(f.disk, word, head, StoreHead, f.Store)
	for i, value := range values[len(head):] {
		f.Store(word+uint64(len(head)+i), value)
	}
}

// StoreRun stores values, in order, to the words from word on.
func (l *log) StoreRun(word uint64, values []uint64) {
	l.volume.storeRun(&l.disk, word, values, StoreLog, l.Store)
}

// storeRun stores values, in order, to the words from word on. It calls store only for a value that
// changes its word, or if somebody waits for the event. For the other values it only counts the event,
// which has the kind e if the sector is clean. Most values are of this sort, since a recovery stores
// superblocks and logs again; calling store for them would take most of the explorer's time.
func (v *Volume) storeRun(d *disk, word uint64, values []uint64, e Event, store func(word, value uint64)) {
	cache := d.cache.words[word:][:len(values)]
	for i, value := range values {
		s := (word + uint64(i)) >> (d.shift & 63)
		switch clean := d.versions[s] == 0; {
		case cache[i] != value || !v.onlyCounts() || clean && v.left[e] == 1:
			store(word+uint64(i), value)
			continue
		case clean:
			d.versions[s] = oneVersion | touched
			d.dirty = append(d.dirty, uint32(s))
			v.left[e]--
		}
		v.events++
	}
}

// equal returns the number of words before the first word in which two slices of the same length
// differ.
func equal(a, b []uint64) (n int) {
	const block = 32
	for len(a)-n >= block && *(*[block]uint64)(a[n:]) == *(*[block]uint64)(b[n:]) {
		n += block
	}
	for n < len(a) && a[n] == b[n] {
		n++
	}
	return n
}
