package build

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/hashes"
	"github.com/mmapfilter/mmapfilter/recovery"
	"github.com/mmapfilter/mmapfilter/recovery/osfile"
)

// A keptFile is a file of hashes in memory.
type keptFile struct {
	recovery.HashFile // nil, because its methods that are not defined here are not called
	pages             []hashes.Page
	reads             atomic.Int64
	onRead            func(n int64) error
}

func (f *keptFile) Pages() (uint64, error) { return uint64(len(f.pages)), nil }

func (f *keptFile) ReadPages(first uint64, words []uint64) error {
	for page := range slices.Chunk(words, hashes.PageWords) {
		if n := f.reads.Add(1); f.onRead != nil {
			if err := f.onRead(n); err != nil {
				return err
			}
		}
		copy(page, f.pages[first][:])
		first++
	}
	return nil
}

func (f *keptFile) WritePages(first uint64, words []uint64) error {
	for page := range slices.Chunk(words, hashes.PageWords) {
		for uint64(len(f.pages)) <= first {
			f.pages = append(f.pages, hashes.Page{})
		}
		f.pages[first] = hashes.Page(page)
		first++
	}
	return nil
}

// A keptMaker writes a file of hashes, and knows the items that the file should have. Each second is an
// age.
type keptMaker struct {
	rng     *rand.Rand
	file    *keptFile
	header  hashes.Header
	at      hashes.TailPlace
	to      layout.Position
	last    *hashes.Page
	counted layout.Hashes
	now     uint64
	items   map[uint64][]int  // by hash, the ages of the items that the history means (K7), the oldest first
	held    map[uint64]uint64 // by hash, the number of items in the filter file, from the item effects
	strays  uint64            // items of other hashes that stray deletes have removed
	there   []uint64          // all hashes that were inserted, repeated ones too; some have no items any more
}

const keptAges = hashes.MostAges

var agesBySecond = &Ages{
	Base: func(a hashes.Age) int { return int(a.Last / hashes.TimeStep) },
	Tail: func(time uint64) int { return min(int(time/hashes.TimeStep), keptAges-1) },
}

// newKept writes a file of hashes. Its base has some random items, of the first ages, and items of hash
// 1 with the given ages.
func newKept(t *testing.T, seed, base uint64, ofOne ...int) *keptMaker {
	t.Helper()
	const ages = 4
	k := &keptMaker{
		rng: rand.New(rand.NewPCG(seed, 1)), file: new(keptFile), now: ages * hashes.TimeStep,
		items: map[uint64][]int{1: ofOne}, held: map[uint64]uint64{},
	}
	for range ofOne {
		k.there = append(k.there, 1)
	}
	for range base {
		h := k.hash()
		k.there = append(k.there, h)
		k.items[h] = append(k.items[h], k.rng.IntN(ages))
	}
	h := hashes.Header{Identity: seed, At: layout.Position{Number: 10 * seed, Chain: seed}}
	for i := range uint64(ages) {
		h.Ages = append(h.Ages, hashes.Age{First: i * hashes.TimeStep, Last: i * hashes.TimeStep})
	}
	b := hashes.NewBase(h, k.file.WritePages)
	for _, h := range slices.Compact(slices.Sorted(slices.Values(k.there))) {
		slices.Sort(k.items[h])
		for _, age := range k.items[h] {
			must(t, b.Add(hashes.Item{Hash: h, Age: age}))
		}
		k.held[h] = uint64(len(k.items[h]))
	}
	var err error
	k.header, k.at, err = b.End()
	must(t, err)
	k.to = h.At
	k.counted = layout.Hashes{Identity: seed, Pages: k.at.Number, Check: k.at.Before}
	return k
}

// hash returns a hash, which may have been inserted before.
func (k *keptMaker) hash() uint64 {
	switch k.rng.IntN(4) {
	case 0:
		return k.rng.Uint64N(50) << 57
	case 1:
		if len(k.there) > 0 {
			return k.there[k.rng.IntN(len(k.there))]
		}
	}
	return k.rng.Uint64()
}

