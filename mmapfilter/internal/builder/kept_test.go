package builder

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/hashes"
	"github.com/mmapfilter/mmapfilter/recovery"
)

// A keptFile is a file of hashes in memory.
type keptFile struct {
	recovery.HashFile // nil: what is not here is not called
	pages             []hashes.Page
	reads             atomic.Int64
	onRead            func(n int64) error
}

func (f *keptFile) Pages() (uint64, error) { return uint64(len(f.pages)), nil }

func (f *keptFile) ReadPage(number uint64, p *hashes.Page) error {
	if n := f.reads.Add(1); f.onRead != nil {
		if err := f.onRead(n); err != nil {
			return err
		}
	}
	*p = f.pages[number]
	return nil
}

func (f *keptFile) WritePage(number uint64, p *hashes.Page) error {
	for uint64(len(f.pages)) <= number {
		f.pages = append(f.pages, hashes.Page{})
	}
	f.pages[number] = *p
	return nil
}

// A keptMaker makes a file of hashes, and knows which items it has: of each hash their ages, the oldest
// first. Of times, an age is one second.
type keptMaker struct {
	rng   *rand.Rand
	file  *keptFile
	at    hashes.Place
	n     uint64 // operations
	now   uint64
	items map[uint64][]int
	there []uint64 // with each equal one, and some that have gone
}

const keptAges = hashes.MostAges

var agesBySecond = &Ages{
	Base: func(a hashes.Age) int { return int(a.Last / hashes.TimeStep) },
	Tail: func(time uint64) int { return min(int(time/hashes.TimeStep), keptAges-1) },
}

// newKept makes a file whose base has some items, of the first ages.
func newKept(t *testing.T, seed, base uint64) *keptMaker {
	t.Helper()
	const ages = 4
	k := &keptMaker{rng: rand.New(rand.NewPCG(seed, 1)), file: new(keptFile), now: ages * hashes.TimeStep, items: map[uint64][]int{}}
	for range base {
		h := k.hash()
		k.there = append(k.there, h)
		k.items[h] = append(k.items[h], k.rng.IntN(ages))
	}
	var all []hashes.Age
	for i := range uint64(ages) {
		all = append(all, hashes.Age{First: i * hashes.TimeStep, Last: i * hashes.TimeStep})
	}
	b := hashes.NewBase(seed, all, k.file.WritePage)
	for _, h := range slices.Compact(slices.Sorted(slices.Values(k.there))) {
		slices.Sort(k.items[h])
		for _, age := range k.items[h] {
			if err := b.Add(hashes.Item{Hash: h, Age: age}); err != nil {
				t.Fatal(err)
			}
		}
	}
	var err error
	if _, k.at, err = b.End(); err != nil {
		t.Fatal(err)
	}
	return k
}

// hash returns a hash that may have been there before.
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

// checkpoint appends operations to the tail. Pages begin with it.
func (k *keptMaker) checkpoint(t *testing.T, operations int) {
	t.Helper()
	tail := hashes.NewTail(k.at, k.n, k.file.WritePage)
	for range operations {
		h, kind := k.hash(), hashes.Insert
		if len(k.items[h]) > 0 && k.rng.IntN(2) == 0 {
			kind, k.items[h] = hashes.Delete, k.items[h][1:]
		} else {
			k.items[h] = append(k.items[h], agesBySecond.Tail(k.now))
			k.there = append(k.there, h)
		}
		if err := tail.Add(kind, h, k.now); err != nil {
			t.Fatal(err)
		}
	}
	var err error
	if k.at, k.n, err = tail.End(); err != nil {
		t.Fatal(err)
	}
}

