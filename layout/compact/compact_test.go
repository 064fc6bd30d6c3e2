package compact

import (
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/layouttest"
)

// eachCompact runs a test for every r.
func eachCompact(t *testing.T, lines uint64, f func(t *testing.T, tab *table)) {
	layouttest.Each(t, lines, func(t *testing.T, tab layout.Table) {
		if c, ok := tab.(*table); ok {
			f(t, c)
		}
	})
}

// picture makes the image of a line bit by bit, as the picture says.
func (t *table) picture(fps []uint32, overflow uint64) (l layout.Line) {
	slices.Sort(fps)
	set := func(bit uint64) { l[bit/64] |= 1 << (bit % 64) }
	at, i := uint64(0), 0
	for q := range uint32(64) {
		at++ // a bit 0
		for ; i < len(fps) && fps[i]>>t.r == q; i++ {
			set(at)
			at++
			for bit := range t.r {
				if fps[i]>>bit&1 != 0 {
					set(65 + t.b + uint64(i)*t.r + bit)
				}
			}
		}
	}
	for bit := range t.v {
		if overflow>>bit&1 != 0 {
			set(512 - t.v + bit)
		}
	}
	return l
}

// someFingerprint gives one of few quotients and remainders, or any one.
func (t *table) someFingerprint(rng *rand.Rand) uint32 {
	switch rng.IntN(3) {
	case 0:
		return rng.Uint32N(1 << t.f)
	case 1:
		return []uint32{0, 1, 1<<t.r - 1, 1 << t.r, 1<<t.f - 1, 1<<t.f - 1<<t.r}[rng.IntN(6)]
	}
	return 37<<t.r | rng.Uint32N(5)
}

// TestCompactImage fills and empties a line at random. It has the image that the
// picture gives for what is in it, whatever came before; its words are all listed that
// changed, and all guarded but for overflow bits; and a look finds what is in it.
func TestCompactImage(t *testing.T) {
	eachCompact(t, 1, func(t *testing.T, tab *table) {
		rng := rand.New(rand.NewPCG(tab.r, 1))
		var l layout.Line
		var fps []uint32
		overflow := uint64(0)
		for step := range 6000 {
			before := l
			var s layout.Stores
			it, slots := layout.Item{Fp: tab.someFingerprint(rng)}, true
			switch n := rng.IntN(100); {
			case n == 0 && step%50 == 0:
				tab.SetOverflow(&l, it, &s)
				overflow |= tab.overflowBits(uint64(it.Fp)) >> (64 - tab.v)
				slots = false
			case n < 50 && step/300%2 == 0 || n < 20:
				i := slices.Index(fps, it.Fp)
				if removed := tab.Remove(&l, it, &s); removed != (i >= 0) {
					t.Fatalf("removed %#x: %t", it.Fp, removed)
				}
				if i >= 0 {
					fps = slices.Delete(fps, i, i+1)
				}
			default:
				if placed := tab.Place(&l, it, &s); placed != (len(fps) < int(tab.b)) {
					t.Fatalf("placed: %t, with %d items", placed, len(fps))
				} else if placed {
					fps = append(fps, it.Fp)
				}
			}
			if want := tab.picture(fps, overflow); l != want {
				t.Fatalf("%x: the image is\n%016x, not\n%016x", fps, l, want)
			}
			listed := before
			for i := range s.Len() {
				word, guarded := s.At(i)
				if listed[word] == l[word] {
					t.Fatalf("word %d is listed, and has not changed", word)
				}
				if listed[word] = l[word]; guarded != slots {
					t.Fatalf("word %d is guarded: %t", word, guarded)
				}
			}
			if listed != l {
				t.Fatal("a word that changed is not listed")
			}
			it = layout.Item{Fp: tab.someFingerprint(rng)}
			n := 0
			for _, fp := range fps {
				if fp == it.Fp {
					n++
				}
			}
			found, beyond := tab.look(&l, uint64(it.Fp))
			if mask := tab.overflowBits(uint64(it.Fp)) >> (64 - tab.v); found != (n > 0) || !found && beyond != (overflow&mask == mask) || tab.Copies(&l, it) != n || tab.Free(&l, 0) != tab.b-uint64(len(fps)) {
				t.Fatalf("%d of %#x: found %t, beyond %t, %d copies", n, it.Fp, found, beyond, tab.Copies(&l, it))
			}
			var got []uint32
			for _, v := range layouttest.Victims(tab, &l, it, true) {
				got = append(got, v.Fp)
			}
			if !slices.Equal(got, fps) { // both are sorted
				t.Fatalf("%x, not %x", got, fps)
			}
		}
	})
}

