package hashes

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
)

// must ends the test if err is not nil.
func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// A file is NAME.hashes in memory, and the fields of the superblock about it.
type file struct {
	pages   []Page
	counted layout.Hashes
	end     layout.Position // as in the superblock
}

func (f *file) write(number uint64, page []uint64) error {
	for uint64(len(f.pages)) <= number {
		f.pages = append(f.pages, Page{})
	}
	f.pages[number] = Page(page)
	return nil
}

// checkOf returns the check of the last page of a base of so many pages.
func (f *file) checkOf(pages uint64) uint32 {
	if last := pages + FirstBase - 1; pages > 0 && last < uint64(len(f.pages)) {
		return f.pages[last].Check(last)
	}
	return 0
}

// read returns the header, the items of the base and the operations of the tail.
func (f *file) read() (h Header, base []Item, tail []Entry, err error) {
	if f.counted.Pages > uint64(len(f.pages)) {
		return h, nil, nil, Corrupt(0, "the file is too short")
	}
	if h, err = ReadHeader(&f.pages[0], f.counted.Identity, f.checkOf(f.pages[0].PagesOfBase())); err != nil {
		return h, nil, nil, err
	}
	at := h.Tail(f.pages[0].Check(0))
	if at.Number > f.counted.Pages {
		return h, nil, nil, Corrupt(0, "the base does not end")
	}
	for number, before := uint64(FirstBase), uint32(0); number < at.Number; number++ {
		if err := h.ReadBase(&f.pages[number], number, before, func(it Item) { base = append(base, it) }); err != nil {
			return h, nil, nil, err
		}
		before = f.pages[number].Check(number)
	}
	add := func(e Entry) { tail = append(tail, e) }
	for at.Number < f.counted.Pages {
		if err := at.Read(&f.pages[at.Number], ^uint64(0), add); err != nil {
			return h, nil, nil, err
		}
	}
	if at.Before != f.counted.Check {
		return h, nil, nil, Corrupt(at.Number-1, "the check is not that of the superblock")
	}
	last := f.last()
	if at.Number = last; last != 0 {
		err = at.Read(&f.pages[last], ^uint64(0), add)
	}
	if err == nil && at.From != f.end || f.counted.Last != 0 && last == 0 {
		err = Corrupt(1, "the history is not that of the superblock")
	}
	return h, base, tail, err
}

// last returns the number of the last page of the tail, or 0 if there is none.
func (f *file) last() uint64 {
	for number := uint64(1); number < FirstBase && f.counted.Last != 0; number++ {
		if f.pages[number].Check(number) == f.counted.Last {
			return number
		}
	}
	return 0
}

// start has the fields of the header of a newFile.
var start = Header{
	Identity: 0x1D,
	At:       layout.Position{Number: 1000, Chain: 0xC4A1},
	Before:   layout.Hashes{Identity: 0x1C, Pages: 77, Check: 0xFFFFFFFE, Last: 0xFFFFFFFD},
}

// newFile makes a file with so many items, and with the operations in parts. It writes the last page
// of the tail after each part.
func newFile(t testing.TB, items int, ages []Age, parts ...[]Entry) (f *file, base []Item) {
	t.Helper()
	f = new(file)
	base, tail := f.makeBase(t, items, ages)
	f.finish(t, &tail, 1)
	for i, part := range parts {
		add(t, &tail, part)
		f.finish(t, &tail, 1+uint64(i)%2)
	}
	return f, base
}

// makeBase writes the header and a base, and returns its items and the tail.
func (f *file) makeBase(t testing.TB, items int, ages []Age) (base []Item, tail Tail) {
	t.Helper()
	rng := rand.New(rand.NewPCG(uint64(items), 7))
	for range items {
		base = append(base, Item{rng.Uint64() >> 1, rng.IntN(len(ages))})
	}
	slices.SortFunc(base, func(a, b Item) int {
		if a.Hash < b.Hash {
			return -1
		}
		return 1
	})
	h := start
	h.Ages = ages
	b := NewBase(h, f.write)
	for _, it := range base {
		must(t, b.Add(it))
	}
	_, at, err := b.End()
	must(t, err)
	return base, *NewTail(at, f.write)
}

func add(t testing.TB, tail *Tail, entries []Entry) {
	t.Helper()
	for _, e := range entries {
		must(t, tail.Add(e))
	}
}

// finish writes the last page of a tail as page number, and stores in f what the superblock needs.
func (f *file) finish(t testing.TB, tail *Tail, number uint64) {
	t.Helper()
	var last *Page
	if f.counted, last = tail.End(number); last != nil {
		f.write(number, last[:])
	}
	f.end = tail.Position()
}

