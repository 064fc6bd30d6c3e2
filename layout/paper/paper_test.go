package paper

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/layouttest"
)

// eachPair runs a test for the layouts whose lines share words.
func eachPair(t *testing.T, lines uint64, f func(t *testing.T, tab *table)) {
	layouttest.Each(t, lines, func(t *testing.T, tab layout.Table) {
		if p, ok := tab.(*table); ok {
			f(t, p)
		}
	})
}

// TestSequences counts the ascending sequences of nibbles, in the order of their greatest nibble, then
// of the next. The number of each sequence must be its place in this order.
func TestSequences(t *testing.T) {
	n := uint16(0)
	for s := range uint16(16) {
		for r := range s + 1 {
			for q := range r + 1 {
				for p := range q + 1 {
					if number := chooseUp[0][p] + chooseUp[1][q] + chooseUp[2][r] + chooseUp[3][s]; number != n {
						t.Fatalf("%x %x %x %x has number %d, not %d", p, q, r, s, number, n)
					}
					if got := nibblesOf[n]; got != p|q<<4|r<<8|s<<12 {
						t.Fatalf("number %d is %04x", n, got)
					}
					n++
				}
			}
		}
	}
	if n != sequences {
		t.Errorf("%d sequences", n)
	}
}

// TestPairLinesAreApart fills and empties the buckets of a small region at random, and compares each
// with a list of its items: a change touches only its own bucket, although buckets share words; each
// listed store changes a word; and CheckLines, Copies and Victims are right.
func TestPairLinesAreApart(t *testing.T) {
	const lines = 37
	eachPair(t, lines, func(t *testing.T, tab *table) {
		rng := rand.New(rand.NewPCG(uint64(tab.f), uint64(tab.b)))
		g, err := layout.NewGeometry(tab.kind, tab.Params(), lines)
		if err != nil {
			t.Fatal(err)
		}
		region := make([]uint64, g.RegionBytes/8)
		var want [lines][]uint32
		total := uint64(0)
		for range 4000 {
			it := layout.Item{Line: rng.Uint64N(lines), Fp: 1 + uint32(rng.Uint64N(tab.values))}
			if rng.IntN(2) == 0 { // one of 3 fingerprints, so that some are equal
				it.Fp = 1 + uint32(rng.Uint64N(min(tab.values, 3)))
			}
			have := &want[it.Line]
			var l layout.Line
			var s layout.Stores
			layout.Load(tab, region, it.Line, &l)
			before := l
			if n := len(*have); n > 0 && rng.IntN(2) == 0 {
				i := rng.IntN(n)
				it.Fp = (*have)[i]
				*have = slices.Delete(*have, i, i+1)
				if !tab.Remove(&l, it, &s) {
					t.Fatal("not removed")
				}
				total--
			} else if placed := tab.Place(&l, it, &s); placed != (n < tab.b) {
				t.Fatalf("placed: %t, with %d in the line", placed, n)
			} else if placed {
				*have = append(*have, it.Fp)
				total++
			} else {
				tab.mustMakeRoom(t, l, it)
			}
			if got, want := layout.Copies(tab, l, it), count(*have, it.Fp); got != want {
				t.Fatalf("%d copies of %+v, not %d", got, it, want)
			}
			first, n := tab.Words(it.Line)
			listed := map[int]bool{}
			for i := range s.Len() {
				word, guarded := s.At(i)
				if spans := tab.kind == layout.SemiSorted && n > 1; !guarded && (spans || l[word]&before[word] != before[word] && tab.kind == layout.Packed) {
					t.Fatalf("word %d of %d of line %d is not guarded", word, n, it.Line)
				}
				listed[word] = true
				region[first+uint64(word)] = l[word]
			}
			for i := range l {
				if (l[i] != before[i]) != listed[i] {
					t.Fatalf("word %d changed: %t", i, !listed[i])
				}
			}
			if items, line, err := tab.CheckLines(region, 0, lines); items != total || err != nil {
				t.Fatalf("%d items, not %d; line %d: %v", items, total, line, err)
			}
			for line := range uint64(lines) {
				layout.Load(tab, region, line, &l)
				slots := tab.slots(&l, line)
				got := slices.DeleteFunc(slices.Clone(slots[:tab.b]), func(fp uint32) bool { return fp == 0 })
				slices.Sort(got)
				slices.Sort(want[line])
				if !slices.Equal(got, want[line]) {
					t.Fatalf("line %d has %x, not %x", line, got, want[line])
				}
			}
		}
	})
}