// do adds an operation to the tail, and to the items what the operation means by K7. Its item effect is
// partly random.
func (k *keptMaker) do(t *testing.T, tail *hashes.Tail, op layout.Op, h uint64) {
	t.Helper()
	e := hashes.Entry{Op: op, Items: 1, Hash: h, Time: k.now}
	switch ages := k.items[h]; {
	case op == layout.Delete:
		if e.Items = -k.rng.IntN(2); len(ages) > 0 {
			k.items[h] = ages[1:]
		} else {
			k.strays -= uint64(e.Items)
		}
	case op == layout.Insert || len(ages) == 0:
		k.items[h] = append(ages, agesBySecond.Tail(k.now))
		k.there = append(k.there, h)
	}
	if op == layout.AtLeastOne {
		e.Items = k.rng.IntN(2)
	}
	k.held[h] += uint64(e.Items)
	must(t, tail.Add(e))
}

// tail returns a tail with random operations.
func (k *keptMaker) tail(t *testing.T, operations int) *hashes.Tail {
	t.Helper()
	tail := hashes.NewTail(k.at, k.file.WritePages)
	for range operations {
		k.do(t, tail, layout.Op(1+k.rng.IntN(3)), k.hash())
	}
	return tail
}

// checkpoint appends random operations, and ends the page as if it were full, so that there are many
// pages.
func (k *keptMaker) checkpoint(t *testing.T, operations int) { k.endPage(t, k.tail(t, operations)) }

func (k *keptMaker) endPage(t *testing.T, tail *hashes.Tail) {
	t.Helper()
	full, _ := tail.End(0)
	counted, last := tail.End(full.Pages)
	k.at.Number, k.at.Before, k.at.From = full.Pages, full.Check, tail.Position()
	if last != nil {
		k.file.WritePages(full.Pages, last[:])
		k.at.Number, k.at.Before = full.Pages+1, counted.Last
	}
	k.to = k.at.From
	k.counted.Pages, k.counted.Check = k.at.Number, k.at.Before
}

// lastPage appends the last operations, in a page that is not full.
func (k *keptMaker) lastPage(t *testing.T, operations int) {
	tail := k.tail(t, operations)
	k.counted, k.last = tail.End(2)
	k.to = tail.Position()
}

func (k *keptMaker) kept() recovery.Kept {
	return recovery.Kept{File: k.file, Header: k.header, Counted: k.counted, Last: k.last, LastNumber: 2, To: k.to}
}

// want appends the items that the file should have.
func (k *keptMaker) want(to []keptItem) []keptItem {
	for h, ages := range k.items {
		for _, age := range ages {
			to = append(to, keptItem{h, age})
		}
	}
	slices.SortFunc(to, compareKept)
	return to
}

// A keptItem is an item with its age.
type keptItem struct {
	hash uint64
	age  int
}

func compareKept(a, b keptItem) int {
	if a.hash != b.hash {
		return map[bool]int{true: -1, false: 1}[a.hash < b.hash]
	}
	return a.age - b.age
}

func openKept(t *testing.T, ctx context.Context, workers int, budget int64, ages *Ages, kept ...recovery.Kept) (*Merged, error) {
	return OpenKept(ctx, Beside(filepath.Join(t.TempDir(), "f")), workers, budget, kept, ages)
}

// TestKept covers K1 and K7: merged files must give the items that the base and the tail of each file
// mean, whatever the number of workers, files and stretches, and whether or not the operations have room
// in memory. The numbers of items that the filter files had must be right, too.
func TestKept(t *testing.T) {
	const budget = 1 << 20
	for _, c := range []struct{ inputs, base, pages, operations int }{
		{1, 0, 0, 0},
		{1, 5000, 0, 0},
		{1, 5000, 0, 100},
		{1, 0, 3, 10},
		{1, 0, recovery.TailPages*roundStretches + 10, 7},
		{1, 12_000, 3, 12_000},
		{2, 0, 2, 10_000},
		{3, 1000, 2 * recovery.TailPages, 20},
		{MostInputs, 50, 2, 500},
	} {
		var all []*keptMaker
		var want []keptItem
		for i := range c.inputs {
			k := newKept(t, uint64(i)+1, uint64(c.base))
			for p := range c.pages {
				k.checkpoint(t, c.operations)
				if p%max(c.pages/40, 1) == 0 {
					k.now += hashes.TimeStep
				}
			}
			if i%2 == 0 {
				k.lastPage(t, c.operations)
			}
			all, want = append(all, k), k.want(want)
		}
		for _, workers := range []int{1, 3} {
			name := fmt.Sprintf("%+v, %d workers", c, workers)
			spilled := c.inputs*c.pages*c.operations > budget/2/16
			checkKept(t, name, workers, budget, agesBySecond, spilled, all, want)
			if c.inputs == 1 { // there are so few seconds that each is an age
				checkKept(t, name+", ages by history", workers, budget, Joined(Window{}), spilled, all, want)
			}
		}
	}
}