// kinds lists all kinds of entries except times, with their numbers in the file.
var kinds = []struct {
	op     layout.Op
	items  int
	number uint64
}{{layout.Insert, 1, 5}, {layout.AtLeastOne, 1, 7}, {layout.AtLeastOne, 0, 3}, {layout.Delete, -1, 10}, {layout.Delete, 0, 2}}

// operations returns operations of all kinds.
func operations(n int, from, step uint64) (all []Entry) {
	for i := range uint64(n) {
		k := kinds[i/3%uint64(len(kinds))]
		all = append(all, Entry{Op: k.op, Items: k.items, Hash: i * layout.MixFirst, Time: from + i*step})
	}
	return all
}

// mustBe checks that the entries read from a tail are those written, with the positions after the
// position of the header, and with times less than a second before the true ones.
func mustBe(t *testing.T, got, want []Entry) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d operations of %d", len(got), len(want))
	}
	at := start.At
	for i, w := range want {
		e := got[i]
		off := w.Time - e.Time
		at = at.After(w.Op, w.Hash)
		if e.Time, w.After = w.Time, at; e != w || off >= TimeStep {
			t.Fatalf("operation %d: %+v, %d ns too early; want %+v", i, e, off, w)
		}
	}
}

// TestRoundTrip: a file is read as it was written, and has no more pages than the essay says.
func TestRoundTrip(t *testing.T) {
	ages := []Age{{First: 1, Last: 5}, {First: 5, Last: 9}, {First: 9, Last: 9}}
	for _, items := range []int{0, 1, BaseItems - 1, BaseItems, BaseItems + 1, 3*BaseItems + 7} {
		for _, n := range []int{0, 1, tailEntries, tailEntries + 1, 2000} {
			for _, step := range []uint64{0, 1e8, 2e9} {
				one, two := operations(n, 5e9, step), operations(n/2, 3e9, step) // the clock was set back
				f, base := newFile(t, items, ages, one, two)
				h, gotBase, gotTail, err := f.read()
				must(t, err)
				want := start
				want.Items, want.Pages, want.Sum, want.Ages = h.Items, h.Pages, h.Sum, slices.Clone(ages)
				sum := uint64(0)
				for _, it := range base {
					want.Ages[it.Age].Items++
					sum += it.Hash
				}
				if !slices.Equal(h.Ages, want.Ages) || h.At != want.At || h.Before != want.Before || h.Items != uint64(items) || h.Sum != sum {
					t.Fatalf("%d items: %+v, want %+v", items, h, want)
				}
				if !slices.Equal(gotBase, base) {
					t.Fatalf("%d items are not those written", items)
				}
				all := slices.Concat(one, two)
				mustBe(t, gotTail, all)
				times := len(all) * int(step/1e8) / 10 // at least one operation has each time
				most := FirstBase + pagesOf(uint64(items)) + uint64(len(all)+min(times, len(all))+1)/tailEntries
				if f.counted.Pages > most {
					t.Errorf("%d items and %d operations, %d ns apart, take %d pages, more than %d", items, len(all), step, f.counted.Pages, most)
				}
			}
		}
	}
}

// TestKinds: each kind of entry has its number, and other numbers are errors (K1).
func TestKinds(t *testing.T) {
	known := map[uint64]Entry{}
	for _, k := range kinds {
		known[k.number] = Entry{k.op, k.items, 0xA5, 1e9, start.At.After(layout.Insert, 0).After(k.op, 0xA5)}
	}
	for kind := range uint64(1 << kindBits) {
		f, _ := newFile(t, 0, nil, operations(1, 1e9, 0))
		p := &f.pages[1]
		p[0] += 1 << countShift
		p[tailFirst+1] = 0xA5
		p[tailKinds] |= kind << kindBits
		at := TailPlace{Place{start.Identity, 1, f.pages[0].Check(0)}, start.At}
		p.sign(at.Place, 0)
		var got []Entry
		err := at.Read(p, ^uint64(0), func(e Entry) { got = append(got, e) })
		want, ok := known[kind]
		switch {
		case kind == timeKind:
			if err != nil || len(got) != 1 || at.From.Number != 1001 {
				t.Errorf("a time: %+v, %v", got, err)
			}
		case !ok:
			mustBeK1(t, "an unknown kind", err)
		case err != nil || len(got) != 2 || got[1] != want || at.From != want.After:
			t.Errorf("kind %d: %+v, up to %+v, %v", kind, got, at.From, err)
		}
	}
}

