package writer

import (
	"fmt"
	"slices"

	"github.com/mmapfilter/mmapfilter/layout"
)

// A timeline is every value that the words had which lookups read. Time is the
// number of stores.
type timeline struct {
	first  []uint64 // the words from the runtime page on, at time 0
	stores []wordStore
	values map[uint64][]uint64 // of the words that are stored to, at each time
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

// An enumeration is all schedules of one lookup beside a writer: before each of
// its loads, any number of stores may have been done.
//
// Schedules in which each load gives the same value are one to the lookup, so it
// is run once for all of them, as if each load came as early as it can have given
// its value: a load that comes later leaves the next ones nothing that they would
// not have had. The enumeration goes depth first over the values that the next load
// may give.
//
// A lookup that begins again has forgotten all but how often it has, and how many
// counters it reads. So of those that begin again alike, the earliest goes on for
// all, unless apart is set.
type enumeration struct {
	*timeline
	table    layout.Table
	hash     uint64
	from, to int                    // the first load is not before, the last not after
	hidden   func(word uint64) bool // these are 0 to the lookup
	keep     func(word uint64) bool // these are loaded once: later loads give the same value
	apart    bool

	runs   int
	missed []load // those of a schedule with the answer "absent"

	loads   []load
	begun   int // so many of them lead to where the lookup begins, and keep their values
	waiting []beginning
}

// A load is one whose values are being tried.
type load struct {
	word, value uint64
	time        int   // the earliest at which it can have given the value
	left        []int // the times of further values, the earliest of each
}

// A beginning is a lookup about to begin again.
type beginning struct {
	epochs, counters int // loads of the epoch so far; counters at its last look
	loads            []load
}

func (b *beginning) time() int { return b.loads[len(b.loads)-1].time }

// again is what stops a lookup that is gone on with later.
type again struct{}

const wordEpoch = layout.WordRuntime + layout.RuntimeEpoch

// run enumerates, up to a schedule that is answered "absent".
func (e *enumeration) run() {
	e.waiting = []beginning{{}}
	for len(e.waiting) > 0 {
		// The one with the fewest looks behind it: nothing is added to it any more.
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

// lookUp does one lookup, with the values that the loads have, and the first of
// the values that further ones may have.
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

// load returns the next load, with the first of the values that it may have.
func (e *enumeration) load(word uint64) load {
	l := load{word: word, time: e.from}
	if n := len(e.loads); n > 0 {
		l.time = e.loads[n-1].time
	}
	if e.hidden != nil && e.hidden(word) {
		return l
	}
	if i := slices.IndexFunc(e.loads, func(l load) bool { return l.word == word }); i >= 0 && e.keep != nil && e.keep(word) {
		l.value = e.loads[i].value // as if there were no load
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

// next goes back to the last load that has a value left, and takes that.
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

// wait puts the lookup off that is about to begin again.
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

// schedule tells of the loads that have missed a key.
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
