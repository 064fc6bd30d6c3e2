package compact

import (
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/layouttest"
)

// eachCompact runs a test for all tables of Compact in layouttest.
func eachCompact(t *testing.T, lines uint64, f func(t *testing.T, tab *table)) {
	layouttest.Each(t, lines, func(t *testing.T, tab layout.Table) {
		if c, ok := tab.(*table); ok {
			f(t, c)
		}
	})
}

// picture makes a line bit by bit, as the picture in the essay of package layout shows it.
func (t *table) picture(home, guests []uint32, overflow uint64) (l layout.Line) {
	slices.Sort(home)
	slices.Sort(guests)
	set := func(bit uint64) { l[bit/64] |= 1 << (bit % 64) }
	number := func(at, bits, value uint64) {
		for bit := range bits {
			if value>>bit&1 != 0 {
				set(at + bit)
			}
		}
	}
	at, i := uint64(0), 0
	for q := range uint32(t.quotients) {
		at++ // a 0 bit
		for ; i < len(home) && home[i]>>t.r == q; i++ {
			set(at)
			at++
			number(t.b+t.quotients+1+uint64(i)*t.r, t.r, uint64(home[i]))
		}
	}
	for i, fp := range guests {
		number(492-uint64(i+1)*t.guest, t.guest, uint64(fp))
	}
	number(492, 4, uint64(len(guests)))
	number(496, 16, overflow)
	return l
}

// someFingerprint returns any fingerprint, an extreme one, or one of five with the same quotient.
func (t *table) someFingerprint(rng *rand.Rand) uint32 {
	all, run := uint32(t.fingerprints), uint32(1)<<t.r
	switch rng.IntN(3) {
	case 0:
		return rng.Uint32N(all)
	case 1:
		return []uint32{0, 1, run - 1, run, all - 1, all - run}[rng.IntN(6)]
	}
	return uint32(t.quotients/2)<<t.r | rng.Uint32N(5)
}

// TestCompactImage fills and empties a line at random, with items at home and guests. Whatever came
// before, the line must equal the picture of its items. Each operation must list exactly the words
// that it changed, and guard them unless only overflow bits changed. Looks must find the items.
func TestCompactImage(t *testing.T) {
	eachCompact(t, 100, func(t *testing.T, tab *table) {
		rng := rand.New(rand.NewPCG(tab.r, 1))
		var l layout.Line
		var all [buckets][]uint32
		overflow, refused := uint64(0), [buckets]int{}
		for step := range 6000 {
			before := l
			var s layout.Stores
			it, guarded := layout.Item{Line: 7, Fp: tab.someFingerprint(rng)}, true
			if rng.IntN(4) == 0 {
				it.Bucket = aGuest
			}
			in := &all[it.Bucket]
			switch n := rng.IntN(100); {
			case n == 0:
				if tab.SetOverflow(&l, it, &s); it.Bucket == atHome {
					overflow |= 1 << (it.Fp % 16)
				}
				guarded = false
			case n == 1:
				tab.ClearOverflow(&l, it, &s)
				overflow &^= 1 << (it.Fp % 16)
				guarded = false
			case n < 50 && step/300%2 == 0 || n < 20:
				i := slices.Index(*in, it.Fp)
				if removed := tab.Remove(&l, it, &s); removed != (i >= 0) {
					t.Fatalf("removed %+v: %t", it, removed)
				}
				if i >= 0 {
					*in = slices.Delete(*in, i, i+1)
				}
			default:
				home, guests := len(all[atHome]), len(all[aGuest])
				if it.Bucket == aGuest {
					guests++
				} else {
					home++
				}
				room := home <= int(tab.b) && guests <= 15 && home*int(tab.r)+guests*int(tab.guest) <= 492-int(tab.b+tab.quotients+1)
				if placed := tab.Place(&l, it, &s); placed != room {
					t.Fatalf("placed: %t, with %d at home and %d guests", placed, home, guests)
				} else if placed {
					*in = append(*in, it.Fp)
				} else {
					refused[it.Bucket]++
				}
			}
			if want := tab.picture(all[atHome], all[aGuest], overflow); l != want {
				t.Fatalf("%x: the image is\n%016x, not\n%016x", all, l, want)
			}
			listed := before
			for i := range s.Len() {
				word, isGuarded := s.At(i)
				if listed[word] == l[word] {
					t.Fatalf("word %d is listed, but has not changed", word)
				}
				if listed[word] = l[word]; isGuarded != guarded {
					t.Fatalf("word %d is guarded: %t", word, isGuarded)
				}
			}
			if listed != l {
				t.Fatal("a word that changed is not listed")
			}
			it = layout.Item{Line: 7, Bucket: uint32(rng.IntN(buckets)), Fp: tab.someFingerprint(rng)}
			tab.mustHave(t, &l, it, all, overflow)
		}
		if refused[atHome] == 0 || refused[aGuest] == 0 {
			t.Errorf("items were refused %d times at home, and %d times as guests", refused[atHome], refused[aGuest])
		}
	})
}

