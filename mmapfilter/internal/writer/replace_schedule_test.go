package writer

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/wal"
	"github.com/mmapfilter/mmapfilter/recovery/osfile"
)

// A side is one of the two files of a replacement, or the name.
type side int

const (
	oldFile side = iota
	newFile
	theName // of the old file, which a store gives to the new one
)

// A sideStore is a store to one of the files, or stands for the new file getting the name.
type sideStore struct {
	side
	wordStore
}

// A pair is a file and its replacement, with the stores to both in their order. Time is the number of
// stores.
//
// All lookups are in other processes. A lookup in the old file is by a reader that opened the file when
// it had the name. A lookup in the new file is by a follower that has seen that the new file has the
// name, or by a reader that has opened it, so it begins after the new file got the name.
type pair struct {
	tables [2]layout.Table
	first  [2][]uint64 // from the runtime page on, at time 0
	stores []sideStore
	presence
}

func newPair(old, next *stage) *pair {
	return &pair{
		tables: [2]layout.Table{old.w.table, next.w.table}, first: [2][]uint64{old.mapped(), next.mapped()},
		presence: newPresence(old.counts),
	}
}

func (p *pair) clone() *pair {
	return &pair{p.tables, p.first, slices.Clone(p.stores), p.presence.clone()}
}

func (p *pair) add(to side, stores []wordStore) {
	for _, s := range stores {
		p.stores = append(p.stores, sideStore{to, s})
	}
}

// step adds an operation that was committed to one of the files.
func (p *pair) step(to side, st step) {
	p.begin(st.change, len(p.stores))
	p.add(to, st.mapped)
	p.end(st.change, len(p.stores))
}

// scene returns the words that lookups in one of the files read, and the keys that are present
// meanwhile, with the times of the pair. A lookup in the new file does not begin before the file has the
// name.
func (p *pair) scene(of side) *scene {
	other := layout.WordRuntime + uint64(len(p.first[of])) // no lookup reads it
	named, stores := 0, []wordStore(nil)
	for i, s := range p.stores {
		if s.side == of && forLookup(s.word) {
			stores = append(stores, s.wordStore)
		} else {
			stores = append(stores, wordStore{word: other})
		}
		if s.side == theName {
			named = i + 1
		}
	}
	sc := &scene{timeline: newTimeline(append(slices.Clone(p.first[of]), 0), stores), table: p.tables[of]}
	for _, k := range p.upTo(len(stores)) {
		if of == newFile {
			k.from = max(k.from, named)
		}
		if k.from <= k.to && (of == oldFile || named > 0) {
			sc.spans = append(sc.spans, k)
		}
	}
	return sc
}

var errInVain = errors.New("the new file cannot get the name")

// A crossing is a replacement of a tiny filter by another one.
type crossing struct {
	*testing.T
	old, next *stage
	tap       *Tap
	pair      *pair
	files     [2][]uint64 // at the handover
	begun     int         // the time of the handover
}

// newCrossing creates the new file, with the items of the old one. After that, it does an operation in
// the old file, which the new file lacks.
func newCrossing(t *testing.T, lines, seed uint64) *crossing {
	c := &crossing{T: t, old: newStage(t, lines, seed), next: newStage(t, lines+1, seed)}
	c.old.volume.File.Mem[wordEpoch] = 2 // as after a recovery
	c.old.fill(2)
	for _, h := range c.old.keys {
		for range c.old.counts[h] {
			c.next.do(change{h, 1})
		}
	}
	c.next.sync()
	c.tap = NewTap(func() (*osfile.Scratch, error) { return nil, errors.New("too many operations") })
	must(t, c.old.w.Quiet(c.tap, func() error { return nil }))
	c.pair = newPair(c.old, c.next)
	c.pair.step(oldFile, c.old.step(c.old.choose()))
	return c
}

// replace switches to the new file, or fails to if inVain is set. Two operations are not committed
// before. Other processes see an inserted item at the latest when the switch has ended; a deleted item
// may be gone from now on.
func (c *crossing) replace(inVain bool) {
	old, next := c.old, c.next
	var open []change
	for _, ch := range []change{old.choose(), {old.rng.Uint64(), 1}} {
		old.do(ch)
		if open = append(open, ch); ch.grow < 0 {
			c.pair.begin(ch, len(c.pair.stores))
		}
	}
	stages, marked, named := []*stage{oldFile: old, newFile: next}, false, false
	for i, s := range stages {
		file := &s.volume.file
		file.stored = func() {
			// Before the handover, stores that only a recovery reads are left out, because they are
			// many.
			if st := file.stores[len(file.stores)-1]; marked || forLookup(st.word) {
				c.pair.add(side(i), []wordStore{st})
			}
		}
	}
	next.volume.place = func() (placed bool, err error) {
		if inVain {
			return false, errInVain
		}
		named = true
		c.pair.add(theName, []wordStore{{}})
		return true, nil
	}
	catchUp := func(most int) error {
		hashes, ops, err := c.tap.Take(nil, nil, 1000)
		if err == nil {
			_, err = next.w.Replay(hashes, ops)
		}
		if marked = most == 0; marked {
			c.begun = len(c.pair.stores)
			for i, s := range stages {
				c.files[i] = slices.Clone(s.w.words)
			}
		}
		return err
	}
	err := old.w.Replace(next.w, true, catchUp, func(*Writer) {})
	if named != !inVain || inVain && err != errInVain || !inVain && err != nil {
		c.Fatalf("in vain %t, named %t: %v", inVain, named, err)
	}
	old.volume.file.stored, next.volume.file.stored = nil, nil
	to, s := newFile, next
	if inVain {
		old.w.Untap()
		to, s = oldFile, old
	}
	s.volume.file.stores = nil
	s.sync()
	c.pair.add(to, forLookups(s.volume.file.stores))
	for _, ch := range open {
		if ch.grow > 0 {
			c.pair.begin(ch, len(c.pair.stores))
		}
		c.pair.end(ch, len(c.pair.stores))
	}
	next.counts, next.keys = maps.Clone(old.counts), slices.Clone(old.keys)
}

