package writer

import (
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
)

// enter enters a block with a value in word 0. Its other words are 0.
func (m *Pending) enter(block, value uint64) {
	m.StoreWords(block, 1, &layout.Line{value}, func(_ uint64, l *layout.Line) { *l = layout.Line{} })
}

// TestGrowsAtOnce checks that a table starts small, and that its first growth gives it the requested
// room.
func TestGrowsAtOnce(t *testing.T) {
	m := NewPending(10 * minRoom)
	for i := range uint64(minRoom + 1) {
		if room := len(m.table.Load().slots) / 2; room != minRoom {
			t.Fatalf("room for %d blocks with %d", room, i)
		}
		m.enter(i, i)
	}
	if room := len(m.table.Load().slots) / 2; room != 16*minRoom {
		t.Errorf("room for %d blocks", room)
	}
}

// TestOverlay checks that blocks of the open segment take precedence over blocks of the segment that is
// being committed, and have the words of those: for a single word, for a block, and for an image that
// begins in the block before. Drop must forget the segment that is being committed.
func TestOverlay(t *testing.T) {
	const both, old, newer, none = 3, 4, 6, 9
	first := Over(NewPending(0))
	first.Active().enter(both, 1)
	first.Active().enter(old, 1)
	o := first.Next()
	o.Active().StoreWords(both, 1<<7, &layout.Line{7: 2}, func(block uint64, l *layout.Line) { o.Line(block, l) })
	o.Active().enter(newer, 2)
	check := func(when string, o *Overlay, want map[uint64]layout.Line) {
		t.Helper()
		for _, block := range []uint64{both, old, newer, none} {
			line, pending := want[block]
			var l, byWord layout.Line
			for i := range byWord {
				byWord[i], _ = o.Word(block*layout.BlockWords + uint64(i))
			}
			set := []uint8{0}
			o.MayHave([]uint64{block}, set)
			if is := o.Line(block, &l); is != pending || o.Has(block) != pending || pending && set[0] == 0 || l != line || byWord != line {
				t.Errorf("%s: block %d is pending: %t; %v, by word %v", when, block, is, l, byWord)
			}
			image := slices.Repeat([]uint64{77}, 2+layout.BlockWords) // from the block before to the one after
			after, before := want[block+1], want[block-1]
			o.Update(block*layout.BlockWords-1, image)
			for i, v := range slices.Concat(before[7:], line[:], after[:1]) {
				if there := i == 0 && o.Has(block-1) || i > 0 && i <= 8 && pending || i == 9 && o.Has(block+1); image[i] != v && there || image[i] != 77 && !there {
					t.Errorf("%s: word %d of an image of block %d is %d, not %d", when, i, block, image[i], v)
				}
			}
		}
	}
	check("open", first, map[uint64]layout.Line{both: {1}, old: {1}})
	check("being committed", o, map[uint64]layout.Line{both: {0: 1, 7: 2}, old: {1}, newer: {2}})
	check("dropped", o.Drop(), map[uint64]layout.Line{both: {0: 1, 7: 2}, newer: {2}})
	if n := o.Active().Len(); n != 2*blockCounts {
		t.Errorf("%d words in the open segment", n)
	}
}

// TestBlocks enters blocks and stores to some of their words again, while the table grows through every
// size and other goroutines look blocks up. From its first store on, a block must have all of its words;
// those that were not stored to are as they were before. Blocks that were not entered must not be found.
func TestBlocks(t *testing.T) {
	const base = 1 << 40 // base + i is word i as it was before
	blocks := uint64(MaxWords / blockCounts)
	if testing.Short() {
		blocks /= 16
	}
	number := func(i uint64) uint64 { return i * 0x9E3779B97F4A7C15 >> 25 } // up to the highest possible number
	before := func(block uint64, l *layout.Line) {
		for i := range l {
			l[i] = base + block*layout.BlockWords + uint64(i)
		}
	}
	m := NewPending(0)
	var entered atomic.Uint64
	var readers sync.WaitGroup
	check := func(i uint64) {
		block, set := number(i), make([]uint8, 2)
		m.mayHave([]uint64{9: block}, set)
		var l, byWord layout.Line
		if !m.line(block, &l) || !m.has(block) || set[1]>>1 == 0 {
			t.Errorf("block %d of %d is not found", i, entered.Load())
		}
		for j := range l {
			byWord[j], _ = m.word(block*layout.BlockWords + uint64(j))
			want := base + block*layout.BlockWords + uint64(j)
			if j == 2 || j == 5 && i%2 == 0 {
				want = i
			}
			if l[j] != want || byWord[j] != want {
				t.Errorf("word %d of block %d is %d and %d, not %d", j, i, l[j], byWord[j], want)
			}
		}
	}
	for r := range uint64(2) {
		readers.Add(1)
		go func() {
			defer readers.Done()
			rng := rand.New(rand.NewPCG(r, 1))
			for n := uint64(0); n < blocks && !t.Failed(); {
				if n = entered.Load(); n > 0 {
					check(rng.Uint64N(n))
				}
				if m.line(number(blocks+rng.Uint64N(blocks)), new(layout.Line)) {
					t.Error("a block is found that was not entered")
				}
			}
		}()
	}
	for i := range blocks {
		values := layout.Line{2: i, 5: i}
		m.StoreWords(number(i), 1<<2, &values, before)
		if i%2 == 0 {
			m.StoreWords(number(i), 1<<5, &values, nil)
		}
		entered.Store(i + 1)
	}
	readers.Wait()
	for i := range blocks {
		check(i)
	}
	if n := m.Len(); n != int(blocks)*blockCounts {
		t.Errorf("%d blocks count as %d words", blocks, n)
	}
	marked, set := 0, make([]uint8, 1)
	for i := range blocks {
		absent := number(blocks + i)
		clear(set)
		m.mayHave([]uint64{absent}, set)
		marked += int(set[0])
		if m.has(absent) {
			t.Fatalf("block %d is found, but was not entered", absent)
		}
	}
	if marked > int(blocks)*3/2/bitsAnEntry {
		t.Errorf("of %d other blocks, %d are marked", blocks, marked)
	}
}