// mustHave compares what the table says about a line and an item with all, the items in the line.
func (t *table) mustHave(tb testing.TB, l *layout.Line, it layout.Item, all [buckets][]uint32, overflow uint64) {
	tb.Helper()
	n := 0
	for _, fp := range all[it.Bucket] {
		if fp == it.Fp {
			n++
		}
	}
	region := make([]uint64, 8*t.lines)
	layout.Store(t, region, it.Line, l)
	for _, look := range []func() (found, beyond bool){
		func() (found, beyond bool) { return t.Look(l[:], it) },
		func() (found, beyond bool) {
			return t.LookAt(func(word uint64) uint64 { return region[word-layout.WordRegion] }, it)
		},
	} {
		found, beyond := look()
		away := it.Bucket == atHome && overflow>>(it.Fp%16)&1 != 0
		if found != (n > 0) || beyond != away || layout.Copies(t, *l, it) != n {
			tb.Fatalf("%d of %+v: found %t, beyond %t, %d copies", n, it, found, beyond, layout.Copies(t, *l, it))
		}
	}
	home, guests := len(all[atHome]), len(all[aGuest])
	bits := 492 - int(t.b+t.quotients+1) - home*int(t.r) - guests*int(t.guest)
	for bucket, room := range [buckets]int{min(bits/int(t.r), int(t.b)-home), min(bits/int(t.guest), 15-guests)} {
		if placed := *l; t.Place(&placed, layout.Item{Line: it.Line, Bucket: uint32(bucket)}, nil) != (room > 0) {
			tb.Fatalf("with %d at home and %d guests there is room for %d in bucket %d", home, guests, room, bucket)
		}
	}
	victims := map[layout.Item]bool{}
	for _, v := range t.Victims(nil, l, it) {
		victims[v] = true
		less := *l
		if !t.Remove(&less, v, nil) || !t.Place(&less, it, nil) {
			tb.Fatalf("without %+v there is no room for %+v", v, it)
		}
	}
	for bucket := range all {
		for _, fp := range all[bucket] {
			less, v := *l, layout.Item{Line: it.Line, Bucket: uint32(bucket), Fp: fp}
			if t.Remove(&less, v, nil); t.Place(&less, it, nil) != victims[v] {
				tb.Fatalf("%+v is a victim for %+v: %t", v, it, victims[v])
			}
		}
	}
}

// TestCompactCheck: the checks find damage in a line (F10): more items than there is room for, an
// impossible quotient, fingerprints out of order, bits where there is no item. They also find a guest
// whose overflow bit is not set (F11).
func TestCompactCheck(t *testing.T) {
	const lines, line = 100, 50
	eachCompact(t, lines, func(t *testing.T, tab *table) {
		rng := rand.New(rand.NewPCG(tab.r, 3))
		refused := func(l layout.Line) bool {
			region := make([]uint64, lines*8)
			layout.Store(tab, region, line, &l)
			_, at, err := tab.CheckLines(region, 0, lines)
			if err != nil && at != line {
				t.Fatalf("line %d: %v", at, err)
			}
			return err != nil
		}
		unled := func(l layout.Line, but uint64) bool {
			region := make([]uint64, lines*8)
			layout.Store(tab, region, line, &l)
			for i := range guestsOf(&l) {
				if home := tab.Alternate(layout.Item{Line: line, Bucket: aGuest, Fp: uint32(tab.guestAt(&l, i))}); i != but {
					layout.LineAt(region, home.Line)[lastWord] |= overflowBit(uint64(home.Fp))
				}
			}
			at, err := tab.CheckBits(region, 0, lines)
			return err != nil && at == line
		}
		for n := range int(tab.b) + 1 {
			home := make([]uint32, n)
			for i := range home {
				home[i] = tab.someFingerprint(rng)
			}
			var guests []uint32
			for len(guests) < 15 && tab.unused(uint64(n), uint64(len(guests)+1)) >= 0 && rng.IntN(6) > 0 {
				guests = append(guests, tab.someFingerprint(rng))
			}
			l := tab.picture(home, guests, rng.Uint64())
			if refused(l) || unled(l, 15) || len(guests) == 1 && !unled(l, 0) {
				t.Fatalf("%x and %x: refused: %t", home, guests, refused(l))
			}
			// A line with a flipped bit is refused, unless it is the image of other items.
			for bit := range uint64(512) {
				flipped := l
				flipped[bit/64] ^= 1 << (bit % 64)
				var got [maxSlots]uint32
				m, err := tab.slots(&flipped, &got)
				var others []uint32
				for i := range guestsOf(&flipped) {
					others = append(others, uint32(tab.guestAt(&flipped, i)))
				}
				image := err == nil && tab.unused(uint64(m), uint64(len(others))) >= 0 && slices.IsSorted(others) &&
					flipped == tab.picture(slices.Clone(got[:m]), others, flipped[7]>>48)
				if refused(flipped) == image {
					t.Fatalf("%x and %x with bit %d: refused: %t", home, guests, bit, !image)
				}
			}
		}
		spoils := map[string]func(l *layout.Line){
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
			"guests in the wrong order": func(l *layout.Line) {
				layout.PutBits(l[:], guestsEnd-tab.guest, tab.guest, 6)
				layout.PutBits(l[:], guestsEnd-2*tab.guest, tab.guest, 5)
				l[lastWord] += 2 << (guestsEnd % 64)
			},
		}
		if fp := tab.fingerprints; fp < 1<<tab.guest {
			spoils["a guest of no quotient"] = func(l *layout.Line) {
				layout.PutBits(l[:], guestsEnd-tab.guest, tab.guest, fp)
				l[lastWord] += 1 << (guestsEnd % 64)
			}
		}
		for name, spoil := range spoils {
			l := tab.picture([]uint32{1, 1 << tab.r, 1 << tab.r}, nil, 0)
			if spoil(&l); !refused(l) {
				t.Errorf("%s is not refused", name)
			}
		}
	})
}

