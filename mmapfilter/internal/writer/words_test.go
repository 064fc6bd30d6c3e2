package writer

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
)

// TestGrows enters words from one goroutine, through every size of the table, while others look
// them up. They find each entered word with its value, and no other word.
func TestGrows(t *testing.T) {
	entries := uint64(MaxWords)
	if testing.Short() {
		entries /= 16
	}
	// Of 8 consecutive words, 6 are in one block and 2 are far away.
	number := func(i uint64) uint64 { return i + i%8/6*i<<30 }
	m := NewPending(OneWord, 0)
	var entered atomic.Uint64
	var readers sync.WaitGroup
	for r := range uint64(3) {
		readers.Add(1)
		go func() {
			defer readers.Done()
			rng := rand.New(rand.NewPCG(r, 1))
			for n := uint64(0); n < entries; {
				if n = entered.Load(); n == 0 {
					continue
				}
				i := rng.Uint64N(n)
				if v, ok := m.word(number(i)); !ok || v != i {
					t.Errorf("word %d of %d is %d, %v", i, n, v, ok)
					return
				}
				block := number(i) / layout.BlockWords
				set := make([]uint8, 2)
				if m.mayHave([]uint64{9: block}, set); set[1]>>1 == 0 || !m.seemsToHave(block) || !m.has(block) {
					t.Errorf("block %d of word %d seems to have no words", block, i)
					return
				}
				if v, ok := m.word(number(entries + rng.Uint64N(entries))); ok {
					t.Errorf("a word is found that was not entered, with the value %d", v)
					return
				}
			}
		}()
	}
	for i := range entries {
		m.Store(number(i), i)
		entered.Store(i + 1)
	}
	readers.Wait()
	for i := range entries {
		if v, ok := m.word(number(i)); !ok || v != i || !m.has(number(i)/layout.BlockWords) {
			t.Fatalf("word %d is %d, %v; its block has words: %v", i, v, ok, m.has(number(i)/layout.BlockWords))
		}
		var l, want layout.Line
		for j := i &^ 7; j <= i|7 && j < entries; j++ {
			if number(j)/layout.BlockWords == number(i)/layout.BlockWords {
				want[number(j)%layout.BlockWords] = j
			}
		}
		if m.update(number(i)/layout.BlockWords*layout.BlockWords, l[:]); l != want {
			t.Fatalf("the line of word %d is %v, not %v", i, l, want)
		}
	}
	absent, marked, seem := make([]uint64, entries), 0, 0
	rng := rand.New(rand.NewPCG(3, 0))
	for i := range absent {
		absent[i] = 1<<60 | rng.Uint64()>>16
	}
	set := make([]uint8, (len(absent)+7)/8)
	m.mayHave(absent, set)
	for i := range absent {
		if m.has(absent[i]) {
			t.Fatalf("block %d has words", absent[i])
		}
		marked += int(set[i/8] >> (i % 8) & 1)
		if m.seemsToHave(absent[i]) {
			seem++
		}
	}
	if share := float64(marked) / float64(len(absent)); share > 1.5/bitsAnEntry {
		t.Errorf("%.3f of the blocks without words are marked", share)
	}
	if share := float64(seem) / float64(len(absent)); share > 0.2 { // full groups: here six words are in one block
		t.Errorf("%.3f of the blocks without words seem to have some", share)
	}
	m.Store(number(5), 77)
	if v, _ := m.word(number(5)); v != 77 || m.n != int(entries) {
		t.Errorf("a word that is stored to again is %d, one of %d", v, m.n)
	}
}

// TestSeemsToHaveBehindAFullGroup: the words of a block may be in the group after its own.
func TestSeemsToHaveBehindAFullGroup(t *testing.T) {
	m := NewPending(OneWord, 0)
	at, tag := m.table.Load().start(0)
	second := uint64(1)
	for ; ; second++ {
		if group, other := m.table.Load().start(second); group == at && other != tag {
			break
		}
	}
	for word := range uint64(layout.BlockWords) {
		m.Store(word, 1)
	}
	m.Store(second*layout.BlockWords, 1)
	if !m.has(second) || !m.seemsToHave(second) {
		t.Errorf("block %d seems to have no words", second)
	}
}

// TestGrowsAtOnce: a table starts small and then grows at once to the requested room.
func TestGrowsAtOnce(t *testing.T) {
	m := NewPending(OneWord, 10*minRoom)
	for i := range uint64(minRoom + 1) {
		if room := len(m.table.Load().groups) * groupSlots / 2; room != minRoom {
			t.Fatalf("room for %d words with %d", room, i)
		}
		m.Store(i, i)
	}
	if room := len(m.table.Load().groups) * groupSlots / 2; room != 16*minRoom {
		t.Errorf("room for %d words", room)
	}
}

