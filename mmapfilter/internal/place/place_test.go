package place

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/tabletest"
)

// A memory is a Placer on a table in memory.
type memory struct {
	*Placer
	table layout.Table
	view  layout.View
}

func newMemory(tb testing.TB, s tabletest.Shape, lines uint64) *memory {
	tb.Helper()
	table, view := s.Memory(tb, lines)
	return &memory{New(table, NewUnlogged(table, view)), table, view}
}

// TestInsertLosesNothing covers P4, C3 and P3: it fills tables one item at a time until many items are
// refused. Despite all moves, lookups must find every item that was accepted. The table must hold as
// many items as were accepted, and a refused item must change nothing.
func TestInsertLosesNothing(t *testing.T) {
	for _, s := range tabletest.Shapes() {
		for _, lines := range []uint64{s.Least(), s.Least() + 1, s.Least() + 6, s.Lines(300)} {
			t.Run(fmt.Sprintf("%s/lines=%d", s, lines), func(t *testing.T) {
				p := newMemory(t, s, lines)
				rng := rand.New(rand.NewPCG(lines, s.Fingerprints()))
				var hashes []uint64
				for refused := 0; refused < 100; {
					region, stash := slices.Clone(p.view.Region), slices.Clone(p.view.Stash)
					h := rng.Uint64()
					if n := len(hashes); n > 0 && rng.IntN(50) == 0 {
						h = hashes[rng.IntN(n)] // also insert equal items
					}
					if p.Insert(p.table.Split(h)) {
						hashes = append(hashes, h)
					} else if refused++; !slices.Equal(region, p.view.Region) || !slices.Equal(stash, p.view.Stash) {
						t.Fatal("an item that was refused has changed something")
					}
				}
				for _, h := range hashes {
					if !layout.Contains(p.table, &p.view, h) {
						t.Fatalf("one of %d items is not found", len(hashes))
					}
				}
				inLines, _, err := p.table.CheckLines(p.view.Region, 0, lines)
				if err != nil {
					t.Fatal(err)
				}
				_, inStash, err := layout.CheckStash(p.table, &p.view)
				if err != nil || inLines+inStash != uint64(len(hashes)) {
					t.Errorf("%d items in lines, %d in the stash, of %d: %v", inLines, inStash, len(hashes), err)
				}
				tabletest.Check(t, p.table, p.view, hashes)
			})
		}
	}
}

// TestInsertOrder covers P1: an insert changes only the first place that takes the item and, if this
// place is not the home line, an overflow bit of the home line. An item may go to the stash only if no
// path of moves makes room.
func TestInsertOrder(t *testing.T) {
	for _, s := range tabletest.Shapes() {
		t.Run(s.String(), func(t *testing.T) {
			p, q := newMemory(t, s, s.Least()+6), newMemory(t, s, s.Least()+6)
			rng := rand.New(rand.NewPCG(5, 6))
			var home, other, moved, stashed int
			for {
				it := p.table.Split(rng.Uint64())
				copy(q.view.Region, p.view.Region)
				stash := slices.Clone(p.view.Stash)
				if !p.Insert(it) {
					break
				}
				to := q.table.Alternate(it)
				switch {
				case q.putInLine(it):
					home++
				case p.hosts == nil && to.Line != it.Line && q.putInLine(to):
					q.setOverflow(it)
					other++
				case !slices.Equal(stash, p.view.Stash):
					if line, ok := q.putByMoves(it, to); ok {
						t.Fatalf("an item goes to the stash, although moves make room in line %d", line)
					}
					q.setOverflow(it)
					stashed++
				default:
					line, ok := q.putByMoves(it, to)
					if !ok {
						t.Fatal("an item goes nowhere")
					}
					if line != it.Line {
						q.setOverflow(it)
					}
					moved++
				}
				if !slices.Equal(p.view.Region, q.view.Region) {
					t.Fatalf("%+v went elsewhere", it)
				}
			}
			if home == 0 || (other == 0) != (p.hosts != nil) || moved == 0 || stashed < layout.StashEntries {
				t.Errorf("%d in home lines, %d in alternate lines, %d by moves, %d in the stash", home, other, moved, stashed)
			}
		})
	}
}

// TestDeleteOrder covers P5.
func TestDeleteOrder(t *testing.T) {
	for _, s := range tabletest.Shapes() {
		t.Run(s.String(), func(t *testing.T) { deleteAll(t, newMemory(t, s, 7), s.Slots()) })
	}
}