// TestCompactFill: a line that is filled at once is one that was filled item by item,
// and what has no room is given back.
func TestCompactFill(t *testing.T) {
	eachCompact(t, 3, func(t *testing.T, tab *table) {
		rng := rand.New(rand.NewPCG(tab.r, 2))
		for n := range 3 * int(tab.b) {
			hashes := make([]uint64, n)
			for i := range hashes {
				hashes[i] = 1<<64/3 + 1 + rng.Uint64N(1<<64/3) // of line 1
				if rng.IntN(4) == 0 {
					hashes[i] = hashes[rng.IntN(i+1)]
				}
			}
			slices.Sort(hashes)
			var one, all layout.Line
			var beyond []uint64
			for _, h := range hashes {
				if !tab.Place(&one, tab.Split(h), nil) {
					beyond = append(beyond, h)
				}
			}
			first := []uint64{7}
			if got := tab.Fill(&all, hashes, first); all != one || !slices.Equal(got[1:], beyond) {
				t.Fatalf("%d items: %016x, not %016x, and %d for elsewhere, not %d", n, all, one, len(got)-1, len(beyond))
			}
		}
	})
}

// TestCompactCheck finds what cannot stand in a line (F10): more items than slots, a
// quotient that is not, fingerprints that fall, a remainder where there is no item.
func TestCompactCheck(t *testing.T) {
	eachCompact(t, 3, func(t *testing.T, tab *table) {
		rng := rand.New(rand.NewPCG(tab.r, 3))
		refused := func(l layout.Line) bool {
			region := make([]uint64, 3*8)
			tab.Store(region, 1, &l)
			_, line, err := tab.CheckLines(region, 0, 3)
			if err != nil && line != 1 {
				t.Fatalf("line %d: %v", line, err)
			}
			return err != nil
		}
		for n := range int(tab.b) + 1 {
			fps := make([]uint32, n)
			for i := range fps {
				fps[i] = tab.someFingerprint(rng)
			}
			l := tab.picture(fps, rng.Uint64())
			if refused(l) {
				t.Fatalf("%x is refused", fps)
			}
			// A bit that is not what it was gives a line that is refused, or that is
			// the image of something else.
			for bit := range uint64(512) {
				flipped := l
				flipped[bit/64] ^= 1 << (bit % 64)
				var got [maxSlots]uint32
				m, err := tab.slots(&flipped, &got)
				image := err == nil && flipped == tab.picture(slices.Clone(got[:m]), flipped[7]>>(64-tab.v))
				if refused(flipped) == image {
					t.Fatalf("%x with bit %d: refused: %t", fps, bit, !image)
				}
			}
		}
		for name, spoil := range map[string]func(l *layout.Line){
			"a count before the first quotient": func(l *layout.Line) { l[0] |= 1 },
			"a count after the last quotient":   func(l *layout.Line) { bit := tab.counts - 1; l[bit/64] |= 1 << (bit % 64) },
			"too many items": func(l *layout.Line) {
				for bit := uint64(1); bit < tab.counts; bit++ {
					l[bit/64] |= 1 << (bit % 64)
				}
			},
			"a remainder of no item": func(l *layout.Line) { layout.PutBits(l[:], tab.counts+3*tab.r, tab.r, 1) },
			"the wrong order": func(l *layout.Line) {
				layout.PutBits(l[:], tab.counts+1*tab.r, tab.r, 2)
				layout.PutBits(l[:], tab.counts+2*tab.r, tab.r, 1)
			},
		} {
			l := tab.picture([]uint32{1, 1 << tab.r, 1 << tab.r}, 0)
			if spoil(&l); !refused(l) {
				t.Errorf("%s is not refused", name)
			}
		}
	})
}

// TestSelectBit, for every bit of random words.
func TestSelectBit(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	for range 1000 {
		x := rng.Uint64() & rng.Uint64()
		if rng.IntN(2) == 0 {
			x = ^x
		}
		for k, rest := uint64(0), x; rest != 0; k, rest = k+1, rest&(rest-1) {
			if at := selectBit(x, k); at != uint64(bits.TrailingZeros64(rest)) {
				t.Fatalf("bit %d of %#x is at %d", k, x, at)
			}
		}
	}
}

