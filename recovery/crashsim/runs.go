package crashsim

import (
	"slices"

	"github.com/mmapfilter/mmapfilter/layout"
)

// A recovery stores superblocks and logs again, most of which the cache has. That would be most of
// the explorer's time if it were done word by word.

// StoreRun is Store for values, in order, to the words from word on.
func (f *filterFile) StoreRun(word uint64, values []uint64) {
	if word < layout.WordRuntime {
		n := min(uint64(len(values)), layout.WordRuntime-word)
		f.v.storeRun(f.disk, word, values[:n], StoreHead, f.Store)
		word, values = word+n, values[n:]
	}
	for i, value := range values {
		f.Store(word+uint64(i), value)
	}
}

// StoreRun is Store for values, in order, to the words from word on.
func (l *log) StoreRun(word uint64, values []uint64) {
	l.volume.storeRun(&l.disk, word, values, StoreLog, l.Store)
}

// unseen returns how many of the next n events, all of a kind, only count.
func (v *Volume) unseen(e Event, n int) int {
	if v.each != nil {
		return 0
	}
	if v.muted || v.keep {
		return n
	}
	if v.next > v.events {
		n = min(n, v.next-v.events-1)
	}
	if v.left[e] > 0 {
		n = min(n, v.left[e]-1)
	}
	return n
}

// eventRun is event for n events of a kind that only count.
func (v *Volume) eventRun(e Event, n int) {
	if v.muted {
		return
	}
	v.events += n
	v.left[e] -= n
	if v.keep {
		for range n {
			v.kinds = append(v.kinds, e)
		}
	}
}

// storeRun calls store for values, in order, to the words from word on, but for those that
// change nothing and have no event that anybody sees. The others have events of a kind.
func (v *Volume) storeRun(d *disk, word uint64, values []uint64, e Event, store func(word, value uint64)) {
	for len(values) > 0 {
		n := 0
		if some := v.unseen(StoreSame, len(values)); some > 0 {
			n = d.sameRun(word, values[:some])
			v.eventRun(StoreSame, n)
		}
		if some := v.unseen(e, len(values)-n); some > 0 {
			touched := d.touchRun(word+uint64(n), values[n:n+some])
			v.eventRun(e, touched)
			n += touched
		}
		if n == 0 {
			store(word, values[0])
			n = 1
		}
		word, values = word+uint64(n), values[n:]
	}
}

// sameRun returns for how many of some values, from the first on, same reports true.
func (d *disk) sameRun(word uint64, values []uint64) int {
	cache := d.cache.words[word:][:len(values)]
	for n := 0; ; {
		if n == len(values) || d.versions[(word+uint64(n))>>(d.shift&63)] == 0 {
			return n
		}
		end := min(len(values), int(((word+uint64(n))>>d.shift+1)<<d.shift-word)) // of the sector
		if n += equal(cache[n:end], values[n:end]); n != end {
			return n
		}
	}
}

// equal returns how many words two slices of the same length have in common, from the first on.
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

// touchRun stores values, from the first on, as long as each makes a clean sector dirty and
// changes nothing. It returns their number.
func (d *disk) touchRun(word uint64, values []uint64) (n int) {
	if d.versions[word>>(d.shift&63)] != 0 || d.cache.words[word] != values[0] {
		return 0
	}
	if d.shift > 0 { // the next store is to the same sector
		values = values[:1]
	}
	values = values[:equal(values, d.cache.words[word:][:len(values)])]
	first := word >> (d.shift & 63)
	for i, v := range d.versions[first:][:len(values)] {
		if v != 0 {
			values = values[:i]
			break
		}
	}
	d.dirty = slices.Grow(d.dirty, len(values))
	for i := range values {
		d.versions[first+uint64(i)] = oneVersion | touched
		d.dirty = append(d.dirty, uint32(first)+uint32(i))
	}
	return len(values)
}
