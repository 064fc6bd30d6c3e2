package place

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/tabletest"
)

// A countedTable notes what a placer does with a table.
type countedTable struct {
	layout.Table
	searched map[uint64]bool // lines whose items a search has listed
	removed  []layout.Item
}

func (t *countedTable) Victims(dst []layout.Item, l *layout.Line, it layout.Item) []layout.Item {
	t.searched[it.Line] = true
	return t.Table.Victims(dst, l, it)
}

// countedHosts are the Hosts of a countedTable.
type countedHosts struct {
	layout.Hosts
	table *countedTable
}

func (h countedHosts) Leavers(dst []layout.Item, l *layout.Line, it layout.Item, itself bool) []layout.Item {
	h.table.searched[it.Line] = true
	return h.Hosts.Leavers(dst, l, it, itself)
}

func (t *countedTable) Remove(l *layout.Line, it layout.Item, s *layout.Stores) bool {
	t.removed = append(t.removed, it)
	return t.Table.Remove(l, it, s)
}

// countedLines count the words that a placer changes.
type countedLines struct {
	*Unlogged
	stores int
}

func (l *countedLines) Change(words *layout.Stores) {
	l.stores += words.Len()
	l.Unlogged.Change(words)
}

func (l *countedLines) ChangeStash(word, value uint64, guarded bool) {
	l.stores++
	l.Unlogged.ChangeStash(word, value, guarded)
}

// A counted is a memory whose work is counted.
type counted struct {
	*memory
	table *countedTable
	lines *countedLines
}

// newCounted returns a table in memory, with other bounds if change is not nil.
func newCounted(tb testing.TB, s tabletest.Shape, lines uint64, change func(*layout.Bounds)) *counted {
	tb.Helper()
	table, view := s.Memory(tb, lines)
	t := &countedTable{Table: table}
	bounds := layout.BoundsOf(table.Kind(), table.Params())
	if change != nil {
		change(&bounds)
	}
	l := &countedLines{Unlogged: NewUnlogged(table, view)}
	c := &counted{&memory{newPlacer(t, bounds, l), t, view}, t, l}
	if hosts, ok := table.(layout.Hosts); ok {
		c.hosts = countedHosts{hosts, t}
	}
	c.reset()
	return c
}

// reset sets the counts to zero.
func (c *counted) reset() {
	c.table.searched, c.table.removed, c.lines.stores = map[uint64]bool{}, nil, 0
}

// image returns a copy of a line.
func (m *memory) image(line uint64) (l layout.Line) {
	layout.Load(m.table, m.view.Region, line, &l)
	return l
}

// mostCost is the largest cost.
const mostCost = 2

// cost returns what it costs lookups if an item leaves a line.
func (m *memory) cost(l *layout.Line, it layout.Item) int {
	switch {
	case m.hosts == nil || m.hosts.IsGuest(it):
		return 0
	case layout.Overflowed(m.table, l, it):
		return 1
	}
	return mostCost
}

// takes reports whether a line has room for an item.
func (m *memory) takes(it layout.Item) bool {
	l := m.image(it.Line)
	return m.table.Place(&l, it, nil)
}

// firstMove returns the first item, in the order of P2, whose move out of a line of the new item makes
// room for the new item, and the cost of this move. The victim may be the new item itself.
func (m *memory) firstMove(home layout.Item) (victim layout.Item, cost int, ok bool) {
	var groups [][]layout.Item
	list := func(at layout.Item) []layout.Item {
		l := m.image(at.Line)
		return m.table.Victims(nil, &l, at)
	}
	costOf := func(it layout.Item) int {
		l := m.image(it.Line)
		return m.cost(&l, it)
	}
	tried := map[uint64]bool{home.Line: true}
	if m.hosts != nil {
		for cost := range mostCost + 1 {
			groups = append(groups, slices.DeleteFunc(append(list(home), home), func(it layout.Item) bool { return costOf(it) != cost }))
		}
	} else {
		other := m.table.Alternate(home)
		tried[other.Line] = true
		groups = [][]layout.Item{list(home)}
		if other.Line != home.Line {
			groups = append(groups, list(other))
		}
	}
	for _, group := range groups {
		for _, victim := range group {
			to := m.table.Alternate(victim)
			if tried[to.Line] {
				continue
			}
			tried[to.Line] = true
			if m.takes(to) {
				return victim, costOf(victim), true
			}
		}
	}
	return victim, 0, false
}

// fewestMoves returns the least number of moves that make room for an item, in a layout where an item
// may go to any free slot of a line. It returns 0 if no moves make room.
func (m *memory) fewestMoves(home layout.Item) (n int) {
	other := m.table.Alternate(home)
	level, seen := []uint64{home.Line, other.Line}, map[uint64]bool{home.Line: true, other.Line: true}
	for ; len(level) > 0; n++ {
		var next []uint64
		for _, line := range level {
			l := m.image(line)
			victims := m.table.Items(nil, &l, line)
			if len(victims) < layout.SlotsPerLine(m.table.Kind(), m.table.Params()) {
				return n
			}
			for _, v := range victims {
				if to := m.table.Alternate(v).Line; !seen[to] {
					seen[to] = true
					next = append(next, to)
				}
			}
		}
		level = next
	}
	return 0
}

