package mmapfilter

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
)

// TestInsertLosesNothing fills tables one item at a time until one is refused,
// and then looks up every item that was taken: the moves, the overflow bits and
// the stash must lead a lookup to each. The table holds as many as were taken,
// and a refused item changes nothing.
func TestInsertLosesNothing(t *testing.T) {
	for _, s := range shapes() {
		for _, lines := range []uint64{s.least(), s.least() + 1, s.least() + 6, s.lines(300)} {
			t.Run(fmt.Sprintf("%s/lines=%d", s, lines), func(t *testing.T) {
				p := testPlacer(t, s.kind, s.Params, lines)
				rng := rand.New(rand.NewPCG(lines, uint64(s.FingerprintBits)))
				var hashes []uint64
				for {
					h := rng.Uint64()
					if n := len(hashes); n > 0 && rng.IntN(50) == 0 {
						h = hashes[rng.IntN(n)] // equal items too
					}
					if !p.insert(p.table.Split(h)) {
						break
					}
					hashes = append(hashes, h)
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
				checkAway(t, p, hashes)
			})
		}
	}
}

// TestMoveOne: where one move makes room, it is the one that the search would have found.
func TestMoveOne(t *testing.T) {
	for _, s := range shapes() {
		if testPlacer(t, s.kind, s.Params, 1).bounds.ChooseFirst {
			continue
		}
		for _, lines := range []uint64{1, 2, 3, 7, 50} {
			t.Run(fmt.Sprintf("%s/lines=%d", s, lines), func(t *testing.T) {
				moves := 0
				for round := range uint64(40) {
					p, q := testPlacer(t, s.kind, s.Params, lines), testPlacer(t, s.kind, s.Params, lines)
					rng := rand.New(rand.NewPCG(lines, round))
					for {
						home := p.table.Split(rng.Uint64())
						other := p.table.Alternate(home)
						copy(q.view.Region, p.view.Region)
						if p.putInLine(home) || other.Line != home.Line && p.putInLine(other) {
							continue
						}
						if !p.moveOne(home, other) {
							if !slices.Equal(p.view.Region, q.view.Region) {
								t.Fatal("a move that was not found has changed something")
							}
							if _, ok := p.search(home, other); !ok {
								break
							}
							continue
						}
						moves++
						if line, ok := q.search(home, other); !ok || line != home.Line || !slices.Equal(p.view.Region, q.view.Region) {
							t.Fatalf("with room in line %d, %t, the search ends with other lines", line, ok)
						}
					}
				}
				if lines > 2 && moves == 0 {
					t.Error("there was nothing to compare")
				}
			})
		}
	}
}

// checkAway bears F11: an item that is not in its home line has its overflow
// bits set there. A lookup that finds an equal fingerprint by chance would not
// tell, so this looks at the bits.
func checkAway(t *testing.T, p *memoryPlacer, hashes []uint64) {
	t.Helper()
	copies := map[layout.Item]int{} // by home
	for _, h := range hashes {
		it := p.table.Split(h)
		if other, ok := sameBuckets(p.table, copies, it); ok {
			it = other
		}
		copies[it]++
	}
	var l layout.Line
	for it, n := range copies {
		p.table.Load(p.view.Region, it.Line, &l)
		if p.table.Copies(&l, it) < n && !p.table.Overflowed(&l, it) {
			t.Fatalf("of %d items %+v, %d are at home, and no bits say that others are not", n, it, p.table.Copies(&l, it))
		}
	}
}

// sameBuckets finds the item of the map that stands for the same places as it,
// from the same line.
func sameBuckets(t layout.Table, m map[layout.Item]int, it layout.Item) (layout.Item, bool) {
	for b := range uint32(8) {
		other := layout.Item{Line: it.Line, Bucket: b, Fp: it.Fp}
		if _, ok := m[other]; ok && t.Class(other) == t.Class(it) {
			return other, true
		}
	}
	return it, false
}

// TestRefusedInsertChangesNothing bears C3.
func TestRefusedInsertChangesNothing(t *testing.T) {
	for _, s := range shapes() {
		t.Run(s.String(), func(t *testing.T) { refuse(t, testPlacer(t, s.kind, s.Params, s.least()+2)) })
	}
}

func refuse(t *testing.T, p *memoryPlacer) {
	rng := rand.New(rand.NewPCG(1, 3))
	region, stash := make([]uint64, len(p.view.Region)), make([]uint64, len(p.view.Stash))
	refused := 0
	for refused < 100 {
		copy(region, p.view.Region)
		copy(stash, p.view.Stash)
		if p.insert(p.table.Split(rng.Uint64())) {
			continue
		}
		refused++
		for i := range region {
			if region[i] != p.view.Region[i] {
				t.Fatalf("word %d of the region changed", i)
			}
		}
		for i := range stash {
			if stash[i] != p.view.Stash[i] {
				t.Fatalf("word %d of the stash changed", i)
			}
		}
	}
}

// TestLineSet against a map, with lines that want one place, and over the round
// after which old entries would look like new ones.
func TestLineSet(t *testing.T) {
	const most = 100
	set := newLineSet(most)
	rng := seeded(t, 1)
	for set.round = 1<<(64-lineNumberBits) - 20; set.round != 20; {
		set.clear()
		lines := map[uint64]bool{}
		for len(lines) < most {
			line := rng.Uint64N(3 * most)
			if rng.IntN(2) == 0 {
				line = 1<<46 - 1 - line
			}
			if set.add(line) == lines[line] {
				t.Fatalf("round %d: line %d of %d is there: %t", set.round, line, len(lines), lines[line])
			}
			lines[line] = true
		}
	}
}

// TestFullKnowsWhatIsPending: a line that is full in the file is not, when an item has left
// that is not durable yet, or not even appended.
func TestFullKnowsWhatIsPending(t *testing.T) {
	for _, s := range shapes() {
		t.Run(s.String(), func(t *testing.T) {
			f := createLines(t, filepath.Join(t.TempDir(), "f"), s, s.lines(20), Options{CommitInterval: -1})
			defer f.Close()
			w, rng := writerOf(f), rand.New(rand.NewPCG(5, 6))
			full := func(line uint64) bool { return w.mu.op.full(line) }
			var there []uint64 // in their home lines
			for h := rng.Uint64(); f.InsertHash(h) == nil; h = rng.Uint64() {
				there = append(there, h)
			}
			if err := f.Sync(); err != nil {
				t.Fatal(err)
			}
			for _, h := range there {
				home := w.table.Split(h)
				var l layout.Line
				if w.loadLine(home.Line, &l); !full(home.Line) || w.table.Copies(&l, home) != 1 {
					continue
				}
				if !w.mu.placer.takeFromLine(home) || full(home.Line) {
					t.Error("full, with an item on its way out")
				}
				w.mu.op.reset()
				if !full(home.Line) {
					t.Error("not full any more, though nothing was done")
				}
				if deleted, err := f.DeleteHash(h); !deleted || err != nil || !w.fullMapped(home.Line) || full(home.Line) {
					t.Errorf("%t, %v: full, with a deletion that is pending", deleted, err)
				}
				return
			}
			t.Error("no line is full")
		})
	}
}
