package writer

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/multiset"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/tabletest"
	"github.com/mmapfilter/mmapfilter/recovery"
)

// A handicap hides from a lookup something that rule R2 makes it look at. With each handicap, some
// schedule must miss a key. Otherwise, the enumeration could not fail, or the rule would ask for too
// much.
type handicap struct {
	name string
	put  func(e *enumeration, home, second uint64)
}

var (
	noCounters = handicap{"every counter is hidden", func(e *enumeration, _, _ uint64) { e.hidden = isRuntime }}
	noEpoch    = handicap{"the epoch is hidden", func(e *enumeration, _, _ uint64) { e.hide(wordEpoch) }}
	noHome     = handicap{"the counter of the home line is hidden", func(e *enumeration, home, _ uint64) { e.hide(counterOfLine(home)) }}
	noSecond   = handicap{"the counter of the second line is hidden", func(e *enumeration, _, second uint64) { e.hide(counterOfLine(second)) }}
	oneLook    = handicap{"the home line is looked at once", func(e *enumeration, home, _ uint64) { e.lookOnce(home) }}
)

func (e *enumeration) hide(word uint64) { e.hidden = func(w uint64) bool { return w == word } }

// lookOnce lets a lookup keep the words of the home line that it has loaded first, instead of loading
// them again after the counters of the other places.
func (e *enumeration) lookOnce(home uint64) {
	e.apart = true
	first, n := e.table.Words(home)
	e.keep = func(word uint64) bool { return word-layout.WordRegion-first < uint64(n) }
}

func counterOfLine(line uint64) uint64 {
	return layout.WordRuntime + layout.CounterOf(layout.WordRegion+line*layout.BlockWords)
}

// A proof has the results of enumerations.
type proof struct {
	keys          int // at most so many keys are looked up beside some operations
	lookups, runs int
	scenes        int
	missed        map[string]string // by handicap, the first schedule that misses a key
	happened      map[string]int
}

func newProof() *proof {
	return &proof{keys: math.MaxInt, missed: map[string]string{}, happened: map[string]int{}}
}

// scenesFile, if given, makes TestSchedules and TestRecoverySchedules only write scenes.
var scenesFile = flag.String("scenes", "", "the file to which scenes are written, for readers in other languages: see tools/readers/c/threads.c")

// write appends a scene to scenesFile, with a few of the keys that are present all the time.
func (sc *scene) write(t *testing.T) {
	t.Helper()
	kind, p := sc.table.Kind(), sc.table.Params()
	x, y := p.FingerprintBits, p.BucketSize
	if kind == layout.Compact {
		x, y = p.Quotients, p.RemainderBits
	}
	text := fmt.Sprintf("scene %d %d %d %d\n", uint8(kind), x, y, sc.table.Lines())
	for i, w := range sc.first {
		if w != 0 {
			text += fmt.Sprintf("w %d %d\n", i, w)
		}
	}
	for _, s := range sc.stores {
		text += fmt.Sprintf("s %d %d\n", s.word-layout.WordRuntime, s.value)
	}
	keys := 0
	for _, k := range sc.spans {
		if k.from == 0 && k.to == len(sc.stores) && keys < 4 {
			keys++
			text += fmt.Sprintf("k %d 0\n", k.hash)
		}
	}
	f, err := os.OpenFile(*scenesFile, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o666)
	must(t, err)
	_, err = f.WriteString(text + "e 0 0\n")
	must(t, errors.Join(err, f.Close()))
}

