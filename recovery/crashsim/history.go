package crashsim

import (
	"math/rand/v2"
	"slices"
	"sort"

	"github.com/mmapfilter/mmapfilter/layout"
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
	return &history{first: slices.Clone(words), last: make([]int32, len(words))}
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
	p := &history{first: h.first, stores: make([]seen, n), last: make([]int32, len(h.last))}
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

// A reader is a lookup that loses the processor before some of its loads.
type reader struct {
	h       *history
	rng     *rand.Rand
	time    int
	loads   int
	pause   [3]int                   // numbers of the loads to pause before
	longest int                      // the longest pause, in stores
	at      func(word uint64) uint64 // load, once for all lookups
}

func (r *reader) load(word uint64) uint64 {
	r.loads++
	if r.loads == r.pause[0] || r.loads == r.pause[1] || r.loads == r.pause[2] {
		r.time = min(r.time+1+r.rng.IntN(r.longest), len(r.h.stores))
	}
	return r.h.value(word, r.time)
}

// lookup simulates a lookup that begins at a time and loses the processor before one or
// more of its loads. It returns the time at which the lookup ends.
func (r *reader) lookup(h *history, t layout.Table, hash uint64, time int, rng *rand.Rand) (found bool, end int) {
	*r = reader{h: h, rng: rng, time: time, at: r.at}
	if r.at == nil {
		r.at = r.load
	}
	for i := range 1 + rng.IntN(len(r.pause)) {
		r.pause[i] = 1 + rng.IntN(8<<(2*i))
	}
	r.longest = 4 << (2 * rng.IntN(3))
	found = layout.Lookup(t, r.at, hash)
	return found, r.time
}