// mustMakeRoom checks that a full line has room for the item once any one of its Victims is removed.
func (t *table) mustMakeRoom(tb testing.TB, l layout.Line, it layout.Item) {
	tb.Helper()
	victims := t.Victims(nil, &l, it)
	for _, v := range victims {
		if less := l; !t.Remove(&less, v, nil) || !t.Place(&less, it, nil) {
			tb.Fatalf("without %+v there is no room for %+v", v, it)
		}
	}
	if len(victims) == 0 {
		tb.Fatal("no room, and no victims")
	}
}

func count(fps []uint32, fp uint32) (n int) {
	for _, other := range fps {
		if other == fp {
			n++
		}
	}
	return n
}

// TestCheckPairs: CheckLines finds what a region must not hold (F10): a bit after the last line, a
// number that no sequence has, descending tails of equal nibbles.
func TestCheckPairs(t *testing.T) {
	eachPair(t, 5, func(t *testing.T, tab *table) {
		g, err := layout.NewGeometry(tab.kind, tab.Params(), 5)
		if err != nil {
			t.Fatal(err)
		}
		refused := func(region []uint64, line uint64) error {
			_, at, err := tab.CheckLines(region, 0, 5)
			if (err != nil) != (line < 5) || err != nil && at != line {
				return fmt.Errorf("line %d: %v, and it should be line %d", at, err, line)
			}
			return nil
		}
		for bit := range 8 * uint64(g.RegionBytes) {
			region := make([]uint64, g.RegionBytes/8)
			region[bit/64] = 1 << (bit % 64)
			in := bit % tab.size
			line := uint64(5)
			switch {
			case bit >= 5*tab.size:
				line = 4
			case tab.kind == layout.SemiSorted && in >= numberBits && in < tab.size-uint64(tab.f-nibbleBits):
				line = bit / tab.size // a tail above 0 before the last tail, which is 0
			}
			if err := refused(region, line); err != nil {
				t.Fatalf("bit %d: %v", bit, err)
			}
		}
		for number := range uint64(1 << numberBits) {
			if tab.kind != layout.SemiSorted {
				break
			}
			region := make([]uint64, g.RegionBytes/8)
			layout.PutBits(region, 3*tab.size, numberBits, number)
			line := uint64(5)
			if number >= sequences {
				line = 3
			}
			if err := refused(region, line); err != nil {
				t.Fatalf("number %d: %v", number, err)
			}
		}
	})
}

// TestPairBlocks covers R2: a lookup loads the counter of every word that it reads.
func TestPairBlocks(t *testing.T) {
	eachPair(t, 300, func(t *testing.T, tab *table) {
		rng := rand.New(rand.NewPCG(3, 4))
		two := 0
		for range 300 {
			h := rng.Uint64()
			read := map[uint64]bool{}
			layout.Lookup(tab, func(word uint64) uint64 {
				read[word] = true
				return 0
			}, h)
			for word := range read {
				if word >= layout.WordStash && !read[layout.WordRuntime+layout.CounterOf(word)] {
					t.Fatalf("word %d is read without its counter", word)
				}
			}
			if first, n := tab.Words(tab.Split(h).Line); first/layout.BlockWords != (first+uint64(n)-1)/layout.BlockWords {
				two++
			}
		}
		if alone := tab.size&(tab.size-1) == 0; alone != (two == 0) {
			t.Errorf("%d buckets in two blocks", two)
		}
	})
}