// enumerate looks up every key in all schedules while it is in the filter. It also does so with each
// handicap, as long as no schedule with this handicap was found that misses a key.
func (p *proof) enumerate(t *testing.T, name string, sc *scene, handicaps ...handicap) {
	t.Helper()
	if *scenesFile != "" {
		if p.scenes++; p.keys < math.MaxInt || p.scenes%32 == 0 { // there are many recoveries, with many stores
			sc.write(t)
		}
		return
	}
	for _, k := range sc.spans {
		home := sc.table.Split(k.hash)
		second := sc.table.Alternate(home).Line
		e := enumeration{timeline: sc.timeline, table: sc.table, hash: k.hash, from: k.from, to: k.to}
		e.run()
		p.lookups++
		p.runs += e.runs
		if e.missed != nil {
			t.Fatalf("%s: a schedule misses %+v, whose second line is %d:%s", name, home, second, e.schedule())
		}
		for _, h := range handicaps {
			if home.Line == second || p.missed[h.name] != "" {
				continue
			}
			e := enumeration{timeline: sc.timeline, table: sc.table, hash: k.hash, from: k.from, to: k.to}
			h.put(&e, home.Line, second)
			if e.run(); e.missed != nil {
				p.missed[h.name] = fmt.Sprintf("%s: %+v, whose second line is %d%s", name, home, second, e.schedule())
			}
		}
	}
}

// still looks up a key that is never present, at each time between two stores. The answer must be
// "absent", unless a counter is odd.
func (p *proof) still(t *testing.T, name string, sc *scene, hash uint64) {
	t.Helper()
	for time := range len(sc.stores) + 1 {
		odd := uint64(0)
		found := layout.Lookup(sc.table, func(word uint64) uint64 {
			v := sc.value(word, time)
			if isRuntime(word) {
				odd |= v & 1
			}
			return v
		}, hash)
		if found != (odd != 0) {
			t.Fatalf("%s: a lookup of %+v, which is absent, after %d stores: %t, with a counter that is odd: %t%s",
				name, sc.table.Split(hash), time, found, odd != 0, (&enumeration{timeline: sc.timeline}).schedule())
		}
		if found {
			p.happened["a lookup of an absent key beside a counter that is odd"]++
		} else {
			p.happened["a lookup of an absent key beside counters that are even"]++
		}
	}
}

// report logs what has happened, and fails if something on the list has not.
func (p *proof) report(t *testing.T, happened []string, handicaps ...handicap) {
	t.Helper()
	t.Logf("all schedules of %d lookups, in %d runs", p.lookups, p.runs)
	for _, what := range slices.Sorted(maps.Keys(p.happened)) {
		t.Logf("%6d × %s", p.happened[what], what)
	}
	for _, what := range happened {
		if p.happened[what] == 0 {
			t.Errorf("there was never %s", what)
		}
	}
	for _, h := range handicaps {
		if missed := p.missed[h.name]; missed == "" && *scenesFile == "" {
			t.Errorf("no key is missed when %s", h.name)
		} else {
			t.Logf("when %s, a key is missed: %s", h.name, missed)
		}
	}
}

// note counts what an operation was.
func (p *proof) note(s *stage, st step, before []uint64) {
	lines, stash, removals := map[uint64]bool{}, false, false
	for _, w := range st.mapped {
		switch {
		case w.word >= layout.WordRegion:
			lines[(w.word-layout.WordRegion)/layout.BlockWords] = true
		case w.word >= layout.WordStash:
			stash = true
		default:
			removals = true
		}
	}
	is := func(what string, ok bool) {
		if ok {
			p.happened[what]++
		}
	}
	insert := st.grow > 0
	is("an insert into a free slot", insert && len(lines) == 1 && !removals && !stash)
	is("an insert with a move inside a line", insert && len(lines) == 1 && removals)
	is("an insert with a move between lines", insert && len(lines) == 2 && removals)
	is("an insert with moves between three lines", insert && len(lines) == 3 && removals)
	is("an insert into the stash", insert && stash)
	is("a delete of one of two equal items", !insert && s.counts[st.hash] > 0)
	twin := multiset.HashOf(s.w.table, s.w.table.Alternate(s.w.table.Split(st.hash)))
	is("a delete of a twin", !insert && twin != st.hash && s.counts[twin] > 0)
	is("a delete from the stash", !insert && stash && len(lines) == 0)
	is("a delete that drains the stash", !insert && stash && len(lines) > 0)
	is("a delete that drains the stash by moves between lines", !insert && stash && len(lines) > 1)
	// Which items have come home, and which have left?
	at := func(words []uint64, it layout.Item) int {
		view := layout.NewView(words, s.w.protocol.Geometry())
		var l layout.Line
		layout.Load(s.w.table, view.Region, it.Line, &l)
		return layout.Copies(s.w.table, l, it)
	}
	after, came, left := s.mapped(), false, false
	for _, h := range s.keys {
		it := s.w.table.Split(h)
		if h == st.hash || s.counts[h] == 0 {
			continue
		}
		n, m := at(before, it), at(after, it)
		came, left = came || n < m, left || n > m
	}
	is("an item that comes home", came)
	is("an item that leaves home", left)
	is("an item that comes home as another one leaves home", came && left)
}

