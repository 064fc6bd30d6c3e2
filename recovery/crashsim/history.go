package crashsim

import (
	"math/bits"
	"math/rand/v2"
	"sort"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/multiset"
)

// A history is every value of the words that readers see, and which keys a reader must
// find at which time. The time is the number of stores so far.
type history struct {
	first  []uint64 // the words from the runtime page to the end of the region, at time 0
	stores []seen
	last   []int32 // time of the last store to each word; 0 if there is none
	marks  []mark
}

// A seen is one store. It advances the time by one.
type seen struct {
	value  uint64
	before int32 // time of the previous store to the same word
	word   uint32
	event  int // number of the volume's event
}

// A mark says that, from a time on, a key must be found, or need not be.
type mark struct {
	key   int
	on    bool
	at    int
	event int
}

func newHistory(words []uint64) *history {
	return &history{first: append([]uint64(nil), words...), last: make([]int32, len(words))}
}

func (h *history) store(word, value uint64, event int) {
	i := word - layout.WordRuntime
	h.stores = append(h.stores, seen{value: value, before: h.last[i], word: uint32(i), event: event})
	h.last[i] = int32(len(h.stores))
}

// require notes which keys must be found from now on.
func (h *history) require(old, must *Counts, event int) {
	for k := range must {
		if on := must[k] != 0; on != (old[k] != 0) {
			h.marks = append(h.marks, mark{key: k, on: on, at: len(h.stores), event: event})
		}
	}
}

// upTo returns the history up to an event, with event number -1, which is before all later
// events.
func (h *history) upTo(event int) *history {
	n := sort.Search(len(h.stores), func(i int) bool { return h.stores[i].event > event })
	p := &history{first: h.first, stores: make([]seen, n, n+64), last: make([]int32, len(h.last))}
	for i, s := range h.stores[:n] {
		s.event = -1
		p.stores[i] = s
		p.last[s.word] = int32(i + 1)
	}
	for _, m := range h.marks {
		if m.event < event {
			m.event = -1
			p.marks = append(p.marks, m)
		}
	}
	return p
}

// value returns the value of a word of the file at a time.
func (h *history) value(word uint64, time int) uint64 {
	i := word - layout.WordRuntime
	for at := h.last[i]; at != 0; at = h.stores[at-1].before {
		if int(at) <= time {
			return h.stores[at-1].value
		}
	}
	return h.first[i]
}

// span returns the time around a moment in which a key must be found. ok reports whether
// the key must be found at that moment.
func (h *history) span(key, moment int) (from, to int, ok bool) {
	for _, m := range h.marks {
		if m.key != key {
			continue
		}
		if m.at > moment {
			return from, m.at, ok
		}
		from, ok = m.at, m.on
	}
	return from, len(h.stores), ok
}

// A target is an item that a store removed from one of its places. A lookup for it is
// likely to collide with the writer.
type target struct {
	kind     string
	number   int
	key      *key
	store    int // time of the store
	from, to int // time in which the item must be found
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
		if word < layout.WordStash {
			continue
		}
		for k := range u.keys {
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

// leaves reports whether the store at a time to a word removes a copy of a key, and whether
// that was the last copy in that line or in the stash.
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
		line := multiset.Line(u.table, it.Line, func(word uint64) uint64 { return h.value(word, time) })
		before := u.table.Copies(&line, it)
		first, _ := u.table.Words(it.Line)
		line[word-layout.WordRegion-first] = h.value(word, time+1)
		if after := u.table.Copies(&line, it); after < before {
			return true, after == 0
		}
	}
	return false, false
}

// read simulates readers on the history (O5). Some look for items that are moved, and some
// for others.
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
		found, end := h.lookup(u.table, t.key.hash, t.from, rng)
		if !found && end <= t.to {
			l.fail("O5", "a reader that looked for %s %d from store %d to store %d, of %d, has not found it", t.kind, t.number, t.from, end, len(h.stores))
		}
	}
}

// lookup simulates a lookup that begins at a time and loses the processor before one or
// more of its loads. It returns the time at which the lookup ends.
func (h *history) lookup(t layout.Table, hash uint64, time int, rng *rand.Rand) (found bool, end int) {
	var pause [3]int // numbers of the loads to pause before
	for i := range 1 + rng.IntN(len(pause)) {
		pause[i] = 1 + rng.IntN(8<<(2*i))
	}
	longest := 4 << (2 * rng.IntN(3))
	loads := 0
	found = layout.Lookup(t, func(word uint64) uint64 {
		loads++
		if loads == pause[0] || loads == pause[1] || loads == pause[2] {
			time = min(time+1+rng.IntN(longest), len(h.stores))
		}
		return h.value(word, time)
	}, hash)
	return found, time
}