// TestOneTail: a tail that goes on after End, or after Resume in another process, equals a tail written
// at once. Only the number of its last page may differ.
func TestOneTail(t *testing.T) {
	all := operations(3*tailEntries, 5e9, 2e8)
	for _, cut := range []int{1, 2, 100, tailEntries / 2, tailEntries + 77, 2*tailEntries + 1} {
		for _, resume := range []bool{false, true} {
			one, two := new(file), new(file)
			_, tail := one.makeBase(t, 9, make([]Age, 1))
			add(t, &tail, all)
			one.finish(t, &tail, 2)

			_, tail = two.makeBase(t, 9, make([]Age, 1))
			add(t, &tail, all[:cut])
			two.finish(t, &tail, 1)
			if resume {
				last := two.pages[1]
				tail = *NewTail(TailPlace{Place{start.Identity, two.counted.Pages, two.counted.Check}, last.From()}, two.write)
				tail.Resume(&last, two.end)
			}
			add(t, &tail, all[cut:])
			two.finish(t, &tail, 2)
			two.pages[1] = Page{}
			if !slices.Equal(one.pages, two.pages) || one.counted != two.counted || one.end != two.end {
				t.Errorf("cut after %d operations, resumed %t: the tail differs", cut, resume)
			}
		}
	}
}

// TestLastPage: the last page of the tail is page 1 or 2 by turns. Until a superblock counts the new
// last page, the file reads as before.
func TestLastPage(t *testing.T) {
	f := new(file)
	_, tail := f.makeBase(t, BaseItems+1, make([]Age, 1))
	f.finish(t, &tail, 1)
	if f.counted.Last != 0 || f.counted.Pages != 5 || f.pages[1] != (Page{}) || f.pages[2] != (Page{}) {
		t.Fatalf("without a tail: %+v", f.counted)
	}
	all := operations(5*tailEntries, 5e9, 0)
	done := 0
	for i, n := range []int{1, 100, tailEntries - 102, 1, tailEntries, 5, 2*tailEntries - 10} {
		before := *f
		number := 1 + uint64(i)%2
		add(t, &tail, all[done:done+n])
		f.finish(t, &tail, number)
		// The file before has the same pages: none that it counted may have changed.
		before.pages = f.pages
		_, _, was, err := before.read()
		if err != nil {
			t.Fatalf("before %d more operations are counted: %v", n, err)
		}
		mustBe(t, was, all[:done])
		done += n
		_, _, is, err := f.read()
		if err != nil {
			t.Fatalf("%d operations: %v", done, err)
		}
		mustBe(t, is, all[:done])
		full := uint64(done / tailEntries)
		if partial := done%tailEntries > 0; f.counted.Pages != 5+full || partial != (f.counted.Last != 0) || partial && f.last() != number {
			t.Errorf("%d operations: %+v, last page %d", done, f.counted, f.last())
		}
	}
}

// TestCopyOfATail: a copy of a Tail goes on from where it was copied, whatever the other copy does.
func TestCopyOfATail(t *testing.T) {
	all := operations(2*tailEntries, 5e9, 1e8)
	f := new(file)
	_, tail := f.makeBase(t, 0, nil)
	add(t, &tail, all[:100])
	lost := tail
	full := errors.New("full")
	lost.write = func(uint64, []uint64) error { return full }
	var err error
	for _, e := range operations(tailEntries, 9e9, 1) {
		err = errors.Join(err, lost.Add(e))
	}
	if !errors.Is(err, full) {
		t.Fatal(err)
	}
	lost.End(1)
	add(t, &tail, all[100:])
	f.finish(t, &tail, 1)
	_, _, got, err := f.read()
	must(t, err)
	mustBe(t, got, all)
}

// TestCheckIsNotZero: a page whose CRC is 0 has the check 1, because 0 means that there is no last page.
func TestCheckIsNotZero(t *testing.T) {
	h := start
	at := Place{Identity: h.Identity, Before: 7}
	p := h.Page(at.Before)
	// The CRC is linear, so solve for unused bits that make it 0.
	sum := func(bits uint64) uint32 {
		p[headerCheck] = bits << 32
		return p.check(at, headerCheck)
	}
	type row struct {
		sum  uint32
		bits uint64
	}
	var rows [32]row // by their highest bit
	reduce := func(r row) row {
		for j := 31; j >= 0; j-- {
			if r.sum>>j&1 == 0 {
				continue
			}
			if rows[j].sum == 0 {
				rows[j] = r
				return r
			}
			r.sum ^= rows[j].sum
			r.bits ^= rows[j].bits
		}
		return r
	}
	for i := range 32 {
		reduce(row{sum(1<<i) ^ sum(0), 1 << i})
	}
	bits := reduce(row{sum: sum(0)}).bits
	if got := sum(bits); got != 1 || sum(bits^1) == 1 {
		t.Errorf("the check is %#x", got)
	}
}

func mustBreak(t *testing.T, f *file, what string) {
	t.Helper()
	_, _, _, err := f.read()
	mustBeK1(t, what, err)
}

func mustBeK1(t *testing.T, what string, err error) {
	t.Helper()
	e := new(layout.CorruptError)
	if !errors.As(err, &e) || e.Region != layout.RegionHashes || e.Rule != "K1" {
		t.Fatalf("%s: %v", what, err)
	}
}

