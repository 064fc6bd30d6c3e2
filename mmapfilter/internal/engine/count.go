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
	n := countItems(w.table, w.loadLine, w.newest, w.table.Split(hash))
	if w.Unsure() {
		return Unknown
	}
	return n
}

// countItems counts the items of a class in its lines and in the stash.
func countItems(t layout.Table, load func(uint64, *layout.Line) (first, n uint64), at func(uint64) uint64, it layout.Item) uint64 {
	var l layout.Line
	load(it.Line, &l)
	n := uint64(t.Copies(&l, it)) + layout.StashCountAt(at, t.Class(it))
	if other := t.Alternate(it); other.Line != it.Line {
		load(other.Line, &l)
		n += uint64(t.Copies(&l, other))
	}
	return n
}

// CountBeside counts the items of the class of a hash, for a process beside the writer. at
// returns a word of the file by its number, as for layout.Lookup. If a writer removes something
// from a place that it reads, CountBeside counts again, as a lookup starts again (R2). If that
// goes on, it returns Unknown.
func CountBeside(t layout.Table, at func(word uint64) uint64, hash uint64) uint64 {
	it := t.Split(hash)
	counters := []uint64{layout.WordRuntime + layout.RuntimeEpoch, layout.WordRuntime + layout.RuntimeStashCounter}
	for _, line := range []uint64{it.Line, t.Alternate(it).Line} {
		first, n := t.Words(line)
		for _, word := range []uint64{first, first + uint64(n) - 1} {
			counters = append(counters, layout.WordRuntime+layout.CounterOf(layout.WordRegion+word))
		}
	}
	sum := func() (sum, odd uint64) { // counters only go up while none is odd
		for _, c := range counters {
			v := at(c)
			sum, odd = sum+v, odd|v&1
		}
		return sum, odd
	}
	load := func(line uint64, l *layout.Line) (first, n uint64) {
		word, words := t.Words(line)
		first = layout.WordRegion + word
		for i := range l[:words] {
			l[i] = at(first + uint64(i))
		}
		return first, uint64(words)
	}
	for range layout.LookupTries {
		before, odd := sum()
		n := countItems(t, load, at, it)
		if after, moving := sum(); after == before && odd|moving == 0 {
			return n
		}
	}
	return Unknown
}