// goOn does operations in the file that has the name.
func (c *crossing) goOn(p *pair, to side, s *stage, operations int) {
	for range operations {
		p.step(to, s.step(s.choose()))
	}
}

// eachDeath calls do for every store from the handover on. The process dies after this store. Another
// process opens the file that has the name then, recovers it, and goes on with it.
func (c *crossing) eachDeath(do func(name string, p *pair)) {
	all := c.pair
	for n := c.begun; n <= len(all.stores); n++ {
		if n > c.begun && all.stores[n-1].side == newFile {
			continue // lookups see no difference
		}
		to, s := oldFile, c.old
		var stores [2][]wordStore
		for _, st := range all.stores[c.begun:n] {
			if st.side == theName {
				to, s = newFile, c.next
				continue
			}
			stores[st.side] = append(stores[st.side], st.wordStore)
		}
		p := all.clone()
		p.stores = p.stores[:n]
		v := s.volume.crashed(c.files[to], stores[to])
		other := &stage{TB: c.T, volume: v, w: mustWriter(c.T, v, wal.MinBytes), rng: s.rng, counts: maps.Clone(c.old.counts), keys: slices.Clone(c.old.keys)}
		p.add(to, forLookups(v.file.stores))
		for i := range p.spans { // the log has all deletes, so recovery makes them
			p.spans[i].to = min(p.spans[i].to, n)
		}
		for h, from := range p.began {
			if from > n { // it was not committed
				p.began[h] = len(p.stores)
			}
		}
		c.goOn(p, to, other, 2)
		do(fmt.Sprintf("a death after store %d from the handover on", n-c.begun), p)
	}
}

// pair looks up every key in both files, in all schedules while it is present.
func (p *proof) pair(c *crossing, name string, pair *pair) {
	c.Helper()
	for of, what := range []string{oldFile: "the old file", newFile: "the new file"} {
		sc := pair.scene(side(of))
		if len(sc.spans) == 0 {
			continue
		}
		p.enumerate(c.T, name+": lookups in "+what, sc, noCounters, noEpoch)
		p.still(c.T, name+": lookups in "+what, sc, c.old.rng.Uint64())
		p.happened["lookups in "+what]++
		for _, k := range sc.spans {
			if of == int(oldFile) && sc.value(wordEpoch, k.from) == layout.Superseded {
				p.happened["a lookup in the old file of a key that came after it was superseded"]++
			}
		}
	}
}

// TestReplaceSchedules covers K3 and K4. It goes through all schedules of a lookup beside the stores of
// a Replace and of the operations before and after it. No lookup may miss a key that is present
// meanwhile: neither in the old file, by a reader that has it open, nor in the new file, by a follower
// that has switched to it. This also holds if the new file cannot get the name and the old one goes on,
// and if the process dies after any store and another one goes on with the file that has the name. If
// the epoch is hidden, some lookup must miss a key.
func TestReplaceSchedules(t *testing.T) {
	p, rounds := newProof(), uint64(8)
	if *Full {
		rounds = 20
	}
	if testing.Short() {
		rounds = 1
	}
	for lines := uint64(1); lines <= 3; lines++ {
		for seed := range rounds {
			name := fmt.Sprintf("%d lines, round %d, ", lines, seed)
			c := newCrossing(t, lines, seed)
			c.replace(true)
			c.goOn(c.pair, oldFile, c.old, 2)
			p.pair(c, name+"in vain", c.pair)

			c = newCrossing(t, lines, seed)
			c.replace(false)
			c.eachDeath(func(death string, pair *pair) {
				p.pair(c, name+death, pair)
				p.happened["a death in a replacement"]++
			})
			c.goOn(c.pair, newFile, c.next, 2)
			p.pair(c, name+"replaced", c.pair)
		}
	}
	p.report(t, []string{
		"lookups in the old file", "lookups in the new file", "a death in a replacement",
		"a lookup in the old file of a key that came after it was superseded",
	}, noCounters, noEpoch)
}
