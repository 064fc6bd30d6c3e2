package build

import (
	"cmp"
	"context"
	"errors"
	"math/bits"
	"slices"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/hashes"
	"github.com/mmapfilter/mmapfilter/recovery"
	"github.com/mmapfilter/mmapfilter/recovery/osfile"
)

// Ages choose the age of an item, from its age in the old base or from the time of its insert in the
// tail. In a build, the results are ages of the new base.
type Ages struct {
	Base func(age hashes.Age) int
	Tail func(time uint64) int

	window Window // of the new base; then Base and Tail are nil
}

// leastInPart is the least number of items in a partition of kept hashes, unless the file has fewer
// items. Finding the items of a partition takes about as long as reading a thousand items.
const leastInPart = 1 << 14

// keptParts chooses the number of partitions for so many items and operations.
func keptParts(entries uint64) int {
	n := spoolParts(entries)
	for n > 1 && entries/uint64(n) < leastInPart {
		n /= 2
	}
	return n
}

// KeptBudget is how many bytes of kept hashes a reader holds in memory, unless it builds a file: a
// quarter of the default budget of a build.
const KeptBudget = 64 << 20

// OpenKept reads the tails of files of hashes, and spools their operations. It uses at most workers
// goroutines and budget bytes of memory. If a file is damaged, the error is an *InputError and
// matches recovery.ErrHashes.
func OpenKept(ctx context.Context, dir scratcher, workers int, budget int64, kept []recovery.Kept, ages *Ages) (m *Merged, err error) {
	defer func() { err = hashesError(err) }()
	m = &Merged{inputs: make([]input, len(kept)), inserts: true}
	for i := range m.inputs {
		in := &m.inputs[i]
		in.Kept, in.number = kept[i], i
		in.Header.Ages = slices.Clone(in.Header.Ages)
		for j := range in.Header.Ages {
			a := &in.Header.Ages[j]
			a.First, a.Last = max(a.First, in.AgesFrom), max(a.Last, in.AgesFrom)
		}
		m.entries += in.Header.Items
	}
	past, err := m.surveyTails(ctx, workers, ages.window)
	if err != nil {
		return nil, err
	}
	if ages.Base == nil {
		ages = m.joinAges(past, ages.window)
	}
	for i := range m.inputs {
		in := &m.inputs[i]
		for _, a := range in.Header.Ages {
			in.ageOf = append(in.ageOf, ages.Base(a))
		}
	}
	m.n = keptParts(m.entries)
	if err := m.spoolTails(ctx, dir, workers, budget, ages.Tail); err != nil {
		m.Close()
		return nil, err
	}
	return m, nil
}

// hashesError makes damage of NAME.hashes match recovery.ErrHashes.
func hashesError(err error) error {
	if e := new(layout.CorruptError); errors.As(err, &e) && e.Region == layout.RegionHashes && !errors.Is(err, recovery.ErrHashes) {
		return &recovery.HashesError{Err: err}
	}
	return err
}

// Expired gives age 0 to the items that were certainly inserted before a time, in nanoseconds since
// 1970, and age 1 to all other items.
func Expired(before uint64) *Ages {
	tail := func(time uint64) int {
		if time < before && before-time >= hashes.TimeStep {
			return 0
		}
		return 1
	}
	return &Ages{Base: func(a hashes.Age) int { return tail(a.Last) }, Tail: tail}
}

// Joined divides items into at most hashes.MostAges ages, by the times at which they were inserted.
// All ages have about the same number of items or, if items leave by themselves, each age has the
// items that leave together.
func Joined(w Window) *Ages { return &Ages{window: w} }

// Unaged gives age 0 to all items.
func Unaged() *Ages {
	return &Ages{Base: func(hashes.Age) int { return 0 }, Tail: func(uint64) int { return 0 }}
}

// Each calls do with the items in ascending order, many at a time, and with their ages. It stops at
// the first error. Call Each once. If a file is damaged, the error matches recovery.ErrHashes.
func (m *Merged) Each(ctx context.Context, do func(sorted []uint64, ages []uint8) error) error {
	err := m.each(ctx, true, do)
	if err == nil {
		err = m.done()
	}
	return hashesError(err)
}

// Strays calls do for the hashes whose deletes, since the base, have taken an item of another hash.
// Call it before Each.
func (m *Merged) Strays(ctx context.Context, do func(hash uint64)) error {
	if m.inserts {
		return nil
	}
	held := m.Held
	defer func() { m.Held = held }()
	m.Held = func(hash uint64, _ int64, stray uint64) {
		if stray > 0 {
			do(hash)
		}
	}
	return hashesError(m.each(ctx, false, func([]uint64, []uint8) error { return nil }))
}

