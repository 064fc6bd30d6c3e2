package layout

import (
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// eachTable runs a test for every layout with all its parameters; a short one with
// some of those of the layouts that have many.
func eachTable(t *testing.T, lines uint64, f func(t *testing.T, tab Table)) {
	for _, k := range Kinds() {
		for i, p := range LegalParams(k) {
			if testing.Short() && k != Blocked && i%11 != 0 {
				continue
			}
			t.Run(fmt.Sprintf("%s/f=%d,b=%d", k, p.FingerprintBits, p.BucketSize), func(t *testing.T) {
				g, err := NewGeometry(k, p, lines)
				if err != nil {
					t.Fatal(err)
				}
				f(t, NewTable(g))
			})
		}
	}
}

// TestAlternateIsAnInvolution, for any number of lines, and a home that is its
// own alternate is one.
func TestAlternateIsAnInvolution(t *testing.T) {
	for _, k := range Kinds() {
		for _, p := range LegalParams(k) {
			rapid.Check(t, func(t *rapid.T) {
				lines := rapid.Uint64Range(1, 1<<uint(min(39, 62-specs[k].itemBits(p)))).Draw(t, "lines")
				g, err := NewGeometry(k, p, lines)
				if err != nil {
					t.Fatal(err)
				}
				tab := NewTable(g)
				it := tab.Split(rapid.Uint64().Draw(t, "hash"))
				other := tab.Alternate(it)
				if it.Line >= lines || other.Line >= lines || !tab.Legal(it) || !tab.Legal(other) {
					t.Fatalf("%+v and %+v in %d lines", it, other, lines)
				}
				if back := tab.Alternate(other); back.Line != it.Line || tab.Class(back) != tab.Class(it) || tab.Class(other) != tab.Class(it) {
					t.Fatalf("%+v, %+v, %+v", it, other, back)
				}
			})
		}
	}
}

// TestHashIsAnInverse of Split, the lowest one, for any number of lines.
func TestHashIsAnInverse(t *testing.T) {
	for _, k := range Kinds() {
		for _, p := range LegalParams(k) {
			rapid.Check(t, func(t *rapid.T) {
				most := uint64(1) << uint(min(39, 62-specs[k].itemBits(p)))
				lines := rapid.OneOf(rapid.Uint64Range(1, most), rapid.Just(most)).Draw(t, "lines")
				g, err := NewGeometry(k, p, lines)
				if err != nil {
					t.Fatal(err)
				}
				tab := NewTable(g)
				h := rapid.OneOf(rapid.Uint64(), rapid.SampledFrom([]uint64{0, math.MaxUint64})).Draw(t, "hash")
				it := tab.Split(h)
				lowest := tab.Hash(it)
				if lowest > h || tab.Split(lowest) != it {
					t.Fatalf("%+v of %#x, %+v of %#x", it, h, tab.Split(lowest), lowest)
				}
				if lowest > 0 && tab.Split(lowest-1) == it {
					t.Fatalf("%#x is not the lowest hash of %+v", lowest, it)
				}
			})
		}
	}
}

// TestNewMarks counts what SetOverflow sets.
func TestNewMarks(t *testing.T) {
	eachTable(t, 5, func(t *testing.T, tab Table) {
		rng := rand.New(rand.NewPCG(8, 8))
		var l Line
		for range 200 {
			it, before := tab.Split(rng.Uint64()), l
			want := tab.NewMarks(&l, it)
			tab.SetOverflow(&l, it, nil)
			got := 0
			for i := range l {
				got += bits.OnesCount64(l[i] ^ before[i])
			}
			if got != want || tab.NewMarks(&l, it) != 0 {
				t.Fatalf("%+v sets %d bits of %x, NewMarks says %d, and %d afterwards", it, got, before, want, tab.NewMarks(&l, it))
			}
		}
	})
}

// TestFull: a line is full from the item on that takes its last slot, and not when one has left.
func TestFull(t *testing.T) {
	eachTable(t, 3, func(t *testing.T, tab Table) {
		rng := rand.New(rand.NewPCG(19, 20))
		g, err := NewGeometry(tab.Kind(), tab.Params(), 3)
		if err != nil {
			t.Fatal(err)
		}
		region := make([]uint64, g.RegionBytes/8)
		var l Line
		for line := range tab.Lines() {
			for full := false; !full; {
				full = tab.Full(region, line)
				if tab.Load(region, line, &l); full != (tab.Free(&l, line) == 0) {
					t.Fatalf("line %d with %d free slots is full: %t", line, tab.Free(&l, line), full)
				}
				it := tab.Split(rng.Uint64())
				if it.Line = line; full {
					items, _ := tab.Victims(nil, &l, it, true)
					tab.Remove(&l, items[0], nil)
					if tab.Store(region, line, &l); tab.Full(region, line) {
						t.Fatalf("line %d is full when an item has left", line)
					}
					continue
				}
				tab.Place(&l, it, nil)
				tab.Store(region, line, &l)
			}
		}
	})
}

// TestFullLines compares with Full, for any number of lines in any order.
func TestFullLines(t *testing.T) {
	eachKernel(t, func(t *testing.T) {
		eachTable(t, 50, func(t *testing.T, tab Table) {
			rng := rand.New(rand.NewPCG(21, 22))
			g, err := NewGeometry(tab.Kind(), tab.Params(), 50)
			if err != nil {
				t.Fatal(err)
			}
			region := make([]uint64, g.RegionBytes/8)
			var l Line
			for line := range tab.Lines() { // nearly all slots, or all, and overflow bits of any kind
				tab.Load(region, line, &l)
				for tries := range 4000 {
					it := tab.Split(rng.Uint64())
					if it.Line = line; tries%40 == 0 && !tab.Both() {
						tab.SetOverflow(&l, it, nil)
					}
					if tab.Free(&l, line) > line%3 {
						tab.Place(&l, it, nil)
					}
				}
				tab.Store(region, line, &l)
			}
			kinds := uint64(0)
			for n := range 65 {
				lines := make([]uint64, n)
				want := uint64(0)
				for i := range lines {
					if lines[i] = rng.Uint64N(50); tab.Full(region, lines[i]) {
						want |= 1 << i
					}
				}
				if got := tab.FullLines(region, lines); got != want {
					t.Fatalf("lines %d: %b are full, want %b", lines, got, want)
				}
				kinds |= want
			}
			if kinds == 0 {
				t.Error("no line is full")
			}
		})
	})
}

// TestSelfAlternate finds items with one home in tables of one, two and three
// lines, and looks them up in their line and in the stash.
func TestSelfAlternate(t *testing.T) {
	for _, lines := range []uint64{1, 2, 3} {
		eachTable(t, lines, func(t *testing.T, tab Table) {
			rng := rand.New(rand.NewPCG(3, lines))
			found := 0
			for range 1000 {
				h := rng.Uint64()
				it := tab.Split(h)
				if tab.Alternate(it).Line != it.Line {
					continue
				}
				found++
				v := &View{Region: make([]uint64, lines*8), Stash: make([]uint64, StashWords), Runtime: make([]uint64, RuntimeWords)}
				if Contains(tab, v, h) {
					t.Fatal("found in an empty table")
				}
				var l Line
				tab.SetOverflow(&l, it, nil)
				tab.Store(v.Region, it.Line, &l)
				if Contains(tab, v, h) {
					t.Fatal("found in a table of overflow bits")
				}
				if !StashAdd(v.Stash, tab.Class(it), into(v.Stash)) || !Contains(tab, v, h) {
					t.Fatal("not found in the stash")
				}
			}
			if found == 0 {
				t.Errorf("no item with one home in %d lines", lines)
			}
		})
	}
}

// TestSplitIsUniform counts lines, buckets and fingerprints of random hashes
// with a chi-squared test at six standard deviations.
func TestSplitIsUniform(t *testing.T) {
	eachTable(t, 37, func(t *testing.T, tab Table) {
		const n = 1 << 18
		rng := rand.New(rand.NewPCG(5, 6))
		lines, lows, highs := make([]int, 37), make([]int, 64), make([]int, 64)
		f := tab.Params().FingerprintBits
		high := func(fp uint32) uint32 { return fp >> max(f-6, 0) }
		for range n {
			it := tab.Split(rng.Uint64())
			lines[it.Line]++
			lows[it.Fp%64]++
			highs[high(it.Fp)]++
		}
		// The fingerprints, 2^f - 1 of them, do not divide by 64.
		of := map[string]*[64]float64{"low bits": {}, "high bits": {}}
		all := uint32(1)<<min(f, 16) - 1
		for fp := uint32(1); fp <= all; fp++ {
			of["low bits"][fp%64] += 1 / float64(all)
			of["high bits"][fp>>max(min(f, 16)-6, 0)] += 1 / float64(all)
		}
		for name, counts := range map[string][]int{"lines": lines, "low bits": lows, "high bits": highs} {
			chi, freedom := 0.0, float64(len(counts)-1)
			for i, c := range counts {
				want := float64(n) / float64(len(counts))
				if name != "lines" {
					want = n * of[name][i]
				}
				if want == 0 && c > 0 {
					t.Errorf("%s: %d of value %d, which there is not", name, c, i)
				}
				if want > 0 {
					chi += (float64(c) - want) * (float64(c) - want) / want
				}
			}
			if chi > freedom+6*1.5*freedom {
				t.Errorf("%s: chi squared %.0f with %.0f degrees of freedom", name, chi, freedom)
			}
		}
	})
}

// TestLineHoldsWhatItIsGiven plays random operations on one line against a
// multiset of items.
func TestLineHoldsWhatItIsGiven(t *testing.T) {
	eachTable(t, 1, func(t *testing.T, tab Table) {
		rapid.Check(t, func(t *rapid.T) {
			var l Line
			model := map[Class]int{}
			total := 0
			// Few different items, so that equal ones meet.
			seed := rapid.Uint64().Draw(t, "seed")
			rng := rand.New(rand.NewPCG(seed, 0))
			hashes := make([]uint64, rapid.IntRange(1, 80).Draw(t, "items"))
			for i := range hashes {
				hashes[i] = rng.Uint64()
			}
			for range rapid.IntRange(1, 200).Draw(t, "operations") {
				it := tab.Split(hashes[rng.IntN(len(hashes))])
				c := tab.Class(it)
				before := l
				switch rng.IntN(4) {
				case 0:
					if tab.Remove(&l, it, nil) != (model[c] > 0) {
						t.Fatalf("Remove of %+v with %d copies", it, model[c])
					}
					if model[c] > 0 {
						model[c]--
						total--
					}
				default:
					if tab.Place(&l, it, nil) {
						model[c]++
						total++
					} else if l != before {
						t.Fatal("a Place that found no room changed the line")
					} else if n := checkVictims(t, tab, &l, it); n == 0 {
						t.Fatal("no room, and nobody to move out")
					}
				}
				items, _, err := tab.CheckLines(l[:], 0, 1)
				if err != nil || int(items) != total {
					t.Fatalf("%d items, not %d: %v", items, total, err)
				}
				for _, h := range hashes {
					if got, want := tab.Copies(&l, tab.Split(h)), model[tab.Class(tab.Split(h))]; got != want {
						t.Fatalf("%d copies of %+v, not %d", got, tab.Split(h), want)
					}
				}
			}
		})
	})
}

// checkVictims holds Victims to its word: each of them can be taken out, and
// then the item goes in.
func checkVictims(t *rapid.T, tab Table, l *Line, it Item) int {
	victims, few := victimsOf(tab, l, it, true), victimsOf(tab, l, it, false)
	if !slices.Equal(few, victims[:min(len(few), len(victims))]) || len(victims) > 0 && len(few) == 0 {
		t.Fatalf("few victims %+v, all %+v", few, victims)
	}
	for _, v := range victims {
		m := *l
		if !tab.Remove(&m, v, nil) {
			t.Fatalf("%+v is not in the line", v)
		}
		if !tab.Place(&m, it, nil) {
			t.Fatalf("no room for %+v without %+v", it, v)
		}
	}
	return len(victims)
}

// TestOverflowBits: the bits of an item are its own, lead its lookups on, and
// change no slot.
func TestOverflowBits(t *testing.T) {
	eachTable(t, 1000, func(t *testing.T, tab Table) {
		rng := rand.New(rand.NewPCG(7, 8))
		for range 1000 {
			it := tab.Split(rng.Uint64())
			var l Line
			other := tab.Split(rng.Uint64())
			other.Line = it.Line
			tab.Place(&l, other, nil)
			if tab.Overflowed(&l, it) != tab.Both() {
				t.Fatal("overflowed at once, or not, whatever is in the line")
			}
			before := l
			tab.SetOverflow(&l, it, nil)
			if tab.Both() && l != before {
				t.Fatal("there are no bits to set")
			}
			items, _, err := count(tab, &l, it.Line)
			if !tab.Overflowed(&l, it) || items != 1 || err != nil {
				t.Fatalf("%d items, %v", items, err)
			}
		}
	})
}

// count counts the items of one line.
func count(tab Table, l *Line, line uint64) (items, at uint64, err error) {
	region := make([]uint64, 8*tab.Lines()+1)
	tab.Store(region, line, l)
	return tab.CheckLines(region, line, line+1)
}

// TestCheckLines finds every bit that cannot be set in a line (F10).
func TestCheckLines(t *testing.T) {
	eachTable(t, 3, func(t *testing.T, tab Table) {
		if tab.Kind() != Blocked {
			return // see TestCheckPairs
		}
		unusable := 0
		for bit := range 3 * 512 {
			region := make([]uint64, 24)
			region[bit/64] = 1 << (bit % 64)
			items, line, err := tab.CheckLines(region, 0, 3)
			inWord := bit % 64
			used := tab.Params().FingerprintBits * tab.Params().BucketSize
			switch {
			case inWord < used:
				if items != 1 || err != nil {
					t.Fatalf("bit %d: %d items, %v", bit, items, err)
				}
			case inWord < 60:
				unusable++
				if err == nil || line != uint64(bit/512) {
					t.Fatalf("bit %d: line %d, %v", bit, line, err)
				}
			default:
				if items != 0 || err != nil {
					t.Fatalf("bit %d: %d items, %v", bit, items, err)
				}
			}
		}
		if p := tab.Params(); unusable != 24*(60-p.FingerprintBits*p.BucketSize) {
			t.Errorf("%d unusable bits", unusable)
		}
	})
}

// FuzzLine: no content of a line makes a function of a table panic, and one
// that passes the check behaves.
func FuzzLine(f *testing.F) {
	f.Add(uint8(0), uint64(1), uint64(0), uint64(1<<60), ^uint64(0), uint64(0x0FFFFFFFFFFFFFFF))
	f.Add(uint8(5), uint64(77), uint64(0x123456789abcdef), uint64(0), uint64(0), uint64(0))
	f.Fuzz(func(t *testing.T, which uint8, h, a, b, c, d uint64) {
		kinds := Kinds()
		kind := kinds[int(h%uint64(len(kinds)))]
		params := LegalParams(kind)
		g, err := NewGeometry(kind, params[int(which)%len(params)], 5)
		if err != nil {
			t.Fatal(err)
		}
		tab := NewTable(g)
		region := make([]uint64, g.RegionBytes/8)
		used := uint64(LineBits(kind, g.Params)) * g.Lines
		for i := range region {
			region[i] = [4]uint64{a, b, c, d}[i%4] + uint64(i)*d
			if at := 64 * uint64(i); at+64 > used { // after the last line
				region[i] &= 1<<(max(used, at)-at) - 1
			}
		}
		v := &View{Region: region, Stash: make([]uint64, StashWords), Runtime: make([]uint64, RuntimeWords)}
		_, _, bad := tab.CheckLines(region, 0, 5)
		it := tab.Split(h)
		var l Line
		tab.Load(region, it.Line, &l)
		if o := tab.Probe(&l, it.Line); !(o.Match >= 0 && o.Match <= 1 && o.Second >= 0 && o.Second <= 1 && o.Away >= 0 && o.Away <= 100) {
			t.Fatalf("%+v", o)
		}
		copies := tab.Copies(&l, it)
		if copies > 0 && !Contains(tab, v, h) {
			t.Fatal("copies, but not found")
		}
		victimsOf(tab, &l, it, true)
		victimsOf(tab, &l, it, false)
		if tab.Place(&l, it, nil) && bad == nil {
			if got := tab.Copies(&l, it); got != copies+1 {
				t.Fatalf("%d copies after placing one more than %d", got, copies)
			}
			tab.Store(region, it.Line, &l)
			if !Contains(tab, v, h) {
				t.Fatal("placed, but not found")
			}
		}
	})
}

// victimsOf gives all victims, or a few.
func victimsOf(tab Table, l *Line, it Item, all bool) []Item {
	victims, more := tab.Victims(nil, l, it, all)
	if all && more {
		panic("there are more victims than all")
	}
	return victims
}