// TestCompactSlots does the sum again that gave compactSlots: of all numbers of slots,
// the one with the least bits a key more than log2(1/rate), at 98 % load, among those
// with second lines for at most a quarter of the absent keys. It measures second
// lines, and items away from home, in tables where an item goes to its home line,
// else to its alternate line, else takes the place of one that has room elsewhere.
func TestCompactSlots(t *testing.T) {
	const load, lines, most, noise = 0.98, 2000, 0.25, 0.01
	for r := 4; r <= 16; r++ {
		if testing.Short() && r%6 != 1 {
			continue
		}
		excess := func(s int) (bits, second float64) {
			p := layout.Params{FingerprintBits: quotientBits + r, BucketSize: s}
			o := overflowOf(newTable(p, lines), load)
			return 512/(float64(s)*load) - math.Log2(1/o.Rate()), o.Second
		}
		s := slotsOf[r]
		chosen, second := excess(s)
		if second > most {
			t.Errorf("r=%d: %d slots, and %.3f second lines", r, s, second)
		}
		for other := (lineBits-quotients-1)/(r+1) - 3; lineBits-quotients-1-other*(r+1) >= 12; other++ {
			bits, second := excess(other)
			t.Logf("r=%d, %d slots, %d overflow bits: %.3f bits more than log2(1/rate), %.3f second lines", r, other, lineBits-quotients-1-other*(r+1), bits, second)
			if second <= most && bits < chosen-noise {
				t.Errorf("r=%d: with %d slots %.3f bits more, with %d slots %.3f", r, s, chosen, other, bits)
			}
		}
	}
}

// overflowOf fills a table, and tells what lookups of absent keys meet.
func overflowOf(tab *table, load float64) (o layout.Overflow) {
	rng := rand.New(rand.NewPCG(tab.r, tab.b))
	all := make([]layout.Line, tab.lines)
	n := int(float64(tab.lines*tab.b) * load)
	homes := make([]layout.Item, n)
	put := func(it layout.Item) bool { return tab.Place(&all[it.Line], it, nil) }
	away := func(it layout.Item) { tab.SetOverflow(&all[it.Line], it, nil) }
	replace := func(it layout.Item) bool {
		for _, victim := range layouttest.Victims(tab, &all[it.Line], it, true) {
			if put(tab.Alternate(victim)) {
				away(victim)
				return tab.Remove(&all[it.Line], victim, nil) && put(it)
			}
		}
		return false
	}
	for i := range homes {
		it := tab.Split(rng.Uint64())
		other := tab.Alternate(it)
		homes[i] = it
		if put(it) {
			continue
		}
		if put(other) {
			away(it)
			continue
		}
		if replace(it) {
			continue
		}
		away(it)
		replace(other)
	}
	for i := range all {
		met := tab.Probe(&all[i], uint64(i))
		o.Match += met.Match / float64(tab.lines)
		o.Second += met.Second / float64(tab.lines)
	}
	for _, it := range homes {
		if tab.Copies(&all[it.Line], it) == 0 {
			o.Away += 1 / float64(n)
		}
	}
	return o
}

// TestCompactZero: fingerprint 0 is one like any other, in a line and in the stash.
func TestCompactZero(t *testing.T) {
	eachCompact(t, 5, func(t *testing.T, tab *table) {
		v := &layout.View{Region: make([]uint64, 5*8), Stash: make([]uint64, layout.StashWords), Runtime: make([]uint64, layout.RuntimeWords)}
		h := uint64(1<<64/5) + 1 // the first one of line 1
		home := tab.Split(h)
		if home != (layout.Item{Line: 1}) || !tab.Legal(home) || layout.Contains(tab, v, h) {
			t.Fatalf("%+v", home)
		}
		l := layout.LineAt(v.Region, 1)
		for n := 1; n <= 3; n++ {
			if !tab.Place(l, home, nil) || tab.Copies(l, home) != n || !layout.Contains(tab, v, h) {
				t.Fatalf("%d copies, of %d", tab.Copies(l, home), n)
			}
		}
		for n := 2; n >= 0; n-- {
			if !tab.Remove(l, home, nil) || tab.Copies(l, home) != n || layout.Contains(tab, v, h) != (n > 0) {
				t.Fatalf("%d copies, of %d", tab.Copies(l, home), n)
			}
		}
		if *l != (layout.Line{}) || tab.Remove(l, home, nil) {
			t.Fatal("more is left, or was taken, than was put in")
		}
		c := tab.Class(home)
		if !layout.StashAdd(v.Stash, c, layouttest.Into(v.Stash)) || layout.Contains(tab, v, h) {
			t.Fatal("found without overflow bits")
		}
		if _, _, err := layout.CheckStash(tab, v); err == nil {
			t.Fatal("an entry without overflow bits is accepted")
		}
		tab.SetOverflow(l, home, nil)
		if _, items, err := layout.CheckStash(tab, v); err != nil || items != 1 || !layout.Contains(tab, v, h) {
			t.Fatalf("%d items in the stash, %v", items, err)
		}
		if !layout.StashRemove(v.Stash, c, layouttest.Into(v.Stash)) || layout.Contains(tab, v, h) || layout.Lookup(tab, v.At, h) {
			t.Fatal("an item is left in the stash")
		}
	})
}

