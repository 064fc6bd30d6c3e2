package engine

import (
	"slices"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/recovery"
)

// A homecoming is a delete that makes an item come home: it makes room in the home line of an item that
// stands in its second line.
type homecoming struct {
	*scene
	item   layout.Item // as seen from home
	hash   uint64
	second uint64
}

// comesHome makes a homecoming out of what one delete stores. Between, the writer may be made to do
// something else with the delete than to commit it; stores are then those of that.
func comesHome(t *testing.T, between func(s *stage, gone change) []wordStore) *homecoming {
	const home, second = 0, 1
	s := newStage(t, 2, 1)
	table := s.w.table
	isGuest := func(h uint64) bool {
		var l layout.Line
		s.w.loadLine(second, &l)
		return layout.Copies(table, l, table.Alternate(table.Split(h))) > 0
	}
	guest := -1
	for guest < 0 { // until its home line has no room for one
		if h := s.rng.Uint64(); table.Split(h).Line == home {
			s.do(change{h, 1})
		}
		guest = slices.IndexFunc(s.keys, isGuest)
	}
	hash := s.keys[guest]
	item := table.Split(hash)
	gone := s.keys[(guest+1)%len(s.keys)]
	s.sync()
	if err := s.w.Checkpoint(); err != nil {
		t.Fatal(err)
	}
	first := s.mapped()
	l := newTimeline(first, between(s, change{gone, -1}))
	sc := &scene{timeline: l, table: table, spans: []span{{hash, 0, len(l.stores)}}}
	copies := func(time int, it layout.Item) int {
		var line layout.Line
		for i := range line {
			line[i] = l.value(layout.WordRegion+it.Line*layout.BlockWords+uint64(i), time)
		}
		return layout.Copies(table, line, it)
	}
	if end := len(l.stores); copies(0, item) != 0 || copies(0, table.Alternate(item)) != 1 || copies(end, item) != 1 || copies(end, table.Alternate(item)) != 0 {
		t.Fatal("the item does not come home")
	}
	return &homecoming{scene: sc, item: item, hash: hash, second: second}
}

// lookUp looks the item up. All of the stores are done before its first load that
// is one of those.
func (c *homecoming) lookUp(before func(word uint64) bool, put func(e *enumeration)) bool {
	e := enumeration{timeline: c.timeline}
	if put != nil {
		put(&e)
	}
	time, kept := 0, map[uint64]uint64{}
	return layout.Lookup(c.table, func(word uint64) uint64 {
		if before(word) {
			time = len(c.stores)
		}
		if e.hidden != nil && e.hidden(word) {
			return 0
		}
		v := c.value(word, time)
		if e.keep != nil && e.keep(word) {
			if first, ok := kept[word]; ok {
				return first
			}
			kept[word] = v
		}
		return v
	}, c.hash)
}

// secondSlots are the words of the second line.
func (c *homecoming) secondSlots(word uint64) bool {
	return word >= layout.WordRegion && (word-layout.WordRegion)/layout.BlockWords == c.second
}

// enumerated has all schedules of the lookup done, with and without a handicap.
func (c *homecoming) enumerated(t *testing.T, h handicap) {
	t.Helper()
	p := newProof()
	p.enumerate(t, "an item comes home", c.scene, h)
	p.report(t, nil, h)
}

func committed(s *stage, gone change) []wordStore { return s.step(gone).mapped }

// TestDestinationBeforeCopy covers R2: a lookup that reads the place where an item
// goes before the item is there, and the place that it leaves when it has left,
// finds it in neither. The counters of both places have moved.
func TestDestinationBeforeCopy(t *testing.T) {
	c := comesHome(t, committed)
	if !c.lookUp(c.secondSlots, nil) {
		t.Error("the key is missed")
	}
	put := func(e *enumeration) { noCounters.put(e, c.item.Line, c.second) }
	if c.lookUp(c.secondSlots, put) {
		t.Errorf("the key is found although %s", noCounters.name)
	}
	c.enumerated(t, noCounters)
}

// TestHomeBetweenLooks covers R2: an item comes home, and leaves the second line,
// when a lookup has not found it at home and has not loaded the counter of the
// second line yet. That counter has moved before, and does not move again; the
// lookup finds the item because it looks at home again.
func TestHomeBetweenLooks(t *testing.T) {
	c := comesHome(t, committed)
	before := func(word uint64) bool { return word == counterOfLine(c.second) }
	if !c.lookUp(before, nil) {
		t.Error("the key is missed")
	}
	put := func(e *enumeration) { oneLook.put(e, c.item.Line, c.second) }
	if c.lookUp(before, put) {
		t.Errorf("the key is found although %s", oneLook.name)
	}
	c.enumerated(t, oneLook)
}

// TestRecoveryBetweenLoads covers R2 and R3: a process that has logged an operation
// dies before it is stored to the mapping, and another one recovers the file,
// between two loads of a lookup. Recovery moves no counter that is even, and stores
// in no order that a lookup could rely on: the epoch tells of it.
func TestRecoveryBetweenLoads(t *testing.T) {
	c := comesHome(t, func(s *stage, gone change) []wordStore {
		s.do(gone)
		v := s.volume.crashed(s.w.words, nil)
		if _, r, err := recovery.NewWriter(v); err != nil || !r.Recovered {
			t.Fatalf("%+v, %v", r, err)
		}
		return forLookups(v.file.stores)
	})
	if !c.lookUp(c.secondSlots, nil) {
		t.Error("the key is missed")
	}
	put := func(e *enumeration) { noEpoch.put(e, 0, 0) }
	if c.lookUp(c.secondSlots, put) {
		t.Errorf("the key is found although %s", noEpoch.name)
	}
	c.enumerated(t, noEpoch)
	for _, s := range c.stores {
		if s.word < layout.WordStash && s.word != wordEpoch {
			t.Errorf("the recovery moves %s", nameWord(s.word))
		}
	}
}
