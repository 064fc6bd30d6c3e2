package crashsim

import (
	"math/bits"

	"github.com/mmapfilter/mmapfilter/layout"
)

// A target is an item that a store removed from one of its places. A lookup for it is
// likely to collide with the writer.
type target struct {
	kind     string
	number   int
	key      *key
	store    int // time of the store
	from, to int // time in which the item must be found
}

// read simulates readers on the history (O5). Some look for items that are moved, and some for
// any items.
func (l *life) read(readers int) {
	h, u, rng := l.history, l.u(), l.x.rng
	if h == nil || len(h.stores) == 0 {
		return
	}
	left, moved := l.targets()
	for i := range readers {
		var t target
		switch all := left; {
		case i%4 != 0 && len(left)+len(moved) > 0:
			if len(left) == 0 || len(moved) > 0 && i%4 == 1 {
				all = moved
			}
			t = all[rng.IntN(len(all))]
			t.from = max(t.from, t.store-rng.IntN(16))
		default:
			k := rng.IntN(len(u.keys) + len(u.fillers))
			if k >= len(u.keys) {
				k -= len(u.keys)
				t = target{kind: "filler", number: k, key: &u.fillers[k], to: len(h.stores)}
			} else {
				var ok bool
				t = target{kind: "key", number: k, key: &u.keys[k]}
				if t.from, t.to, ok = h.span(k, rng.IntN(len(h.stores)+1)); !ok {
					continue
				}
			}
			t.from += rng.IntN(t.to - t.from + 1)
		}
		l.x.stats.Lookups++
		found, end := l.x.reader.lookup(h, u.table, t.key.hash, t.from, rng)
		if !found && end <= t.to {
			l.fail("O5", "a reader that looked for %s %d from store %d to store %d, of %d, has not found it", t.kind, t.number, t.from, end, len(h.stores))
		}
	}
}

// targets returns the items that were moved while they had to be found: those that left a
// line or the stash, and those that moved inside a line.
func (l *life) targets() (left, moved []target) {
	u, h := l.u(), l.history
	add := func(t target, word uint64) {
		leaves, line := l.leaves(t.key, word, t.store)
		switch {
		case leaves && line:
			left = append(left, t)
		case leaves:
			moved = append(moved, t)
		}
	}
	for i := range h.stores {
		word := uint64(h.stores[i].word) + layout.WordRuntime
		if word < layout.WordStash || h.value(word, i) == h.stores[i].value {
			continue
		}
		lines := ^uint64(0)
		if word >= layout.WordRegion {
			lines = u.linesOf[word-layout.WordRegion]
		}
		for k := range u.keys {
			if u.keys[k].lines&lines == 0 {
				continue
			}
			if from, to, ok := h.span(k, i); ok {
				add(target{"key", k, &u.keys[k], i, from, to}, word)
			}
		}
		for k := range u.fillers[:min(len(u.fillers), manyFillers)] {
			add(target{"filler", k, &u.fillers[k], i, 0, len(h.stores)}, word)
		}
	}
	return left, moved
}

// manyFillers bounds the number of fillers that are targets: a full stash has many.
const manyFillers = 128

// leaves reports whether the store to a word, at a time, removes a copy of a key, and
// whether this copy was the last one in its line or in the stash.
func (l *life) leaves(k *key, word uint64, time int) (leaves, last bool) {
	u, h := l.u(), l.history
	if word < layout.WordRegion {
		// The second word of an entry has the fingerprint and the count.
		if word%2 == 0 || h.value(word, time)>>32 != uint64(k.home.Fp) {
			return false, false
		}
		count := func(time int) uint64 {
			return layout.StashCountAt(func(word uint64) uint64 { return h.value(word, time) }, u.table.Class(k.home))
		}
		before, after := count(time), count(time+1)
		return after < before, after == 0
	}
	for lines := k.lines & u.linesOf[word-layout.WordRegion]; lines != 0; lines &= lines - 1 {
		it := k.home
		if it.Line != uint64(bits.TrailingZeros64(lines)) {
			it = u.table.Alternate(it)
		}
		line := layout.LineFrom(u.table, func(word uint64) uint64 { return h.value(word, time) }, it.Line)
		before := layout.Copies(u.table, line, it)
		first, _ := u.table.Words(it.Line)
		line[word-layout.WordRegion-first] = h.value(word, time+1)
		if after := layout.Copies(u.table, line, it); after < before {
			return true, after == 0
		}
	}
	return false, false
}
