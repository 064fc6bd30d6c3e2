package hashes

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
)

// A file is a file of hashes in memory.
type file struct {
	identity uint64
	pages    []Page
	check    uint32 // of the last page
}

func (f *file) write(number uint64, p *Page) error {
	for uint64(len(f.pages)) <= number {
		f.pages = append(f.pages, Page{})
	}
	f.pages[number] = *p
	return nil
}

// read returns the items of the base and the operations of the tail.
func (f *file) read() (h Header, base []Item, tail []Entry, err error) {
	pages := f.pages[0].PagesOfBase()
	if pages >= uint64(len(f.pages)) {
		return h, nil, nil, Corrupt(0, "the base does not end")
	}
	before := uint32(0)
	if pages > 0 {
		before = f.pages[pages].Check(pages)
	}
	if h, err = ReadHeader(&f.pages[0], f.identity, before); err != nil {
		return h, nil, nil, err
	}
	before = 0
	for n := range pages {
		if err := h.ReadBase(&f.pages[n+1], n+1, before, func(it Item) { base = append(base, it) }); err != nil {
			return h, nil, nil, err
		}
		before = f.pages[n+1].Check(n + 1)
	}
	at, ops := Place{f.identity, pages + 1, f.pages[0].Check(0)}, uint64(0)
	for at.Number < uint64(len(f.pages)) {
		if at, ops, err = ReadTail(&f.pages[at.Number], at, ops, func(e Entry) { tail = append(tail, e) }); err != nil {
			return h, nil, nil, err
		}
	}
	if at.Before != f.check {
		return h, nil, nil, Corrupt(at.Number-1, "the check is not that of the superblock")
	}
	return h, base, tail, nil
}

// newFile makes a file of some items and operations, the tail in parts.
func newFile(t testing.TB, items int, ages []Age, parts ...[]Entry) (f *file, base []Item) {
	t.Helper()
	rng := rand.New(rand.NewPCG(uint64(items), 7))
	f = &file{identity: 0x1D}
	for range items {
		base = append(base, Item{rng.Uint64() >> 1, rng.IntN(len(ages))})
	}
	slices.SortFunc(base, func(a, b Item) int {
		if a.Hash < b.Hash {
			return -1
		}
		return 1
	})
	b := NewBase(f.identity, ages, f.write)
	for _, it := range base {
		if err := b.Add(it); err != nil {
			t.Fatal(err)
		}
	}
	_, at, err := b.End()
	if err != nil {
		t.Fatal(err)
	}
	ops := uint64(0)
	for _, part := range parts {
		tail := NewTail(at, ops, f.write)
		for _, e := range part {
			if err := tail.Add(e.Kind, e.Hash, e.Time); err != nil {
				t.Fatal(err)
			}
		}
		if at, ops, err = tail.End(); err != nil {
			t.Fatal(err)
		}
	}
	f.check = at.Before
	return f, base
}

func operations(n int, from, step uint64) (all []Entry) {
	for i := range uint64(n) {
		all = append(all, Entry{Kind(i / 3 % 2), i * 0x9E3779B97F4A7C15, from + i*step})
	}
	return all
}

// TestRoundTrip: what was written is read, with a time that is less than a second before the
// right one, in as few pages as the essay says.
func TestRoundTrip(t *testing.T) {
	ages := []Age{{First: 1, Last: 5}, {First: 5, Last: 9}, {First: 9, Last: 9}}
	for _, items := range []int{0, 1, BaseItems - 1, BaseItems, BaseItems + 1, 3*BaseItems + 7} {
		for _, n := range []int{0, 1, tailEntries, tailEntries + 1, 2000} {
			for _, step := range []uint64{0, 1e8, 2e9} {
				one, two := operations(n, 5e9, step), operations(n/2, 3e9, step)
				f, base := newFile(t, items, ages, one, two)
				h, gotBase, gotTail, err := f.read()
				if err != nil {
					t.Fatal(err)
				}
				of := slices.Clone(ages)
				for _, it := range base {
					of[it.Age].Items++
				}
				if h.Items != uint64(items) || !slices.Equal(h.Ages, of) || !slices.Equal(gotBase, base) {
					t.Fatalf("%d items: %+v", items, h)
				}
				want := slices.Concat(one, two)
				if len(gotTail) != len(want) {
					t.Fatalf("%d operations of %d", len(gotTail), len(want))
				}
				for i, e := range gotTail {
					w := want[i]
					if e.Kind != w.Kind || e.Hash != w.Hash || e.Time > w.Time || w.Time-e.Time >= TimeStep {
						t.Fatalf("operation %d: %+v, was %+v", i, e, w)
					}
				}
				words := n // with its times
				if step == 2e9 {
					words = max(2*n-n/tailEntries-1, 0)
				}
				most := 1 + pagesOf(uint64(items)) + uint64(words/tailEntries+1+words/2/tailEntries+1)
				if uint64(len(f.pages)) > most {
					t.Errorf("%d items and %d operations a step of %d apart take %d pages, more than %d", items, n, step, len(f.pages), most)
				}
			}
		}
	}
}