func deleteAll(t *testing.T, p *memory, slots uint64) {
	it := layout.Item{Line: 2, Fp: 9}
	for ; p.table.Alternate(it).Line == it.Line; it.Fp++ {
	}
	other := p.table.Alternate(it)
	put := func(it layout.Item) {
		t.Helper()
		if !p.putInLine(it) {
			t.Fatal("no room")
		}
	}
	put(it)
	if slots > 1 {
		put(it)
	}
	put(other)
	for range 2 {
		if !layout.StashAdd(p.view.Stash, p.table.Class(it), p.lines.ChangeStash) {
			t.Fatal("no room in the stash")
		}
	}
	p.setOverflow(it)
	counts := func() [3]uint64 {
		var home, second layout.Line
		layout.Load(p.table, p.view.Region, it.Line, &home)
		layout.Load(p.table, p.view.Region, other.Line, &second)
		return [3]uint64{uint64(layout.Copies(p.table, home, it)), layout.StashCount(p.view.Stash, p.table.Class(it)), uint64(layout.Copies(p.table, second, other))}
	}
	order := [][3]uint64{{2, 2, 1}, {1, 2, 1}, {0, 2, 1}, {0, 1, 1}, {0, 0, 1}, {0, 0, 0}}
	if slots == 1 {
		order = order[1:]
	}
	for _, want := range order {
		if counts() != want {
			t.Fatalf("home, stash, second line have %d, not %d", counts(), want)
		}
		_, _, ok := p.Remove(it)
		if ok != (want != [3]uint64{}) {
			t.Fatalf("of %d, removed: %t", want, ok)
		}
	}
}

// TestUnstash covers P6: Unstash moves an item from the stash to the line of its class or, if that has
// no room, to its other line. Lookups must still find every item.
func TestUnstash(t *testing.T) {
	for _, s := range tabletest.Shapes() {
		t.Run(s.String(), func(t *testing.T) {
			p, q := newMemory(t, s, s.Lines(20)), newMemory(t, s, s.Lines(20))
			rng := rand.New(rand.NewPCG(31, 32))
			var live []uint64
			for layout.StashLen(p.view.Stash) < 60 {
				h := rng.Uint64()
				if !p.Insert(p.table.Split(h)) {
					t.Fatal("refused")
				}
				live = append(live, h)
			}
			var first, other, stayed int
			for round := 0; layout.StashLen(p.view.Stash) > 0; round++ {
				for range 1 + round%8 {
					i := rng.IntN(len(live))
					p.Remove(p.table.Split(live[i]))
					live = slices.Delete(live, i, i+1)
				}
				layout.StashClasses(slices.Clone(p.view.Stash), func(c layout.Class, items uint64) {
					it, to := layout.Item(c), p.table.Alternate(layout.Item(c))
					copy(q.view.Region, p.view.Region)
					copy(q.view.Stash, p.view.Stash)
					ok := true
					switch {
					case q.putInLine(it):
						first++
					case to.Line != it.Line && q.putInLine(to):
						other++
					default:
						ok = false
						stayed++
					}
					if ok {
						q.unsetOverflow(it, true)
						items--
					}
					if p.Unstash(it) != ok || !slices.Equal(p.view.Region, q.view.Region) {
						t.Fatalf("%+v went elsewhere", it)
					}
					if n := layout.StashCount(p.view.Stash, c); n != items {
						t.Fatalf("%d items of %+v are in the stash, not %d", n, c, items)
					}
				})
				if round%16 == 0 {
					tabletest.Check(t, p.table, p.view, live)
				}
			}
			tabletest.Check(t, p.table, p.view, live)
			if first == 0 || other == 0 || stayed == 0 {
				t.Errorf("%d went to the lines of their classes, %d to their other lines; %d stayed", first, other, stayed)
			}
		})
	}
}

// TestLineSet compares a lineSet, which is cleared and used again many times, with a map.
func TestLineSet(t *testing.T) {
	const most = 100
	set := newLineSet()
	rng := rand.New(rand.NewPCG(1, 0))
	for round := range 40 {
		set.clear()
		lines := map[uint64]bool{}
		for len(lines) < 1+rng.IntN(most) {
			line := rng.Uint64N(3 * most)
			if set.add(line) == lines[line] {
				t.Fatalf("round %d: line %d, of %d lines, is in the set: %t", round, line, len(lines), lines[line])
			}
			lines[line] = true
		}
	}
}