// TestOverlay: the words of the open segment take precedence over those of the segment being
// committed, for a single word, an image and a block; Drop forgets the latter.
func TestOverlay(t *testing.T) {
	const both, old, newer = 8, 17, 26 // words, each in its own block
	first := Over(NewPending(OneWord, 0))
	first.Active().Store(both, 1)
	first.Active().Store(old, 1)
	o := first.Next()
	o.Active().Store(both, 2)
	o.Active().Store(newer, 2)
	check := func(when string, o *Overlay, want map[uint64]uint64) {
		t.Helper()
		for _, word := range []uint64{both, old, newer, 100} {
			value, pending := want[word]
			if v, ok := o.Word(word); v != value || ok != pending {
				t.Errorf("%s: word %d is %d, pending: %t", when, word, v, ok)
			}
			image := []uint64{9, 9, 9}
			if !pending {
				value = 9
			}
			if o.Update(word-1, image); image[1] != value {
				t.Errorf("%s: an image has %d as word %d", when, image[1], word)
			}
			block, set := word/layout.BlockWords, []uint8{0}
			o.MayHave([]uint64{block}, set)
			if o.Has(block) != pending || pending && (set[0] == 0 || !o.SeemsToHave(block)) {
				t.Errorf("%s: block %d has words: %t; it may: %d", when, block, o.Has(block), set[0])
			}
		}
	}
	check("open", first, map[uint64]uint64{both: 1, old: 1})
	check("being committed", o, map[uint64]uint64{both: 2, old: 1, newer: 2})
	check("dropped", o.Drop(), map[uint64]uint64{both: 2, newer: 2})
	if n := o.Active().Len(); n != 2 {
		t.Errorf("%d words in the open segment", n)
	}
}

// TestBlocks enters blocks and stores to some of their words again, through several sizes of the
// table, while others look them up. A block has all of its words from the first store on: those that
// were not stored to are as they were before.
func TestBlocks(t *testing.T) {
	const blocks, base = 4 * minRoom, 1 << 40 // base + i is word i as it was before
	number := func(i uint64) uint64 { return i * 0x9E3779B97F4A7C15 >> 20 }
	before := func(block uint64, l *layout.Line) {
		for i := range l {
			l[i] = base + block*layout.BlockWords + uint64(i)
		}
	}
	m := NewPending(OneBlock, 0)
	var entered atomic.Uint64
	var readers sync.WaitGroup
	check := func(i uint64) {
		block := number(i)
		var l, byWord, updated layout.Line
		if !m.line(block, &l) || !m.has(block) || !m.seemsToHave(block) {
			t.Errorf("block %d of %d is not there", i, entered.Load())
		}
		for j := range l {
			byWord[j], _ = m.word(block*layout.BlockWords + uint64(j))
			want := base + block*layout.BlockWords + uint64(j)
			if j == 2 || j == 5 && i%2 == 0 {
				want = i
			}
			if l[j] != want {
				t.Errorf("word %d of block %d is %d, not %d", j, i, l[j], want)
			}
		}
		m.update(block*layout.BlockWords, updated[:])
		part := make([]uint64, 3)
		m.update(block*layout.BlockWords+6, part)
		if byWord != l || updated != l || part[0] != l[6] || part[1] != l[7] {
			t.Errorf("block %d is %v; word by word %v, as an image %v; its end is %v", i, l, byWord, updated, part)
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
	for i := range uint64(blocks) {
		values := layout.Line{2: i, 5: i}
		m.StoreWords(number(i), 1<<2, &values, before)
		if i%2 == 0 {
			m.StoreWords(number(i), 1<<5, &values, nil)
		}
		entered.Store(i + 1)
	}
	readers.Wait()
	for i := range uint64(blocks) {
		check(i)
	}
	if n := m.Len(); n != blocks*blockCounts {
		t.Errorf("%d blocks count as %d words", blocks, n)
	}
}

// TestOverlayOfBlocks: a block of the open segment takes precedence over one of the segment being
// committed, whose words it has.
func TestOverlayOfBlocks(t *testing.T) {
	o := Over(NewPending(OneBlock, 0))
	file := func(_ uint64, l *layout.Line) { *l = layout.Line{1, 1, 1, 1, 1, 1, 1, 1} }
	o.Active().StoreWords(3, 1<<0, &layout.Line{2}, file)
	o.Active().StoreWords(4, 1<<0, &layout.Line{2}, file)
	o = o.Next()
	o.Active().StoreWords(3, 1<<7, &layout.Line{7: 3}, func(block uint64, l *layout.Line) { o.Line(block, l) })
	for block, want := range map[uint64]layout.Line{3: {2, 1, 1, 1, 1, 1, 1, 3}, 4: {2, 1, 1, 1, 1, 1, 1, 1}} {
		var l layout.Line
		if !o.Line(block, &l) || l != want {
			t.Errorf("block %d is %v, not %v", block, l, want)
		}
	}
	if o = o.Drop(); !o.Has(3) || o.Line(4, new(layout.Line)) || o.Has(4) {
		t.Error("Drop does not drop the block that was committed, or another")
	}
}