// each loads one partition after the other.
func (m *Merged) each(ctx context.Context, drop bool, do func(sorted []uint64, ages []uint8) error) error {
	w := new(worker)
	for i := range m.Parts() {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		sorted, err := m.load(w, i, i+1, drop, false)
		if err == nil {
			err = do(sorted, w.ages)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Beside creates the files of a spool beside the file at a path.
type Beside string

// Scratch creates a file.
func (path Beside) Scratch() (*osfile.Scratch, error) { return osfile.ScratchBeside(string(path)) }

// joinAges makes the ages of all items, from the ages of the bases and from past, which has
// the times of the tails.
func (m *Merged) joinAges(past history, w Window) *Ages {
	all := slices.Clone([]hashes.Age(past))
	for i := range m.inputs {
		all = append(all, m.inputs[i].Header.Ages...)
	}
	byLast := func(a, b hashes.Age) int {
		return cmp.Or(cmp.Compare(a.Last, b.Last), cmp.Compare(a.First, b.First))
	}
	slices.SortFunc(all, byLast)
	var joined []hashes.Age
	var to []int
	if w.Length > 0 {
		joined, to = w.join(all)
	} else {
		joined, to = join(all, hashes.MostAges)
	}
	if m.ages = joined; len(joined) == 0 {
		m.ages = []hashes.Age{{}}
	}
	ageOf := func(a hashes.Age) int {
		i, _ := slices.BinarySearchFunc(all, a, byLast)
		return to[i]
	}
	return &Ages{Base: ageOf, Tail: func(time uint64) int { return ageOf(past[past.find(time)]) }}
}

// Parts returns how often Each calls do.
func (m *Merged) Parts() int { return m.n }

// Close releases the memory and the files.
func (m *Merged) Close() { m.tails.Close() }

func (m *Merged) count() (keys uint64, all bool) { return m.entries, m.inserts }

// done checks the number and the sum of the items of each base.
func (m *Merged) done() error {
	for i := range m.inputs {
		in := &m.inputs[i]
		if n, sum := in.items.Load(), in.sum.Load(); n != in.Header.Items || sum != in.Header.Sum {
			return in.fault(hashes.Corrupt(0, "the base has %d items of sum %#x, not %d of sum %#x", n, sum, in.Header.Items, in.Header.Sum))
		}
	}
	return nil
}

// load implements source.
func (m *Merged) load(w *worker, from, to int, drop, distinct bool) ([]uint64, error) {
	b := &w.merge
	b.entries, b.ends = b.entries[:0], b.ends[:0]
	shift := 64 - uint(bits.Len(uint(m.n-1)))
	first, last := uint64(from)<<shift, uint64(to)<<shift-1 // wraps around to the last hash
	for i := range m.inputs {
		var err error
		if b.entries, err = m.inputs[i].appendBase(b.entries, first, last, drop); err != nil {
			return nil, m.inputs[i].fault(err)
		}
		b.ended()
	}
	each := m.tails.Parts() / m.n
	for i := from * each; i < to*each; i++ {
		if err := w.appendEntries(m.tails, i, drop); err != nil {
			return nil, err
		}
	}
	b.ended()
	b.merge()
	w.read = len(b.entries)
	w.hashes, w.ages = b.apply(w.hashes[:0], w.ages[:0], distinct, m.Held)
	return w.hashes, nil
}

// appendBase appends the items of the base from first to last.
func (in *input) appendBase(to []entry, first, last uint64, count bool) ([]entry, error) {
	b, end := baseReader{kept: &in.Kept}, in.Header.FirstTail()
	number, err := b.find(first)
	start, sum := len(to), uint64(0)
	for beyond := false; number < end && !beyond && err == nil; number++ {
		err = b.read(number, func(it hashes.Item) {
			if beyond = it.Hash > last; it.Hash >= first && !beyond {
				e := hashes.Entry{Op: layout.Insert, Items: 1, Hash: it.Hash}
				to = append(to, newEntry(in.number, in.ageOf[it.Age], e))
				sum += it.Hash
			}
		})
	}
	if err == nil && count {
		in.items.Add(uint64(len(to) - start))
		in.sum.Add(sum)
	}
	return to, err
}