// TestBitsAreExact covers P4 and P8 for layouts whose lines know their guests. After each operation,
// while the stash fills and empties, exactly those overflow bits must be set that guests and stash need.
func TestBitsAreExact(t *testing.T) {
	for _, s := range tabletest.Shapes() {
		for _, lines := range []uint64{1, 2, 3, 9} {
			p := newMemory(t, s, lines)
			if p.hosts == nil {
				continue
			}
			t.Run(fmt.Sprintf("%s/lines=%d", s, lines), func(t *testing.T) {
				rng := rand.New(rand.NewPCG(lines, s.Fingerprints()))
				slots := int(lines * s.Slots())
				var live []layout.Item
				cleared := 0
				for step := range 6000 {
					target := []int{slots + 900, slots * 8 / 10, slots * 95 / 100}[step/1000%3]
					before := p.bits()
					if len(live) == 0 || rng.IntN(4) > 0 == (len(live) < target) {
						it := p.table.Split(rng.Uint64())
						if len(live) > 0 && rng.IntN(20) == 0 {
							it = live[rng.IntN(len(live))]
						}
						if p.Insert(it) {
							live = append(live, it)
						}
					} else {
						i := rng.IntN(len(live))
						freed, inLine, ok := p.Remove(live[i])
						if !ok {
							t.Fatalf("step %d: %+v is lost", step, live[i])
						}
						live[i] = live[len(live)-1]
						live = live[:len(live)-1]
						if inLine {
							p.BringHome(freed)
						}
						if n := layout.StashLen(p.view.Stash); n > 0 && rng.IntN(3) == 0 {
							p.unstashOne(rng.IntN(n))
						}
					}
					cleared += max(before-p.bits(), 0)
					p.hosts.MakeBits(&p.view, 0, lines, func(word, value uint64) {
						t.Fatalf("step %d: word %d of the region should be %#x, is %#x", step, word, value, p.view.Region[word])
					})
				}
				for _, it := range live {
					if !layout.Contains(p.table, &p.view, p.table.Hash(it)) {
						t.Fatalf("one of %d items is not found", len(live))
					}
				}
				if cleared < 10 {
					t.Errorf("%d bits were cleared", cleared)
				}
			})
		}
	}
}

// bits counts the overflow bits of a Compact table.
func (m *memory) bits() (n int) {
	for word := layout.BlockWords - 1; word < len(m.view.Region); word += layout.BlockWords {
		n += bits.OnesCount64(m.view.Region[word] >> 48)
	}
	return n
}

// unstashOne moves an item of a stash entry into a line, if there is room.
func (m *memory) unstashOne(entry int) {
	n := 0
	var class layout.Class
	layout.StashClasses(m.view.Stash, func(c layout.Class, _ uint64) {
		if n == entry {
			class = c
		}
		n++
	})
	m.Unstash(layout.Item(class))
}

// TestGuestsComeHome covers P8: after four turnovers at design load, fewer overflow bits must be set
// than when the table was first filled, so that fewer lookups of absent keys read a second line. If no
// guest came home, more would be set. If an arbitrary guest came home instead of the one that mostAlone
// chooses, about as many would be set, with long remainders. The longest remainders leave so little room
// that about as many are set, so they are not tested.
func TestGuestsComeHome(t *testing.T) {
	const lines = 600
	for _, s := range tabletest.Shapes() {
		p := newMemory(t, s, lines)
		if p.hosts == nil || s.RemainderBits > 16 {
			continue
		}
		t.Run(s.String(), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(17, s.Fingerprints()))
			var live []layout.Item
			insert := func() layout.Item {
				it := p.table.Split(rng.Uint64())
				if !p.Insert(it) {
					t.Fatalf("full with %d items", len(live))
				}
				return it
			}
			for n := lines * int(s.Slots()) * layout.DesignLoads(s.Kind, s.Params).Most / 100; len(live) < n; {
				live = append(live, insert())
			}
			filled := p.bits()
			for range 4 * len(live) {
				i := rng.IntN(len(live))
				if freed, inLine, _ := p.Remove(live[i]); inLine {
					p.BringHome(freed)
				}
				live[i] = insert()
			}
			now := p.bits()
			if t.Logf("%d overflow bits are set, and %d were when it was filled", now, filled); float64(now) > 0.93*float64(filled) {
				t.Error("too many")
			}
		})
	}
}