func (k *keptMaker) kept() Kept {
	return Kept{k.file, layout.Hashes{Identity: k.at.Identity, Pages: k.at.Number, Check: k.at.Before}}
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

func openKept(t *testing.T, ctx context.Context, workers int, budget int64, ages *Ages, kept ...Kept) (*Merged, error) {
	return OpenKept(ctx, Beside(filepath.Join(t.TempDir(), "f")), workers, budget, kept, ages)
}

// TestKept covers K1 and K6: the items are those of the bases and of the inserts in the tails, less the
// oldest one of the same file for each delete; whatever the number of workers, of files and of their
// stretches, and whether the operations have room in memory or not.
func TestKept(t *testing.T) {
	const budget = 1 << 20
	for _, c := range []struct{ inputs, base, pages, operations int }{
		{1, 0, 0, 0},
		{1, 5000, 0, 0},
		{1, 0, 3, 10},
		{1, 0, stretchPages*roundStretches + 10, 7},
		{1, 30_000, 3, 30_000},
		{2, 0, 2, 40_000},
		{3, 1000, 2 * stretchPages, 20},
		{MostInputs, 300, 2, 1000},
	} {
		var all []Kept
		var want []keptItem
		for i := range c.inputs {
			k := newKept(t, uint64(i)+1, uint64(c.base))
			for p := range c.pages {
				k.checkpoint(t, c.operations)
				if p%max(c.pages/40, 1) == 0 {
					k.now += hashes.TimeStep
				}
			}
			all = append(all, k.kept())
			for h, ages := range k.items {
				for _, age := range ages {
					want = append(want, keptItem{h, age})
				}
			}
		}
		slices.SortFunc(want, compareKept)
		for _, workers := range []int{1, 3} {
			name := fmt.Sprintf("%+v, %d workers", c, workers)
			spilled := c.inputs*c.pages*c.operations > budget/2/8
			checkKept(t, name, workers, budget, agesBySecond, spilled, all, want)
			if c.inputs == 1 { // so few seconds that each is an age
				checkKept(t, name+", ages by history", workers, budget, nil, spilled, all, want)
			}
		}
	}
}

func checkKept(t *testing.T, name string, workers int, budget int64, ages *Ages, spilled bool, all []Kept, want []keptItem) {
	t.Helper()
	m, err := openKept(t, context.Background(), workers, budget, ages, all...)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	defer m.Close()
	if m.count() != uint64(len(want)) {
		t.Errorf("%s: %d items are counted, not %d", name, m.count(), len(want))
	}
	if got := len(m.tails.mu.files) > 0; got != spilled {
		t.Errorf("%s: operations in a file: %t", name, got)
	}
	var got []keptItem
	err = m.Each(context.Background(), func(sorted []uint64, of []uint8) error {
		for i, h := range sorted {
			age := int(of[i])
			if ages == nil {
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
		t.Fatalf("%s: %d items, not %d, or others", name, len(got), len(want))
	}
}

// TestDamagedTail covers K1: the error names the first page of the tails that is wrong, however many
// workers read them.
func TestDamagedTail(t *testing.T) {
	const pages = 4*stretchPages + 5
	undamaged := func() *keptMaker {
		k := newKept(t, 1, 1000)
		for range pages {
			k.checkpoint(t, 5)
		}
		return k
	}
	check := func(name string, page uint64, kept ...Kept) {
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
	for _, page := range []uint64{first, first + 1, first + stretchPages - 1, first + stretchPages, first + stretchPages + 1, end - 1} {
		for _, word := range []int{0, 1, 2, 3, 511} {
			k := undamaged()
			k.file.pages[page][word] ^= 1
			check(fmt.Sprintf("word %d", word), page, k.kept())
			check("the second file", page, good.kept(), k.kept())
			for later := page + 1; later < end; later += stretchPages {
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
	for _, page := range []uint64{0, 1, stretchPages, stretchPages + 1} { // its check is right, but not what it says
		k := newKept(t, 1, 1000)
		for n := range uint64(2 * stretchPages) {
			if n == page {
				k.n++
			}
			k.checkpoint(t, 5)
		}
		check("another number of operations", first+page, k.kept())
	}
}

// TestTailIsCutOff: an error of the system, or a cancelled context, ends what reads a tail, the first
// time and the second, after at most a stretch for each worker.
func TestTailIsCutOff(t *testing.T) {
	const pages, workers = 20 * stretchPages, 3
	k := newKept(t, 1, 0)
	for range pages {
		k.checkpoint(t, 1)
	}
	broken := errors.New("broken")
	for _, at := range []int64{2, pages / 2, pages + pages/2} {
		for _, cancelled := range []bool{true, false} {
			ctx, cancel := context.WithCancelCause(context.Background())
			k.file.reads.Store(0)
			var before int64 // reads that began before ctx ended: the other workers read on meanwhile
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
			if n := k.file.reads.Load() - before; cancelled && n > workers*(stretchPages+1) {
				t.Errorf("cancelled at read %d: %d reads after that", at, n)
			}
			cancel(nil)
		}
	}
}

// TestDeleteOfNothing covers K1: a delete in a tail has an item of its own file to delete.
func TestDeleteOfNothing(t *testing.T) {
	a, b := newKept(t, 1, 100), newKept(t, 2, 0)
	there := a.there[0]
	tail := hashes.NewTail(b.at, 0, b.file.WritePage)
	if err := tail.Add(hashes.Delete, there, b.now); err != nil {
		t.Fatal(err)
	}
	b.at, _, _ = tail.End()
	m, err := openKept(t, context.Background(), 2, 1<<20, agesBySecond, a.kept(), b.kept())
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	err = m.Each(context.Background(), func([]uint64, []uint8) error { return nil })
	if !errors.As(err, new(*layout.CorruptError)) || !errors.Is(err, recovery.ErrHashes) {
		t.Error(err)
	}
}

// TestTailsKeepTheBudget: the spool of tails has room for the operation in its words, whatever the
// budget, and keeps the smallest budget of a build with up to eight files.
func TestTailsKeepTheBudget(t *testing.T) {
	const perWorker = 1 << 20
	for _, inputs := range []int{1, 2, 8, 9, MostInputs} {
		for _, workers := range []int{1, 3, 64} {
			for _, n := range []int{1, fewParts, maxParts} {
				m := &Merged{inputs: make([]input, inputs), n: n}
				budget := int64(workers) * perWorker
				s, collectors := m.newTails(newTestDraft(t), workers, budget)
				last := newOperation(inputs-1, keptAges-1, hashes.Delete)
				if m.tails = s; uint64(last)>>(64-s.shift) != 0 {
					t.Errorf("%d inputs: %d partitions, and an operation of %#x", inputs, s.parts(), uint64(last))
				}
				const h = 0x123456789abcdef0
				if e := m.entry(int(uint64(h)>>s.shift), m.word(h, last)); e != (entry{h, last}) {
					t.Errorf("%d inputs: a word of %#x and %#x has %#x and %#x", inputs, uint64(h), last, e.hash, e.operation)
				}
				open := int64(collectors * s.parts() * s.chunkLen * 8)
				if inputs <= 8 && (collectors != workers || open > budget/2 || s.room.Load() > budget/2) {
					t.Errorf("%d inputs, %d workers: %d collectors, %d bytes of open chunks and %d of others", inputs, workers, collectors, open, s.room.Load())
				}
			}
		}
	}
}

// TestPageWriter: pages come to their places in the order in which they were written, and few of them
// wait for that.
func TestPageWriter(t *testing.T) {
	const pages = 3*writeAtOnce + 5
	f := new(keptFile)
	w := pageFile{file: f}
	for i := range uint64(pages) {
		if err := w.write(i+1, &hashes.Page{i + 1}); err != nil {
			t.Fatal(err)
		}
		if waiting := i + 2 - max(uint64(len(f.pages)), 1); waiting > writeAtOnce {
			t.Fatalf("%d pages wait", waiting)
		}
	}
	if err := w.write(0, &hashes.Page{99}); err != nil || len(f.pages) != pages+1 || f.pages[0][0] != 0 {
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