// TestSchedules covers R1, R2 and W4. It goes through all schedules of a lookup beside the stores of
// one, two or three operations. No lookup may miss a key that is in the filter meanwhile, in another
// process, beside the commits, and in this process, beside the operations. If a counter that lookups
// need is hidden, some lookup must miss a key.
//
// An operation stores to several words of a line, and no word can be read without the others. Every item
// that is put into a line changes the counter of the line. So a lookup that checks the counters of both
// lines does not need the counter of the stash, because an item that leaves the stash comes to one of
// these lines.
func TestSchedules(t *testing.T) {
	for _, source := range sources {
		t.Run(source.name, func(t *testing.T) {
			p, steps := newProof(), 30
			p.keys = 4
			handicaps := []handicap{noCounters, noHome, noSecond, oneLook}
			happened := []string{
				"an insert with a move inside a line", // remainders move
				"an insert with a move between lines", "an insert into the stash", "a delete that drains the stash",
				"an item that comes home", "an item that leaves home",
				"a lookup of an absent key beside a counter that is odd", "a lookup of an absent key beside counters that are even",
			}
			if testing.Short() {
				steps, happened = 6, nil
			}
			for lines := uint64(2); lines <= 4; lines++ {
				p.operations(t, source, newStageOf(t, small, lines, 1), steps, handicaps...)
			}
			p.report(t, happened, handicaps...)
			for _, shape := range sharing {
				p = newProof()
				p.keys = 4
				p.operations(t, source, newStageOf(t, shape, sharingLines, 1), max(steps, 15), noCounters, oneLook)
				p.report(t, nil, noCounters, oneLook)
			}
		})
	}
}

// A source has the words that a lookup reads, and the stores to these words.
type source struct {
	name   string
	words  func(*stage) []uint64
	stores func(step) []wordStore
}

var sources = []source{
	{"another process", (*stage).mapped, func(st step) []wordStore { return st.mapped }},
	{"this process", (*stage).newest, func(st step) []wordStore { return st.pending }},
}

// sharing are layouts whose lines share words. Of sharingLines lines, some span two words, and one spans
// two blocks.
var sharing = []tabletest.Shape{tabletest.Paper(layout.Packed, 31, 4), tabletest.Paper(layout.SemiSorted, 32, 4)}

const sharingLines = 6