// TestOverflowPairs: of each r, every number of a pair is two bits among the v, and each
// bit is about as often one of them as any other.
func TestOverflowPairs(t *testing.T) {
	eachCompact(t, 1, func(t *testing.T, tab *table) {
		times := make([]int, 64)
		for i, mask := range tab.masks {
			if bits.OnesCount64(mask) != 2 || bits.TrailingZeros64(mask) < int(64-tab.v) {
				t.Errorf("pair %d is %#x, of the high %d bits", i, mask, tab.v)
			}
			for o := range times {
				times[o] += int(mask >> o & 1)
			}
		}
		times = times[64-tab.v:]
		if least, most := slices.Min(times), slices.Max(times); most-least > 3 {
			t.Errorf("a bit is in %d to %d pairs", least, most)
		}
	})
}

// TestPart: a line that was full is full, the items that it has and those that left are those
// that were there, the ones that were to stay stay, and fewer lookups of absent keys go on, by
// a sixth to a third, than where each item in turn is one that sets the fewest bits.
func TestPart(t *testing.T) {
	eachCompact(t, 1000, func(t *testing.T, tab *table) {
		rng := rand.New(rand.NewPCG(tab.r, 5))
		inTurn, together := 0.0, 0.0
		second := func(l *layout.Line) float64 { return tab.Probe(l, 0).Second }
		var c layout.Crowd
		for range 300 {
			line := rng.Uint64N(tab.lines)
			most, kinds, full := 8, uint32(1)<<tab.f, rng.IntN(4) == 0
			if full { // as many as there may be, all of which may leave, and few alike, or many
				most, kinds = int(tab.b), 1<<rng.Uint64N(tab.f)
			}
			items := make([]layout.Item, int(tab.b)+rng.IntN(most)+1)
			for i := range items {
				items[i] = layout.Item{Line: line, Fp: rng.Uint32N(kinds) * 37 % (1 << tab.f)}
			}
			n := len(items) - int(tab.b)
			var l layout.Line
			if rng.IntN(2) == 0 {
				tab.SetOverflow(&l, items[0], nil)
			}
			one := l
			var came []uint64
			for i, it := range items {
				if !tab.Place(&l, it, nil) {
					came = append(came, tab.Hash(items[i]))
				}
			}
			slices.Sort(came)
			tab.Gather(&c, &l, came)
			stay := map[uint32]bool{}
			var may []layout.Item
			for i, other := range c.Others {
				if it := (layout.Item{Line: line, Fp: c.Fps[i]}); other != tab.Alternate(it).Line {
					t.Fatalf("the other line of %v is %d", it, other)
				} else if room := rng.IntN(layout.MostRoom + 2); room > 0 || full {
					c.Rooms[i] = uint8(min(room, layout.MostRoom))
					if full {
						c.Rooms[i] = layout.MostRoom
					}
					may = append(may, it)
				} else {
					stay[it.Fp] = true
				}
			}
			if len(may) < n {
				continue
			}
			for left := may; len(left) > len(may)-n; left = left[1:] {
				slices.SortStableFunc(left, func(a, b layout.Item) int { return tab.NewMarks(&one, a) - tab.NewMarks(&one, b) })
				tab.SetOverflow(&one, left[0], nil)
			}
			all := tab.Part(&c, &l)
			if len(all) != n {
				t.Fatalf("%d items left, of %d more than there are slots", len(all), n)
			}
			var fps [maxSlots]uint32
			held, err := tab.slots(&l, &fps)
			if err != nil {
				t.Fatal(err)
			}
			var have, were []uint32
			have = append(have, fps[:held]...)
			for _, h := range all {
				it := tab.Alternate(tab.Split(h))
				if it.Line != line || !tab.Overflowed(&l, it) {
					t.Fatalf("%v left without its overflow bits in line %d", it, line)
				}
				have = append(have, it.Fp)
			}
			for _, it := range items {
				were = append(were, it.Fp)
				if n := tab.Copies(&l, it); stay[it.Fp] && n == 0 {
					t.Fatalf("%v was to stay", it)
				}
			}
			slices.Sort(have)
			slices.Sort(were)
			if !slices.Equal(have, were) {
				t.Fatalf("%v became %v", were, have)
			}
			if !full {
				inTurn, together = inTurn+second(&one), together+second(&l)
			}
		}
		if together > 0.87*inTurn {
			t.Errorf("of lookups go on, as a sum, %.3f, and %.3f where each chooses for itself", together, inTurn)
		}
	})
}
