package writer

import (
	"fmt"
	"slices"

	"github.com/mmapfilter/mmapfilter/layout"
)

// A timeline has the values, at each time, of the words that lookups read. Time is the number of stores
// so far.
type timeline struct {
	first  []uint64 // the words from the runtime page on, at time 0
	stores []wordStore
	values map[uint64][]uint64 // for each word that is stored to, its value at each time
}

type wordStore struct{ word, value uint64 }

func newTimeline(first []uint64, stores []wordStore) *timeline {
	l := &timeline{first: first, stores: stores, values: map[uint64][]uint64{}}
	for i, s := range stores {
		values := l.values[s.word]
		if values == nil {
			values = slices.Repeat([]uint64{l.first[s.word-layout.WordRuntime]}, len(stores)+1)
			l.values[s.word] = values
		}
		for t := i + 1; t < len(values); t++ {
			values[t] = s.value
		}
	}
	return l
}

func (l *timeline) value(word uint64, time int) uint64 {
	if values := l.values[word]; values != nil {
		return values[time]
	}
	return l.first[word-layout.WordRuntime]
}

// An enumeration goes through all schedules of one lookup beside a writer: before each load of the
// lookup, any number of stores may have been done.
// A lookup cannot tell schedules apart in which each load returns the same value. So it runs once for
// all of them, as if each load came as early as it can have returned its value: after a later load, the
// next loads have no more values to return. The enumeration goes depth first over the values that the
// next load may return.
//
// A lookup that begins again only remembers how many times it has begun, and how many counters it reads.
// So of lookups that begin again in the same way, only the earliest goes on, for all of them, unless
// apart is set.
type enumeration struct {
	*timeline
	table    layout.Table
	hash     uint64
	from, to int                    // the earliest time of the first load, and the latest of the last
	hidden   func(word uint64) bool // reports words that the lookup reads as 0
	keep     func(word uint64) bool // reports words that are loaded once: later loads return the same value
	apart    bool

	runs   int
	missed []load // the loads of a schedule with the answer "absent"

	loads   []load
	begun   int // the loads before the lookup begins again; they keep their values
	waiting []beginning
}

// A load is a load of the lookup, whose possible values are tried one after another.
type load struct {
	word, value uint64
	time        int   // the earliest time at which it can have returned the value
	left        []int // for each value that is not tried yet, the earliest time
}

// A beginning is a lookup that is about to begin again.
type beginning struct {
	epochs, counters int // number of loads of the epoch so far; of counters that the last try has read
	loads            []load
}

func (b *beginning) time() int { return b.loads[len(b.loads)-1].time }

// again is the panic that stops a lookup that goes on later.
type again struct{}

const wordEpoch = layout.WordRuntime + layout.RuntimeEpoch

// run goes through the schedules, up to the first with the answer "absent".
func (e *enumeration) run() {
	e.waiting = []beginning{{}}
	for len(e.waiting) > 0 {
		// Take the one that has begun the fewest times: no other leads to the same beginning now.
		least := 0
		for i, b := range e.waiting {
			if b.epochs < e.waiting[least].epochs {
				least = i
			}
		}
		e.loads = e.waiting[least].loads
		e.begun = len(e.loads)
		e.waiting = slices.Delete(e.waiting, least, least+1)
		for more := true; more; more = e.next() {
			if e.lookUp(); e.missed != nil {
				return
			}
		}
	}
}

// lookUp does one lookup, with the values of e.loads. Further loads return the first of their possible
// values.
func (e *enumeration) lookUp() {
	n := 0
	defer func() {
		switch r := recover(); r {
		case nil:
		case again{}:
			e.wait()
		default:
			panic(r)
		}
	}()
	found := layout.Lookup(e.table, func(word uint64) uint64 {
		if n == len(e.loads) {
			if !e.apart && n > e.begun && word == wordEpoch && e.loads[n-1].word < layout.WordStash {
				panic(again{})
			}
			e.loads = append(e.loads, e.load(word))
		}
		l := &e.loads[n]
		if n++; l.word != word {
			panic(fmt.Sprintf("load %d was of word %d, and is of word %d", n-1, l.word, word))
		}
		return l.value
	}, e.hash)
	if e.runs++; !found {
		e.missed = e.loads
	}
}

// load returns the next load, with the first of its possible values.
func (e *enumeration) load(word uint64) load {
	l := load{word: word, time: e.from}
	if n := len(e.loads); n > 0 {
		l.time = e.loads[n-1].time
	}
	if e.hidden != nil && e.hidden(word) {
		return l
	}
	if i := slices.IndexFunc(e.loads, func(l load) bool { return l.word == word }); i >= 0 && e.keep != nil && e.keep(word) {
		l.value = e.loads[i].value // as if there were no second load
		return l
	}
	l.value = e.value(word, l.time)
	values := e.values[word]
	for t := l.time + 1; values != nil && t <= e.to; t++ {
		if !slices.Contains(values[l.time:t], values[t]) {
			l.left = append(l.left, t)
		}
	}
	return l
}

// next goes back to the last load that has untried values, and takes the next of them. It reports
// whether there is such a load.
func (e *enumeration) next() bool {
	for n := len(e.loads); n > e.begun; n-- {
		if l := &e.loads[n-1]; len(l.left) > 0 {
			l.time, l.left = l.left[0], l.left[1:]
			l.value = e.value(l.word, l.time)
			e.loads = e.loads[:n]
			return true
		}
	}
	return false
}

// wait puts off the lookup, which is about to begin again.
func (e *enumeration) wait() {
	b := beginning{loads: slices.Clone(e.loads)}
	for i, l := range b.loads {
		if l.word == wordEpoch {
			b.epochs++
		}
		if l.word >= layout.WordStash {
			b.counters = len(b.loads) - 1 - i
		}
	}
	i := slices.IndexFunc(e.waiting, func(w beginning) bool { return w.epochs == b.epochs && w.counters == b.counters })
	if i < 0 {
		e.waiting = append(e.waiting, b)
	} else if b.time() < e.waiting[i].time() {
		e.waiting[i] = b
	}
}

// schedule describes the loads that have missed a key, and the stores.
func (e *enumeration) schedule() (text string) {
	for i, l := range e.missed {
		text += fmt.Sprintf("\n  load %d, after %d stores: %s is %#x", i, l.time, nameWord(l.word), l.value)
	}
	for i, s := range e.stores {
		text += fmt.Sprintf("\n  store %d: %s = %#x", i, nameWord(s.word), s.value)
	}
	return text
}

func nameWord(word uint64) string {
	switch {
	case word >= layout.WordRegion:
		return fmt.Sprintf("line %d word %d", (word-layout.WordRegion)/layout.BlockWords, (word-layout.WordRegion)%layout.BlockWords)
	case word >= layout.WordStash:
		return fmt.Sprintf("stash word %d", word-layout.WordStash)
	case word == wordEpoch:
		return "the epoch"
	case word == layout.WordRuntime+layout.RuntimeStashCounter:
		return "the counter of the stash"
	}
	return fmt.Sprintf("the counter of word %d of the runtime page", word-layout.WordRuntime)
}

func isRuntime(word uint64) bool { return word < layout.WordStash }