func checkKept(t *testing.T, name string, workers int, budget int64, ages *Ages, spilled bool, all []*keptMaker, want []keptItem) {
	t.Helper()
	var kept []recovery.Kept
	strays, held := uint64(0), map[uint64]uint64{}
	for _, k := range all {
		kept, strays = append(kept, k.kept()), strays+k.strays
		for h, n := range k.held {
			held[h] += n
		}
	}
	m, err := openKept(t, context.Background(), workers, budget, ages, kept...)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	defer m.Close()
	if got := len(m.tails.mu.files) > 0; got != spilled {
		t.Errorf("%s: operations in a file: %t", name, got)
	}
	if workers > 1 { // without Held, Each takes a short cut for a hash with a single operation
		m.Held = func(h uint64, items int64, stray uint64) {
			held[h] -= uint64(items)
			strays -= stray
		}
	}
	var got []keptItem
	err = m.Each(context.Background(), func(sorted []uint64, of []uint8) error {
		for i, h := range sorted {
			age := int(of[i])
			if ages.Base == nil {
				age = int(m.ages[age].Last / hashes.TimeStep)
			}
			got = append(got, keptItem{h, age})
		}
		return nil
	})
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if !slices.Equal(got, want) {
		t.Fatalf("%s: %d items, which differ from the %d that are expected", name, len(got), len(want))
	}
	for h, n := range held {
		if m.Held != nil && (n != 0 || strays != 0) {
			t.Fatalf("%s: Held reports %d items of hash %#x too few, and %d strays too few", name, int64(n), h, int64(strays))
		}
	}
}

// TestDamagedTail covers K1: the error must name the first wrong page of the tails, however many workers
// read them.
func TestDamagedTail(t *testing.T) {
	const pages = 4*recovery.TailPages + 5
	undamaged := func() *keptMaker {
		k := newKept(t, 1, 1000)
		for range pages {
			k.checkpoint(t, 5)
		}
		return k
	}
	check := func(name string, page uint64, kept ...recovery.Kept) {
		t.Helper()
		for _, workers := range []int{1, 4} {
			m, err := openKept(t, context.Background(), workers, 1<<20, agesBySecond, kept...)
			var corrupt *layout.CorruptError
			if !errors.As(err, &corrupt) || corrupt.Offset != int64(page)*hashes.PageBytes || !errors.Is(err, recovery.ErrHashes) {
				t.Errorf("%s, %d workers: %v, not of page %d", name, workers, err, page)
			}
			if err == nil {
				m.Close()
			}
		}
	}
	good := undamaged()
	first, end := good.at.Number-pages, good.at.Number
	for _, page := range []uint64{first, first + 1, first + recovery.TailPages - 1, first + recovery.TailPages, first + recovery.TailPages + 1, end - 1} {
		for _, word := range []int{0, 1, 2, 3, 511} {
			k := undamaged()
			k.file.pages[page][word] ^= 1
			check(fmt.Sprintf("word %d", word), page, k.kept())
			check("the second file", page, good.kept(), k.kept())
			for later := page + 1; later < end; later += recovery.TailPages {
				k.file.pages[later][5] ^= 1
			}
			check("and others", page, k.kept())
		}
	}
	k := good.kept()
	k.Counted.Check ^= 1
	check("another check", end-1, k)
	k = good.kept()
	k.Counted.Pages = first
	check("the check of another page", first-1, k)
	for _, page := range []uint64{0, 1, recovery.TailPages, recovery.TailPages + 1} { // its check is right, but its position is wrong
		for name, change := range map[string]func(*layout.Position){
			"another number of operations": func(p *layout.Position) { p.Number++ },
			"other operations":             func(p *layout.Position) { p.Chain++ },
		} {
			k := newKept(t, 1, 1000)
			for n := range uint64(2 * recovery.TailPages) {
				if n == page {
					change(&k.at.From)
				}
				k.checkpoint(t, 5)
			}
			check(name, first+page, k.kept())
		}
	}
	for _, word := range []int{0, 1, 2, 3, 511} {
		k := undamaged()
		k.lastPage(t, 5)
		k.last[word] ^= 1
		check(fmt.Sprintf("word %d of the last page", word), 2, k.kept())
	}
}