// TestSelectBit selects every 1 bit of random words.
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

// TestDirections: a guest is never in its home line. Each overflow bit of a line stands for one other
// line; in a table of many lines, no two bits stand for the same line.
func TestDirections(t *testing.T) {
	for _, lines := range []uint64{1, 2, 3, 17, 100, 1597, 1598, 1 << 30} {
		eachCompact(t, lines, func(t *testing.T, tab *table) {
			for _, line := range []uint64{0, lines / 2, lines - 1} {
				seen := map[uint64]bool{}
				for fp := range uint32(64) {
					home := layout.Item{Line: line, Fp: fp}
					away := tab.Alternate(home)
					if lines == 1 {
						if away != home {
							t.Fatalf("%+v is elsewhere in the only line", away)
						}
						continue
					}
					if away.Line == line || away.Line >= lines || !tab.IsGuest(away) || tab.Alternate(away) != home || tab.Class(away) != tab.Class(home) || tab.Class(home) != layout.Class(home) {
						t.Fatalf("in %d lines, the alternate of %+v is %+v", lines, home, away)
					}
					if again := tab.Alternate(layout.Item{Line: line, Fp: fp ^ 16}); again.Line != away.Line || !tab.SameBits(fp, again.Fp) {
						t.Fatalf("with one direction, items go to %+v and %+v", away, again)
					}
					seen[away.Line] = true
				}
				if lines >= 1598 && len(seen) != directions {
					t.Errorf("%d lines for %d directions", len(seen), directions)
				}
			}
			for fp := range uint64(directions) {
				if mask := overflowBit(fp); bits.OnesCount64(mask) != 1 || bits.TrailingZeros64(mask) < 48 {
					t.Errorf("%#x is no overflow bit", mask)
				}
			}
		})
	}
}

// TestMakeBits: MakeBits sets the overflow bits that the guests and the stash need, and no others.
func TestMakeBits(t *testing.T) {
	const lines = 200
	eachCompact(t, lines, func(t *testing.T, tab *table) {
		rng := rand.New(rand.NewPCG(tab.r, 6))
		v := layouttest.View(tab)
		need := [lines]uint64{}
		for i := range 600 {
			it := tab.Split(rng.Uint64())
			if i < 20 {
				if !layout.StashAdd(v.Stash, tab.Class(it), layouttest.Into(v.Stash)) {
					t.Fatal("the stash is full")
				}
			} else if away := tab.Alternate(it); !tab.Place(layout.LineAt(v.Region, away.Line), away, nil) {
				continue
			}
			need[it.Line] |= overflowBit(uint64(it.Fp))
		}
		for line := range uint64(lines) {
			layout.LineAt(v.Region, line)[lastWord] ^= rng.Uint64() >> 48 << 48
		}
		store := func(word, value uint64) { v.Region[word] = value }
		tab.MakeBits(v, 0, lines/3, store)
		tab.MakeBits(v, lines/3, lines, store)
		tab.MakeBits(v, 0, lines, func(word, _ uint64) { t.Fatalf("word %d changes again", word) })
		for line := range uint64(lines) {
			l := layout.LineAt(v.Region, line)
			if got := l[lastWord] >> 48 << 48; got != need[line] {
				t.Fatalf("line %d has the bits %#x, not %#x", line, got, need[line])
			}
			for _, away := range tab.Absent(nil, l, line) {
				if home := tab.Alternate(away); home.Line != line || !tab.IsGuest(away) || need[line]&overflowBit(uint64(home.Fp)) == 0 {
					t.Fatalf("line %d has %+v as an absent item", line, away)
				}
			}
		}
	})
}