func mustBreak(t *testing.T, f *file, what string) {
	t.Helper()
	_, _, _, err := f.read()
	e := new(layout.CorruptError)
	if !errors.As(err, &e) || e.Region != layout.RegionHashes || !strings.HasPrefix(e.Rule, "K1:") {
		t.Fatalf("%s: %v", what, err)
	}
}

// TestDamage covers K1: every bit of a page counts, and so does where the page is.
func TestDamage(t *testing.T) {
	make := func() *file {
		f, _ := newFile(t, BaseItems+100, []Age{{First: 1, Last: 2}, {First: 3, Last: 4}}, operations(tailEntries+9, 1e9, 1e8), operations(9, 9e9, 1))
		return f
	}
	f := make()
	for page := range f.pages {
		for bit := 0; bit < 64*PageWords; bit += 7 { // coprime to 64: every bit of a word, in some word
			f.pages[page][bit/64] ^= 1 << (bit % 64)
			mustBreak(t, f, "a flipped bit")
			f.pages[page][bit/64] ^= 1 << (bit % 64)
		}
	}
	for i := range f.pages {
		for j := range i {
			f.pages[i], f.pages[j] = f.pages[j], f.pages[i]
			mustBreak(t, f, "two pages swapped")
			f.pages[i], f.pages[j] = f.pages[j], f.pages[i]
		}
	}
	f.pages = f.pages[:len(f.pages)-1]
	mustBreak(t, f, "a page less")
	f = make()
	f.identity++
	mustBreak(t, f, "another file")
	other, _ := newFile(t, BaseItems+100, []Age{{First: 1, Last: 2}, {First: 3, Last: 4}}, operations(tailEntries+9, 2e9, 1e8), operations(9, 9e9, 1))
	f = make()
	f.pages[3] = other.pages[3]
	mustBreak(t, f, "a page of a copy that went another way")
}

// TestSigned covers the rest of K1: pages with the right check that say what cannot be.
func TestSigned(t *testing.T) {
	for name, change := range map[string]func(f *file){
		"out of order":     func(f *file) { f.pages[1][1], f.pages[1][2] = f.pages[1][2], f.pages[1][1] },
		"of no age":        func(f *file) { f.pages[1][baseAges] |= 63 },
		"a count":          func(f *file) { f.pages[1][0] -= 1 << countShift },
		"no operations":    func(f *file) { f.pages[2][0] &= checkMask },
		"operations twice": func(f *file) { f.pages[2][1]++ },
		"no kind":          func(f *file) { f.pages[2][tailKinds] |= 3 },
		"ages":             func(f *file) { f.pages[0][6] = MostAges + 1 },
		"pages":            func(f *file) { f.pages[0][3] += BaseItems },
		"version":          func(f *file) { f.pages[0][1]++ },
	} {
		f, _ := newFile(t, 9, []Age{{First: 1, Last: 2}}, operations(9, 1e9, 1))
		change(f)
		base := f.pages[1].sign(Place{f.identity, 1, 0}, 0)
		header := f.pages[0].sign(Place{f.identity, 0, base}, headerCheck)
		f.check = f.pages[2].sign(Place{f.identity, 2, header}, 0)
		mustBreak(t, f, name)
	}
}

func FuzzRead(f *testing.F) {
	whole, _ := newFile(f, BaseItems+1, []Age{{First: 1, Last: 2}}, operations(20, 1e9, 1e9))
	f.Add(0, 0, uint64(0))
	f.Add(1, 0, uint64(1)<<33)
	f.Add(3, 0, uint64(500)<<32)
	f.Fuzz(func(t *testing.T, page, word int, value uint64) {
		g := &file{whole.identity, slices.Clone(whole.pages), whole.check}
		p := &g.pages[uint(page)%uint(len(g.pages))]
		w := uint(word) % PageWords
		if p[w] ^= value; value == 0 {
			return
		}
		mustBreak(t, g, "fuzzed")
		// With the right check, anything may be read; nothing may panic.
		number := uint64(uint(page) % uint(len(g.pages)))
		at := Place{Identity: g.identity, Number: number}
		i := 0
		if number == 0 {
			i = headerCheck
		}
		p.sign(at, i)
		h, err := ReadHeader(p, g.identity, 0)
		if err == nil && h.Pages != pagesOf(h.Items) {
			t.Error(h)
		}
		h = Header{Identity: g.identity, Items: 2 * BaseItems, Ages: make([]Age, 3)}
		h.ReadBase(p, number, 0, func(Item) {})
		ReadTail(p, at, value, func(Entry) {})
	})
}