// TestTailIsCutOff checks that a system error or a cancelled context ends the reading of a tail, in the
// first pass and in the second. After a cancellation, each worker may read at most one more stretch.
func TestTailIsCutOff(t *testing.T) {
	const pages, workers = 20 * recovery.TailPages, 3
	k := newKept(t, 1, 0)
	for range pages {
		k.checkpoint(t, 1)
	}
	broken := errors.New("broken")
	for _, at := range []int64{2, pages / 2, pages + pages/2} {
		for _, cancelled := range []bool{true, false} {
			ctx, cancel := context.WithCancelCause(context.Background())
			k.file.reads.Store(0)
			var before int64 // reads that began before ctx ended, including those of other workers
			k.file.onRead = func(n int64) error {
				switch {
				case n != at:
					return nil
				case cancelled:
					cancel(broken)
					before = k.file.reads.Load()
					return nil
				}
				return broken
			}
			m, err := openKept(t, ctx, workers, 1<<20, agesBySecond, k.kept())
			if !errors.Is(err, broken) {
				t.Errorf("at read %d, cancelled %t: %v", at, cancelled, err)
			}
			if err == nil {
				m.Close()
			}
			if n := k.file.reads.Load() - before; cancelled && n > workers*(recovery.TailPages+1) {
				t.Errorf("cancelled at read %d: %d reads after that", at, n)
			}
			cancel(nil)
		}
	}
}

// TestPageWriter checks that a pageFile writes pages to their places in order, and keeps few of them in
// memory. The header must be written last.
func TestPageWriter(t *testing.T) {
	const pages = 3*writeAtOnce + 5
	f := new(keptFile)
	w := pageFile{file: f}
	for i := range uint64(pages) {
		must(t, w.write(i+1, (&hashes.Page{i + 1})[:]))
		if waiting := i + 2 - max(uint64(len(f.pages)), 1); waiting > writeAtOnce {
			t.Fatalf("%d pages wait", waiting)
		}
	}
	if err := w.write(0, (&hashes.Page{99})[:]); err != nil || len(f.pages) != pages+1 || f.pages[0][0] != 0 {
		t.Errorf("the header is written before the others: %v", err)
	}
	if err := w.flush(); err != nil || f.pages[0][0] != 99 {
		t.Errorf("the header is not written: %v", err)
	}
	for i, p := range f.pages[1:] {
		if p[0] != uint64(i)+1 {
			t.Fatalf("page %d is page %d", i+1, p[0])
		}
	}
}

