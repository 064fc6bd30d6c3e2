package writer

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/multiset"
	"github.com/mmapfilter/mmapfilter/layout/wal"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/tabletest"
	"github.com/mmapfilter/mmapfilter/recovery"
)

// A recordedVolume is a tabletest.Volume that records every store to the filter file.
type recordedVolume struct {
	*tabletest.Volume
	file  recordedFile
	place func() (placed bool, err error) // called by TakePlace
}

type recordedFile struct {
	*tabletest.File
	stores []wordStore
	stored func() // called after each store, if not nil
}

func (v *recordedVolume) Filter() recovery.File { return &v.file }

func (v *recordedVolume) TakePlace(recovery.Volume) (placed bool, err error) { return v.place() }

func (f *recordedFile) Store(word, value uint64) {
	f.File.Store(word, value)
	f.stores = append(f.stores, wordStore{word, value})
	if f.stored != nil {
		f.stored()
	}
}

// crashed returns the volume that a dying process leaves: the filter file has words, changed by stores,
// and the logs are those of v.
func (v *recordedVolume) crashed(words []uint64, stores []wordStore) *recordedVolume {
	c := &recordedVolume{Volume: &tabletest.Volume{File: &tabletest.File{Mem: slices.Clone(words)}}}
	for _, s := range stores {
		c.File.Mem[s.word] = s.value
	}
	for i, log := range v.Mu.Logs {
		if log != nil {
			c.Mu.Logs[i] = &tabletest.File{Mem: slices.Clone(log.Mem)}
		}
	}
	c.Mu.Random = v.Mu.Random
	c.file.File = c.File
	return c
}

// forLookups returns the stores to words that lookups read.
func forLookups(stores []wordStore) (read []wordStore) {
	for _, s := range stores {
		if forLookup(s.word) {
			read = append(read, s)
		}
	}
	return read
}

// forLookup reports whether lookups read a word.
func forLookup(word uint64) bool {
	return word >= layout.WordStash || word >= layout.WordRuntime && counters[word-layout.WordRuntime]
}

// counters are the words of the runtime page that lookups read.
var counters = func() map[uint64]bool {
	words := map[uint64]bool{layout.RuntimeEpoch: true}
	layout.Counters(func(word uint64) { words[word] = true })
	return words
}()

// A stage is a tiny filter with a writer whose stores are recorded.
type stage struct {
	testing.TB
	volume *recordedVolume
	w      *Writer
	rng    *rand.Rand
	counts map[uint64]int // number of items of each hash
	keys   []uint64       // every hash that was ever inserted
}

// stageShape has the fewest slots in a line.
var stageShape = small

func newStage(tb testing.TB, lines, seed uint64) *stage {
	return newStageOf(tb, stageShape, lines, seed)
}

func newStageOf(tb testing.TB, p tabletest.Shape, lines, seed uint64) *stage {
	return newStageOn(tb, p.Volume(tb, lines), lines, seed)
}

func newStageOn(tb testing.TB, volume *tabletest.Volume, lines, seed uint64) *stage {
	v := &recordedVolume{Volume: volume}
	v.file.File = v.File
	s := &stage{TB: tb, volume: v, rng: rand.New(rand.NewPCG(seed, lines)), counts: map[uint64]int{}}
	s.w = mustWriter(tb, v, wal.MinBytes)
	return s
}

// do inserts an item, or deletes a present one.
func (s *stage) do(c change) {
	s.Helper()
	ok, err := true, error(nil)
	if c.grow > 0 {
		err = s.w.Insert(c.hash)
	} else {
		ok, err = s.w.Delete(c.hash)
	}
	if !ok || err != nil {
		s.Fatalf("%+v: %t, %v", c, ok, err)
	}
	if _, known := s.counts[c.hash]; !known {
		s.keys = append(s.keys, c.hash)
	}
	s.counts[c.hash] += c.grow
}

func (s *stage) sync() {
	s.Helper()
	must(s, s.w.Sync())
}

// fill inserts random items until the stash has the given number of entries.
func (s *stage) fill(stashed int) {
	for s.w.mu.stashed.entries < stashed {
		s.do(change{s.rng.Uint64(), 1})
	}
	s.sync()
}

// choose returns a random operation: a delete, or an insert of a new item, of an equal one, or of the
// twin of a present item, which has the same two lines the other way round.
func (s *stage) choose() change {
	in := slices.DeleteFunc(slices.Clone(s.keys), func(h uint64) bool { return s.counts[h] == 0 })
	slots := int(s.w.table.Lines()) * layout.SlotsPerLine(s.w.table.Kind(), s.w.table.Params())
	some := in[s.rng.IntN(len(in))]
	if n := s.w.length.Load(); s.rng.IntN(2) == 0 && int(n) > slots-8 || int(n) > slots+4 {
		return change{some, -1}
	}
	switch s.rng.IntN(6) {
	case 0:
		return change{some, 1}
	case 1:
		return change{multiset.HashOf(s.w.table, s.w.table.Alternate(s.w.table.Split(some))), 1}
	}
	return change{s.rng.Uint64(), 1}
}