// TestPaths covers P2. If one move makes room, an insert must make the first such move, or another move
// of the same cost. In the layouts of the paper, an insert must make the fewest moves that make room. No
// line may be tried twice.
func TestPaths(t *testing.T) {
	for _, s := range tabletest.Shapes() {
		t.Run(s.String(), func(t *testing.T) {
			p := newCounted(t, s, min(s.Lines(50), 400), nil) // so few that a search reaches every line in the paper's layouts
			rng := rand.New(rand.NewPCG(21, 22))
			paper := s.Kind == layout.Packed || s.Kind == layout.SemiSorted
			single, several := 0, 0
			for layout.StashLen(p.view.Stash) < 20 {
				home := p.table.Split(rng.Uint64())
				if p.takes(home) || p.hosts == nil && p.takes(p.table.Alternate(home)) {
					p.Insert(home)
					continue
				}
				before := p.image(home.Line)
				first, cost, one := p.firstMove(home)
				fewest := 0
				if paper {
					fewest = p.fewestMoves(home)
				}
				p.reset()
				p.Insert(home)
				removed := p.table.removed
				if one {
					single++
					victim := home
					if len(removed) > 0 {
						victim = removed[0]
					}
					if len(removed) > 1 || p.hosts == nil && victim != first || p.hosts != nil && p.cost(&before, victim) != cost {
						t.Fatalf("%+v makes room at a cost of %d, but %+v have moved", first, cost, removed)
					}
				}
				if len(removed) > 1 {
					several++
				}
				if paper && len(removed) != fewest {
					t.Fatalf("%d moves, and the fewest that make room are %d", len(removed), fewest)
				}
				var lines []uint64
				for _, step := range p.queue {
					lines = append(lines, step.item.Line)
				}
				if slices.Sort(lines); len(slices.Compact(lines)) != len(p.queue) {
					t.Fatalf("lines are tried twice: %d", lines)
				}
			}
			if single == 0 || paper && several == 0 {
				t.Errorf("one move made room %d times, and several moves %d times", single, several)
			}
		})
	}
}

// TestWorkIsBounded covers P7 with low bounds, which a table reaches before it is full. Searches must
// list the items of exactly as many lines, and paths must have exactly as many moves, as the bounds
// allow. No operation may change more words than MaxStores.
func TestWorkIsBounded(t *testing.T) {
	const searchLines, pathMoves = 4, 2
	for _, s := range tabletest.Shapes() {
		t.Run(s.String(), func(t *testing.T) {
			p := newCounted(t, s, s.Lines(60), func(b *layout.Bounds) { b.SearchLines, b.PathMoves = searchLines, pathMoves })
			rng := rand.New(rand.NewPCG(23, 24))
			searched, moved := 0, 0
			do := func(operation func()) {
				p.reset()
				operation()
				searched, moved = max(searched, len(p.table.searched)), max(moved, len(p.table.removed))
				if n := p.lines.stores; n > maxStores(p.bounds) {
					t.Fatalf("%d words changed, more than %d", n, maxStores(p.bounds))
				}
			}
			var live []layout.Item
			for refused := 0; refused < 20; {
				do(func() {
					if it := p.table.Split(rng.Uint64()); p.Insert(it) {
						live = append(live, it)
					} else {
						refused++
					}
				})
			}
			if searched != searchLines || moved != pathMoves {
				t.Errorf("searches list up to %d lines, not %d; paths have up to %d moves, not %d", searched, searchLines, moved, pathMoves)
			}
			for _, it := range live[:len(live)/3] {
				do(func() {
					freed, inLine, _ := p.Remove(it)
					if stashed := layout.StashLen(p.view.Stash); stashed > 0 && rng.IntN(2) == 0 {
						p.unstashOne(rng.IntN(stashed))
					} else if inLine {
						p.BringHome(freed)
					}
				})
			}
		})
	}
}

// TestLongestPath covers P7 with the bounds of a layout. Room is as many moves away as a path may have,
// and then one move more.
func TestLongestPath(t *testing.T) {
	s := tabletest.Paper(layout.Packed, 32, 1)
	for _, more := range []uint64{0, 1} {
		p := newCounted(t, s, 300, nil)
		moves := uint64(p.bounds.PathMoves) + more
		leads := func(from, to uint64) layout.Item {
			it := layout.Item{Line: from, Fp: 1}
			for ; p.table.Alternate(it).Line != to; it.Fp++ {
			}
			return it
		}
		last := p.table.Lines() - 1
		for line := range moves { // each holds an item that may go to the next line
			p.putInLine(leads(line, line+1))
		}
		p.putInLine(leads(last, 0))
		p.reset()
		if !p.Insert(leads(0, last)) {
			t.Fatal("refused")
		}
		stashed, moved := layout.StashLen(p.view.Stash), uint64(len(p.table.removed))
		if more == 0 && (moved != moves || stashed != 0) || more == 1 && (moved != 0 || stashed != 1) {
			t.Errorf("room is %d moves away; %d moves were made, and %d items are in the stash", moves, moved, stashed)
		}
		if n := p.lines.stores; n > maxStores(p.bounds) {
			t.Errorf("%d words changed, more than %d", n, maxStores(p.bounds))
		}
	}
}