// TestBuildKept covers K7: a filter that is built from the hashes of another filter must have as many
// items as the history means. If it continues the other filter, it must go on at that filter's position
// and descent, and name its kept hashes. Otherwise it must have a history of its own. An age that a
// wrong clock has put more than a day after now must become now.
func TestBuildKept(t *testing.T) {
	const now, day = 10 * 24 * 3600 * hashes.TimeStep, 24 * 3600 * hashes.TimeStep
	k := newKept(t, 1, 1000)
	for range 20 { // many operations repeat hashes that were inserted or deleted before
		k.checkpoint(t, 500)
	}
	for k.now = now + day; k.now <= now+day+hashes.TimeStep; k.now += hashes.TimeStep {
		k.checkpoint(t, 100)
	}
	tail := k.tail(t, 100)
	k.counted, k.last = tail.End(2)
	k.to = tail.Position()
	items := uint64(len(k.want(nil)))
	distinct := k.items
	maps.DeleteFunc(distinct, func(_ uint64, ages []int) bool { return len(ages) == 0 })
	var old layout.Superblock
	old.SetDescent(77)
	for _, c := range []struct {
		distinct  bool
		continues *layout.Superblock
		items     uint64
	}{{false, &old, items}, {false, nil, items}, {true, nil, uint64(len(distinct))}} {
		path, planned, b := filepath.Join(t.TempDir(), "f"), uint64(0), spilling()
		b.Workers, b.Distinct, b.Continues, b.Keep, b.Identity, b.Now, b.LastTime = 3, c.distinct, c.continues, true, 5, now, now+2*day
		plan := b.Plan
		b.Plan = func(capacity uint64) (p Plan, err error) {
			planned = capacity
			p, err = plan(capacity)
			p.Superblock.SetSeed(1)
			p.Superblock.SetGeneration(1)
			p.Superblock.SetTargetRate(0.1)
			p.Superblock.SetDesignLoad(0.5)
			p.Superblock.SetKeepsHashes(false)
			return p, err
		}
		if _, err := FromKept(context.Background(), path, b, []recovery.Kept{k.kept()}); err != nil {
			t.Fatal(err)
		}
		if planned != c.items {
			t.Errorf("distinct %t: planned for %d items, not %d", c.distinct, planned, c.items)
		}
		data, err := os.ReadFile(path)
		must(t, err)
		_, sb, _, err := layout.Newest(data)
		must(t, err)
		got, err := osfile.OpenHashesOf(path, sb)
		must(t, err)
		must(t, got.File.Close())
		h := got.Header
		at, before, descent := layout.Position{}, layout.Hashes{}, uint64(5)
		if c.continues != nil {
			at, before, descent = tail.Position(), k.counted, 77
		}
		if h.Items != c.items || h.At != at || h.Before != before || sb.Kept() != (layout.Kept{At: at}) || sb.Descent() != descent {
			t.Errorf("continues %t: %d items at %v after %v, descent %d; at %v", c.continues != nil, h.Items, h.At, h.Before, sb.Descent(), sb.Kept())
		}
		n := map[uint64]uint64{}
		for _, a := range h.Ages {
			if n[a.Last] += a.Items; a.First > a.Last {
				t.Errorf("an age from %d to %d", a.First, a.Last)
			}
		}
		if sb.LastTime() != now || len(n) != 7 || n[now] == 0 || n[now+day] == 0 {
			t.Errorf("ages %v, last time %d", n, sb.LastTime())
		}
	}
}

// TestAgesFrom: items of the base and of the tail are as young as Kept.AgesFrom says.
func TestAgesFrom(t *testing.T) {
	k := newKept(t, 1, 100)
	k.lastPage(t, 100)
	kept := k.kept()
	kept.AgesFrom = 9 * hashes.TimeStep
	m, err := openKept(t, context.Background(), 1, 1<<20, agesBySecond, kept)
	must(t, err)
	defer m.Close()
	must(t, m.Each(context.Background(), func(_ []uint64, ages []uint8) error {
		if len(ages) == 0 || slices.Min(ages) != 9 || slices.Max(ages) != 9 {
			t.Errorf("ages %d", ages)
		}
		return nil
	}))
}

// TestOnlyInserts checks that a tail of inserts only is recognised, because its items need not be
// counted then. The last age must end at the last operation that may add an item.
func TestOnlyInserts(t *testing.T) {
	for op, want := range map[layout.Op]bool{layout.Insert: true, layout.Delete: false, layout.AtLeastOne: false} {
		k := newKept(t, 1, 100)
		tail := k.tail(t, 0)
		k.do(t, tail, layout.Insert, 5)
		k.now += 10 * hashes.TimeStep
		k.do(t, tail, op, 6)
		k.endPage(t, tail)
		m, err := openKept(t, context.Background(), 1, 1<<20, Joined(Window{}), k.kept())
		must(t, err)
		if n, all := m.count(); n != 102 || all != want {
			t.Errorf("operation %d: %d entries, only inserts %t", op, n, all)
		}
		if last := m.ages[len(m.ages)-1].Last; (last == k.now) != (op != layout.Delete) {
			t.Errorf("operation %d: the last age ends at %d", op, last)
		}
		m.Close()
	}
}
