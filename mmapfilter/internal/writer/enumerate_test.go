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
// is run once for all of them. It goes depth first over the values that the next
// load may give; ways[t] is the number of schedules that have given the values so
// far and whose last load was at time t.
//
// A lookup that begins again has forgotten all but how often it has, and how many
// counters it reads. So those that begin again alike are gone on with together,
// unless apart is set. TestEnumeration holds this against an enumeration that
// takes nothing together.
type enumeration struct {
	*timeline
	table    layout.Table
	hash     uint64
	from, to int                    // the first load is not before, the last not after
	hidden   func(word uint64) bool // these are 0 to the lookup
	keep     func(word uint64) bool // these are loaded once: later loads give the same value
	apart    bool

	schedules float64
	runs      int
	absent    float64    // schedules with the answer "absent"
	missed    []wordSeen // the loads of one of them

	loads   []load
	before  []wordSeen // the loads that lead to where loads begin
	begun   []float64  // ways there
	waiting []beginning
}

// A wordSeen is a load and its value.
type wordSeen struct{ word, value uint64 }

// A load is one whose values are being tried.
type load struct {
	wordSeen
	values []uint64  // of the word, at each time; nil if there is one only
	arrive []float64 // the schedules that can make it at each time
	ways   []float64 // those of them in which it gives the value
	left   []uint64  // further values
}

// A beginning is a lookup about to begin again.
type beginning struct {
	epochs, counters int // loads of the epoch so far; counters at its last look
	before           []wordSeen
	ways             []float64
}

// again is what stops a lookup that is gone on with later.
type again struct{}

const wordEpoch = layout.WordRuntime + layout.RuntimeEpoch

// run enumerates. It stops early where stop is set and a schedule is found that
// is answered "absent".
func (e *enumeration) run(stop bool) {
	e.waiting = []beginning{{ways: make([]float64, e.to-e.from+1)}}
	e.waiting[0].ways[0] = 1
	for len(e.waiting) > 0 {
		// The one with the fewest looks behind it: nothing is added to it any more.
		least := 0
		for i, b := range e.waiting {
			if b.epochs < e.waiting[least].epochs {
				least = i
			}
		}
		b := e.waiting[least]
		e.waiting = slices.Delete(e.waiting, least, least+1)
		e.before, e.begun, e.loads = b.before, b.ways, e.loads[:0]
		for {
			e.lookUp()
			if stop && e.missed != nil {
				return
			}
			if !e.next() {
				break
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
		i := n
		n++
		if i < len(e.before) {
			if e.before[i].word != word {
				panic(fmt.Sprintf("load %d was of word %d, and is of word %d", i, e.before[i].word, word))
			}
			return e.before[i].value
		}
		i -= len(e.before)
		if i < len(e.loads) {
			return e.loads[i].value
		}
		if !e.apart && i > 0 && word == wordEpoch && e.loads[i-1].word < layout.WordStash {
			panic(again{})
		}
		e.load(word)
		return e.loads[i].value
	}, e.hash)
	e.runs++
	sum := 0.0
	for _, n := range e.last() {
		sum += n
	}
	e.schedules += sum
	if !found {
		e.absent += sum
		if e.missed == nil {
			e.missed = e.seen()
		}
	}
}

// last is the ways of the last load.
func (e *enumeration) last() []float64 {
	if n := len(e.loads); n > 0 {
		return e.loads[n-1].ways
	}
	return e.begun
}

func (e *enumeration) seen() []wordSeen {
	seen := slices.Clone(e.before)
	for _, l := range e.loads {
		seen = append(seen, l.wordSeen)
	}
	return seen
}

// load goes on to a further load.
func (e *enumeration) load(word uint64) {
	before := e.last()
	if n := len(e.loads); n < cap(e.loads) { // with its space
		e.loads = e.loads[:n+1]
	} else {
		e.loads = append(e.loads, load{})
	}
	l := &e.loads[len(e.loads)-1]
	if l.arrive == nil {
		l.arrive, l.ways = make([]float64, len(before)), make([]float64, len(before))
	}
	l.word, l.left, l.values = word, l.left[:0], nil
	sum := 0.0
	for t, n := range before {
		sum += n
		l.arrive[t] = sum
	}
	switch hidden := e.hidden != nil && e.hidden(word); {
	case e.keep != nil && e.keep(word):
		i := slices.IndexFunc(e.loads, func(l load) bool { return l.word == word })
		if i < len(e.loads)-1 { // as if there were no load
			l.value = e.loads[i].value
			copy(l.ways, before)
			return
		}
		l.values = e.values[word]
	case !hidden:
		l.values = e.values[word]
	}
	if l.values == nil { // one value at all times
		l.value = 0
		if e.hidden == nil || !e.hidden(word) {
			l.value = e.value(word, e.from)
		}
		copy(l.ways, l.arrive)
		return
	}
	l.values = l.values[e.from : e.to+1]
	for t, v := range l.values {
		if l.arrive[t] > 0 && !slices.Contains(l.left, v) {
			l.left = append(l.left, v)
		}
	}
	l.take()
}

// take makes the next value of a load the one it has.
func (l *load) take() {
	l.value, l.left = l.left[len(l.left)-1], l.left[:len(l.left)-1]
	for t, v := range l.values {
		l.ways[t] = 0
		if v == l.value {
			l.ways[t] = l.arrive[t]
		}
	}
}

// next goes back to the last load that has a value left.
func (e *enumeration) next() bool {
	for n := len(e.loads); n > 0; n-- {
		e.loads = e.loads[:n]
		if l := &e.loads[n-1]; len(l.left) > 0 {
			l.take()
			return true
		}
	}
	return false
}

// wait puts the lookup off that is about to begin again.
func (e *enumeration) wait() {
	b := beginning{before: e.seen(), ways: e.last()}
	for i, s := range b.before {
		if s.word == wordEpoch {
			b.epochs++
		}
		if s.word >= layout.WordStash {
			b.counters = len(b.before) - 1 - i
		}
	}
	for i := range e.waiting {
		if w := &e.waiting[i]; w.epochs == b.epochs && w.counters == b.counters {
			for t, n := range b.ways {
				w.ways[t] += n
			}
			return
		}
	}
	b.ways = slices.Clone(b.ways)
	e.waiting = append(e.waiting, b)
}

// schedule tells of the loads that have missed a key: the time of each is the
// first at which it can have given its value.
func (e *enumeration) schedule() (text string) {
	time := e.from
	for i, s := range e.missed {
		for hidden := e.hidden != nil && e.hidden(s.word); !hidden && time < e.to && e.value(s.word, time) != s.value; {
			time++
		}
		text += fmt.Sprintf("\n  load %d, after %d stores: %s is %#x", i, time, nameWord(s.word), s.value)
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