// mapped returns a copy of the words that lookups of other processes read.
func (s *stage) mapped() []uint64 { return slices.Clone(s.w.words[layout.WordRuntime:s.end()]) }

// newest returns a copy of the words that lookups of this process read.
func (s *stage) newest() []uint64 {
	words := make([]uint64, s.end()-layout.WordRuntime)
	for i := range words {
		words[i] = s.w.Word(layout.WordRuntime + uint64(i))
	}
	return words
}

// end returns the word after the last word of the region.
func (s *stage) end() uint64 {
	return layout.WordRegion + uint64(s.w.protocol.Geometry().RegionBytes)/8
}

// A step is an operation with its stores.
type step struct {
	change
	mapped  []wordStore // stores to the mapping, in the commit of the operation
	pending []wordStore // stores to the pending words and counters, before the commit
}

// step does an operation, and commits it.
func (s *stage) step(c change) step {
	s.Helper()
	before := s.newest()
	s.do(c)
	after := s.newest()
	s.volume.file.stores = nil
	s.volume.file.stored = func() {
		if !slices.Equal(s.newest(), after) {
			s.Fatal("a lookup of this process sees a store of a commit to the mapping")
		}
	}
	s.sync()
	s.volume.file.stored = nil
	st := step{change: c, mapped: forLookups(s.volume.file.stores)}
	st.pending = s.published(before, after, st.mapped)
	return st
}

// published returns the stores that publish makes for the records of an operation. Since a test cannot
// stop publish between its stores, published derives them: they are the stores of the commit, with the
// counters of this process. They must lead to the same words.
func (s *stage) published(before, after []uint64, mapped []wordStore) (stores []wordStore) {
	s.Helper()
	words := slices.Clone(before)
	for _, r := range mapped {
		at := &words[r.word-layout.WordRuntime]
		if r.word < layout.WordStash {
			r.value = *at + 1
		}
		stores = append(stores, r)
		*at = r.value
	}
	if !slices.Equal(words, after) {
		s.Fatal("the records of an operation do not lead to the words that it has published")
	}
	return stores
}

// A scene is a sequence of stores, with the keys that are in the filter meanwhile.
type scene struct {
	*timeline
	table layout.Table
	spans []span
}

// A span is a time in which a key is in the filter.
type span struct {
	hash     uint64
	from, to int
}

// A presence notes when keys are in a filter: from the last store of an insert to the first store of the
// delete of the last copy.
type presence struct {
	counts map[uint64]int
	began  map[uint64]int // the time from which a key is present
	spans  []span         // of keys that are no longer present
}

// newPresence returns a presence for a filter that has the given counts at time 0.
func newPresence(counts map[uint64]int) presence {
	p := presence{counts: maps.Clone(counts), began: map[uint64]int{}}
	for h, n := range counts {
		if n > 0 {
			p.began[h] = 0
		}
	}
	return p
}

func (p *presence) clone() presence {
	return presence{maps.Clone(p.counts), maps.Clone(p.began), slices.Clone(p.spans)}
}

// begin begins an operation. If it deletes the last copy of a key, the key is no longer present.
func (p *presence) begin(c change, time int) {
	p.counts[c.hash] += c.grow
	if from, in := p.began[c.hash]; in && p.counts[c.hash] == 0 {
		p.spans = append(p.spans, span{c.hash, from, time})
		delete(p.began, c.hash)
	}
}

// end ends an operation. If it inserts a key, the key is present from now on.
func (p *presence) end(c change, time int) {
	if _, in := p.began[c.hash]; !in && p.counts[c.hash] > 0 {
		p.began[c.hash] = time
	}
}

// upTo returns all spans up to a time, sorted.
func (p *presence) upTo(time int) []span {
	all := slices.Clone(p.spans)
	for h, from := range p.began {
		all = append(all, span{h, from, time})
	}
	slices.SortFunc(all, func(a, b span) int {
		return slices.Compare([]uint64{a.hash, uint64(a.from)}, []uint64{b.hash, uint64(b.from)})
	})
	return all
}

// scene returns the scene of some steps in a row. first and counts are the words and counts before them.
func (s *stage) scene(first []uint64, counts map[uint64]int, steps []step, stores func(step) []wordStore) *scene {
	var all []wordStore
	p := newPresence(counts)
	for _, st := range steps {
		p.begin(st.change, len(all))
		all = append(all, stores(st)...)
		p.end(st.change, len(all))
	}
	return &scene{newTimeline(first, all), s.w.table, p.upTo(len(all))}
}