// operations does operations on a tiny table, with lookups beside each operation, and beside each two
// and three operations in a row.
func (p *proof) operations(t *testing.T, from source, s *stage, steps int, handicaps ...handicap) {
	const most = 3
	s.fill(3)
	var window []step
	var words [][]uint64 // before each
	var counts []map[uint64]int
	for i := range steps {
		if len(window) == most {
			window, words, counts = window[1:], words[1:], counts[1:]
		}
		words, counts = append(words, from.words(s)), append(counts, maps.Clone(s.counts))
		mapped := s.mapped()
		window = append(window, s.step(s.choose()))
		p.note(s, window[len(window)-1], mapped)
		for j := range window {
			name := fmt.Sprintf("%d lines, operations %d to %d", s.w.table.Lines(), i-len(window)+1+j, i)
			sc := s.scene(words[j], counts[j], window[j:], from.stores)
			if len(sc.spans) > p.keys {
				s.rng.Shuffle(len(sc.spans), func(i, j int) { sc.spans[i], sc.spans[j] = sc.spans[j], sc.spans[i] })
				sc.spans = sc.spans[:p.keys]
			}
			p.enumerate(t, name, sc, handicaps...)
			p.still(t, name, sc, s.rng.Uint64())
		}
	}
}

// TestRecoverySchedules covers R2 and R3: a process dies after each store of a commit, and another one
// recovers the file. In all schedules of a lookup beside this, no lookup may miss a key. If the epoch is
// hidden, some lookup must miss a key.
func TestRecoverySchedules(t *testing.T) {
	batches := 6
	if testing.Short() {
		batches = 2
	}
	p := newProof()
	for lines := uint64(1); lines <= 4; lines++ {
		p.deaths(t, newStage(t, lines, 2), batches)
	}
	for _, shape := range sharing {
		p.deaths(t, newStageOf(t, shape, sharingLines, 2), batches)
	}
	p.report(t, []string{"a death in a commit", "a death in a recovery", "a death while a counter is odd"}, noCounters, noEpoch)
}

// deaths makes commits of one to three operations on a tiny table, and lets the process die in each.
func (p *proof) deaths(t *testing.T, s *stage, batches int) {
	s.fill(3)
	for i := range batches {
		must(t, s.w.Checkpoint())
		stay := maps.Clone(s.counts)
		file := slices.Clone(s.w.words)
		for range 1 + i%3 {
			c := s.choose()
			s.do(c)
			stay[c.hash] = min(stay[c.hash], s.counts[c.hash])
		}
		s.volume.file.stores = nil
		s.sync()
		s.recoveries(p, fmt.Sprintf("%d lines, batch %d", s.w.table.Lines(), i), file, s.volume.file.stores, stay, 1)
	}
}

// recoveries lets the process die after each of its stores, and recovers the file. stay has the keys
// that are in the filter all the time. One of the recoveries, after half of the stores, dies in the same
// way, nested times.
func (s *stage) recoveries(p *proof, name string, file []uint64, stores []wordStore, stay map[uint64]int, nested int) {
	t := s.TB.(*testing.T)
	first := file[layout.WordRuntime:s.end()]
	for n := range len(stores) + 1 {
		read := forLookups(stores[:n])
		if n > 0 && len(read) == len(forLookups(stores[:n-1])) {
			continue // no lookup sees the difference
		}
		v := s.volume.crashed(file, stores[:n])
		if _, _, err := recovery.NewWriter(v); err != nil {
			t.Fatal(err)
		}
		all := slices.Concat(stores[:n], v.file.stores)
		sc := &scene{timeline: newTimeline(first, forLookups(all)), table: s.w.table}
		for _, h := range s.keys {
			if stay[h] > 0 {
				sc.spans = append(sc.spans, span{h, 0, len(sc.stores)})
			}
		}
		name := fmt.Sprintf("%s, store %d", name, n)
		p.enumerate(t, name, sc, noCounters, noEpoch)
		p.still(t, name, sc, s.rng.Uint64())
		for _, w := range read {
			if w.word < layout.WordStash && sc.value(w.word, len(read))&1 != 0 {
				p.happened["a death while a counter is odd"]++
				break
			}
		}
		if nested > 0 {
			p.happened["a death in a commit"]++
		} else {
			p.happened["a death in a recovery"]++
		}
		if nested > 0 && n == len(stores)/2 {
			s.recoveries(p, name+", recovery", file, all, stay, nested-1)
		}
	}
}
