package all_test

import (
	"encoding/binary"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/layouttest"
	"pgregory.net/rapid"
)

// TestItemsOfHashes: for any number of lines, Hash returns the lowest hash that Split maps to an item.
// Alternate is its own inverse, and keeps the class of an item.
func TestItemsOfHashes(t *testing.T) {
	for _, k := range layout.Kinds() {
		for _, p := range layouttest.Params(k) {
			rapid.Check(t, func(t *rapid.T) {
				most := mostLines(k, p)
				lines := rapid.OneOf(rapid.Uint64Range(1, most), rapid.Just(most)).Draw(t, "lines")
				g, err := layout.NewGeometry(k, p, lines)
				if err != nil {
					t.Fatal(err)
				}
				tab := layout.NewTable(g)
				h := rapid.OneOf(rapid.Uint64(), rapid.SampledFrom([]uint64{0, math.MaxUint64})).Draw(t, "hash")
				it := tab.Split(h)
				lowest, other := tab.Hash(it), tab.Alternate(it)
				if lowest > h || tab.Split(lowest) != it || lowest > 0 && tab.Split(lowest-1) == it {
					t.Fatalf("%+v of %#x, and %#x is not its lowest hash", it, h, lowest)
				}
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

// TestSelfAlternate finds items that have only one line, in tables of one, two and three lines, and
// looks them up in their line and in the stash.
func TestSelfAlternate(t *testing.T) {
	for _, lines := range []uint64{1, 2, 3} {
		layouttest.Each(t, lines, func(t *testing.T, tab layout.Table) {
			rng := rand.New(rand.NewPCG(3, lines))
			found := 0
			for range 1000 {
				h := rng.Uint64()
				it := tab.Split(h)
				if tab.Alternate(it).Line != it.Line {
					continue
				}
				found++
				v := &layout.View{Region: make([]uint64, lines*8), Stash: make([]uint64, layout.StashWords), Runtime: make([]uint64, layout.RuntimeWords)}
				if layout.Contains(tab, v, h) {
					t.Fatal("found in an empty table")
				}
				var l layout.Line
				layouttest.SetOverflow(tab, &l, it)
				layout.Store(tab, v.Region, it.Line, &l)
				if layout.Contains(tab, v, h) {
					t.Fatal("found in a table of overflow bits")
				}
				if !layout.StashAdd(v.Stash, tab.Class(it), layouttest.Into(v.Stash)) || !layout.Contains(tab, v, h) {
					t.Fatal("not found in the stash")
				}
			}
			if _, ok := tab.(layout.Hosts); found == 0 && (lines == 1 || !ok) {
				t.Errorf("no item has only one line in a table of %d", lines)
			}
		})
	}
}

// TestSplitIsUniform puts the lines and fingerprints of random hashes to a chi-squared test at six
// standard deviations.
func TestSplitIsUniform(t *testing.T) {
	layouttest.Each(t, 37, func(t *testing.T, tab layout.Table) {
		const n = 1 << 18
		rng := rand.New(rand.NewPCG(5, 6))
		lines, lows, highs := make([]int, 37), make([]int, 64), make([]int, 64)
		values := tab.Params().Fingerprints()
		least := uint64(1) // 0 is an empty slot
		if tab.Kind() == layout.Compact {
			least = 0
		}
		high := func(fp uint64) uint64 { return (fp - least) * 64 / values }
		for range n {
			it := tab.Split(rng.Uint64())
			lines[it.Line]++
			lows[it.Fp%64]++
			highs[high(uint64(it.Fp))]++
		}
		// The number of fingerprints may be no multiple of 64. This matters if there are few.
		of := map[string]*[64]float64{"low bits": {}, "high bits": {}}
		for fp := least; fp < least+values && fp < 1<<16; fp++ {
			of["low bits"][fp%64] += 1 / float64(min(values, 1<<16-least))
			of["high bits"][high(fp)] += 1 / float64(values)
		}
		if values >= 1<<16 {
			for i := range of["high bits"] {
				of["high bits"][i] = 1. / 64
			}
		}
		for name, counts := range map[string][]int{"lines": lines, "low bits": lows, "high bits": highs} {
			chi, freedom := 0.0, float64(len(counts)-1)
			for i, c := range counts {
				want := float64(n) / float64(len(counts))
				if name != "lines" {
					want = n * of[name][i]
				}
				if want == 0 && c > 0 {
					t.Errorf("%s: %d of value %d, which is impossible", name, c, i)
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

// FuzzLine: no content of a line makes a function of a table panic. In a line that passes the check,
// items can be placed and removed.
func FuzzLine(f *testing.F) {
	f.Add(uint8(0), uint64(1), uint64(0x0FFFFFFFFFFFFFFF), uint64(0), uint64(1<<60), ^uint64(0), uint64(0x0FFFFFFFFFFFFFFF), uint64(0), uint64(1<<60), ^uint64(0), uint64(0x0FFFFFFFFFFFFFFF))
	f.Add(uint8(5), uint64(77), uint64(0), uint64(0x123456789abcdef), uint64(0), uint64(0), uint64(0), uint64(0x123456789abcdef), uint64(0), uint64(0), uint64(0))
	compact, full, hashes := compactLine(f)
	damaged := full
	damaged[2]++
	lines := []layout.Line{full, damaged, {}}
	tab, _ := fuzzTable(f, compact, hashes[0])
	for gone := 4; gone < 16; gone += 2 { // lines with room, some overflow bits, and copies of one guest
		l := full
		for i, it := range tab.Items(nil, &full, 0) {
			if i < gone {
				tab.Remove(&l, it, nil)
			} else if i%4 == 0 {
				layouttest.SetOverflow(tab, &l, it)
			}
		}
		guest := tab.Alternate(tab.Split(hashes[0]))
		for range gone / 8 {
			tab.Place(&l, guest, nil)
		}
		lines = append(lines, l)
	}
	for _, h := range hashes {
		for _, l := range lines {
			f.Add(compact, h, uint64(0), l[0], l[1], l[2], l[3], l[4], l[5], l[6], l[7])
		}
	}
	f.Fuzz(func(t *testing.T, which uint8, h, step, w0, w1, w2, w3, w4, w5, w6, w7 uint64) {
		tab, g := fuzzTable(t, which, h)
		region := make([]uint64, g.RegionBytes/8)
		used := uint64(layout.LineBits(tab.Kind(), g.Params)) * g.Lines
		for i := range region {
			region[i] = [8]uint64{w0, w1, w2, w3, w4, w5, w6, w7}[i%8] + uint64(i)*step
			if at := 64 * uint64(i); at+64 > used { // after the last line
				region[i] &= 1<<(max(used, at)-at) - 1
			}
		}
		v := &layout.View{Region: region, Stash: make([]uint64, layout.StashWords), Runtime: make([]uint64, layout.RuntimeWords)}
		_, _, bad := tab.CheckLines(region, 0, 5)
		home := tab.Split(h)
		for _, it := range []layout.Item{home, tab.Alternate(home)} {
			var l layout.Line
			layout.Load(tab, region, it.Line, &l)
			if o := tab.Probe(&l, it.Line); !(o.Rate >= 0 && o.Rate <= 1 && o.Second >= 0 && o.Second <= 1) {
				t.Fatalf("%+v", o)
			}
			copies := layout.Copies(tab, l, it)
			if it == home && copies > 0 && !layout.Contains(tab, v, h) {
				t.Fatal("copies, but not found")
			}
			tab.Victims(nil, &l, it)
			if hosts, ok := tab.(hostsTable); ok {
				checkHosts(t, hosts, l, it)
			}
			before := classes(tab, &l, it.Line)
			if !tab.Place(&l, it, nil) || bad != nil {
				continue
			}
			if got := layout.Copies(tab, l, it); got != copies+1 {
				t.Fatalf("%d copies after placing one more than %d", got, copies)
			}
			if layout.Store(tab, region, it.Line, &l); it == home && !layout.Contains(tab, v, h) {
				t.Fatal("placed, but not found")
			}
			back := l
			if tab.Remove(&back, it, nil); !maps.Equal(before, classes(tab, &back, it.Line)) {
				t.Fatalf("%x becomes %x with %+v, and then %x without it", before, l, it, back)
			}
		}
		if hosts, ok := tab.(hostsTable); ok {
			hosts.MakeBits(v, 0, tab.Lines(), func(word, value uint64) { v.Region[word] = value })
			hosts.MakeBits(v, 0, tab.Lines(), func(word, value uint64) { t.Fatalf("word %d changes again, to %#x", word, value) })
			if line, err := hosts.CheckBits(v.Region, 0, tab.Lines()); err != nil {
				t.Fatalf("line %d: %v", line, err)
			}
		}
	})
}

// A hostsTable is a table whose lines keep guests apart.
type hostsTable interface {
	layout.Table
	layout.Hosts
}

// checkHosts checks what package layout says of layout.Hosts, for an item and a line of any content.
func checkHosts(t *testing.T, tab hostsTable, l layout.Line, it layout.Item) {
	tab.Leavers(nil, &l, it, true)
	tab.Leavers(nil, &l, it, false)
	before := l
	if tab.IsGuest(it) {
		if tab.SetOverflow(&l, it, nil); l != before {
			t.Fatalf("setting an overflow bit for guest %+v turns %x into %x", it, before, l)
		}
		_, n := tab.Related(&l, it)
		if placed := tab.Place(&l, it, nil); !placed {
			return
		}
		if like, more := tab.Related(&l, it); more != n+1 || like.Line != it.Line || !tab.IsGuest(like) || !tab.SameBits(like.Fp, it.Fp) {
			t.Fatalf("%d items like %+v (such as %+v), after adding one to %d", more, it, like, n)
		}
		return
	}
	had := layout.Overflowed(tab, &l, it)
	for _, set := range []bool{!had, had} {
		if set {
			tab.SetOverflow(&l, it, nil)
		} else {
			tab.ClearOverflow(&l, it, nil)
		}
		if set != layout.Overflowed(tab, &l, it) {
			t.Fatalf("set: %t, but a lookup says otherwise", set)
		}
	}
	if l != before {
		t.Fatalf("%x became %x when overflow bits were changed and changed back", before, l)
	}
}

// classes counts the items of a line by class.
func classes(tab layout.Table, l *layout.Line, line uint64) map[layout.Class]int {
	counts := map[layout.Class]int{}
	for _, it := range tab.Items(nil, l, line) {
		counts[tab.Class(it)]++
	}
	return counts
}

// fuzzTable returns the table of five lines that FuzzLine works on.
func fuzzTable(tb testing.TB, which uint8, h uint64) (layout.Table, layout.Geometry) {
	kinds := layout.Kinds()
	kind := kinds[int(h%uint64(len(kinds)))]
	params := layouttest.Params(kind)
	g, err := layout.NewGeometry(kind, params[int(which)%len(params)], 5)
	if err != nil {
		tb.Fatal(err)
	}
	return layout.NewTable(g), g
}

// compactLine returns a full line of Compact, because random words hardly ever form one; the number of
// its parameters in FuzzLine; and three hashes: of an item at home in it, a guest and an absent key.
func compactLine(tb testing.TB) (which uint8, line layout.Line, hashes []uint64) {
	image, _, g := layouttest.Image(tb, "compact-q41.mmf")
	which = uint8(slices.Index(layouttest.Params(layout.Compact), g.Params))
	kinds := layout.Kinds()
	rng := rand.New(rand.NewPCG(11, 12))
	for at := int64(0); at < g.RegionBytes; at += layout.LineBytes {
		for i := range line {
			line[i] = binary.LittleEndian.Uint64(image[layout.OffRegion+at+8*int64(i):])
		}
		var ofHome, ofGuest, ofAbsent uint64
		for range 1 << 16 {
			h := rng.Uint64()
			h += uint64(slices.Index(kinds, layout.Compact)) - h%uint64(len(kinds))
			tab, _ := fuzzTable(tb, which, h)
			switch it := tab.Split(h); {
			case layout.Copies(tab, line, it) > 0:
				ofHome = h
			case layout.Copies(tab, line, tab.Alternate(it)) > 0:
				ofGuest = h
			default:
				ofAbsent = h
			}
		}
		tab, _ := fuzzTable(tb, which, ofHome)
		if _, _, err := tab.CheckLines(slices.Repeat(line[:], 5), 0, 5); err == nil && ofHome != 0 && ofGuest != 0 {
			return which, line, []uint64{ofHome, ofGuest, ofAbsent}
		}
	}
	tb.Fatal("no line of the image has guests and is valid in a table of five lines")
	return
}

// mostLines returns the largest power of two that may be a file's number of lines.
func mostLines(k layout.Kind, p layout.Params) uint64 {
	for lines := uint64(1) << 39; ; lines /= 2 {
		if _, err := layout.NewGeometry(k, p, lines); err == nil {
			return lines
		}
	}
}