// TestDamage covers K1: a read finds a flipped bit in any page, and any page in the place of another.
func TestDamage(t *testing.T) {
	make := func(from uint64) *file {
		f, _ := newFile(t, BaseItems+100, []Age{{First: 1, Last: 2}, {First: 3, Last: 4}}, operations(2*tailEntries+9, from, 0), operations(9, 9e9, 1))
		return f
	}
	f := make(1e9)
	const spare = 1 // this page was the last page before, and counts no more
	for page := range f.pages {
		for bit := 0; bit < 64*PageWords && page != spare; bit += 13 { // coprime to 64, so each bit number occurs
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
	f.pages[spare] = Page{1, 2, 3}
	if _, _, _, err := f.read(); err != nil {
		t.Error(err)
	}
	f.pages = f.pages[:len(f.pages)-1]
	mustBreak(t, f, "a page less")
	f = make(1e9)
	f.counted.Identity++
	mustBreak(t, f, "another file")
	other := make(2e9)
	f = make(1e9)
	f.pages[5] = other.pages[5]
	mustBreak(t, f, "a page of a copy with other operations")
	f = make(1e9)
	f.pages[2], f.counted.Last = other.pages[2], other.counted.Last
	mustBreak(t, f, "the last page of a copy with other operations")
	f = make(1e9)
	f.counted.Last = 0
	mustBreak(t, f, "a last page that is not counted")
	f = make(1e9)
	f.end.Chain++
	mustBreak(t, f, "another history")
}

// TestSigned covers the rest of K1: pages with the right check and impossible content.
func TestSigned(t *testing.T) {
	for name, change := range map[string]func(f *file){
		"out of order":     func(f *file) { f.pages[3][1], f.pages[3][2] = f.pages[3][2], f.pages[3][1] },
		"of no age":        func(f *file) { f.pages[3][baseAges] |= 63 },
		"a count":          func(f *file) { f.pages[3][0] -= 1 << countShift },
		"no operations":    func(f *file) { f.pages[1][0] &= checkMask },
		"too many":         func(f *file) { f.pages[1][0] |= (tailEntries + 1) << countShift },
		"operations twice": func(f *file) { f.pages[1][1]++ },
		"another chain":    func(f *file) { f.pages[1][3]++ },
		"no kind":          func(f *file) { f.pages[1][tailKinds] |= 15 },
		"ages":             func(f *file) { f.pages[0][6] = MostAges + 1 },
		"pages":            func(f *file) { f.pages[0][3] += BaseItems },
		"version":          func(f *file) { f.pages[0][1]++ },
		"an old version":   func(f *file) { f.pages[0][1]-- },
		"another base":     func(f *file) { f.pages[0][headerAt]++ },
	} {
		f, _ := newFile(t, 9, []Age{{First: 1, Last: 2}}, operations(9, 1e9, 1))
		change(f)
		base := f.pages[3].sign(Place{start.Identity, 3, 0}, 0)
		f.counted.Check = f.pages[0].sign(Place{start.Identity, 0, base}, headerCheck)
		f.counted.Last = f.pages[1].sign(Place{start.Identity, 1, f.counted.Check}, 0)
		mustBreak(t, f, name)
	}
}

func FuzzRead(f *testing.F) {
	whole, _ := newFile(f, BaseItems+1, []Age{{First: 1, Last: 2}}, operations(tailEntries, 1e9, 1e9))
	f.Add(0, 0, uint64(0))
	f.Add(3, 0, uint64(1)<<33)
	f.Add(1, 0, uint64(500)<<32)
	f.Add(5, tailKinds, uint64(1))
	f.Fuzz(func(t *testing.T, page, word int, value uint64) {
		g := &file{slices.Clone(whole.pages), whole.counted, whole.end}
		number := uint64(uint(page) % uint(len(g.pages)))
		p := &g.pages[number]
		w := uint(word) % PageWords
		if p[w] ^= value; value == 0 || number == 2 { // page 2 does not count
			return
		}
		mustBreak(t, g, "fuzzed")
		// With the right check, anything may be read; nothing may panic.
		at := Place{Identity: start.Identity, Number: number}
		i := 0
		if number == 0 {
			i = headerCheck
		}
		p.sign(at, i)
		h, err := ReadHeader(p, start.Identity, 0)
		if err == nil && h.Pages != pagesOf(h.Items) {
			t.Error(h)
		}
		h = Header{Identity: start.Identity, Items: 2 * BaseItems, Ages: make([]Age, 3)}
		h.ReadBase(p, FirstBase+number, 0, func(Item) {})
		(&TailPlace{at, p.From()}).Read(p, ^uint64(0), func(Entry) {})
	})
}
