package builder

import (
	"context"
	"math/bits"
	"slices"

	"github.com/mmapfilter/mmapfilter/layout/hashes"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/sweep"
	"github.com/mmapfilter/mmapfilter/recovery"
)

// All workers read the tails, stretch by stretch. They do so twice: only the first pass tells which ages
// there are, and how many operations there are to partition.
const (
	// stretchPages is how many pages a stretch has: few, so that a cancelled build ends soon.
	stretchPages = 64
	// roundStretches is how many stretches the first pass reads before it puts together, in their order,
	// what it found in them. It bounds the memory for that.
	roundStretches = 256
)

// A stretch is what is found in a stretch of a tail.
type stretch struct {
	begin, end tailPlace
	spans      []span
	deletes    uint64
	err        error
}

// A span has operations that follow one another. Their time is the same.
type span struct{ time, inserts uint64 }

// stretches returns how many stretches the tail has: at least one.
func (in *input) stretches() int {
	pages := max(in.Counted.Pages, in.header.Pages+2) - in.header.Pages - 1
	return int((pages + stretchPages - 1) / stretchPages)
}

// A tailReader reads tails for one goroutine.
type tailReader struct {
	words [(1 + stretchPages) * hashes.PageWords]uint64
}

// page returns a page that was read.
func (r *tailReader) page(i int) *hashes.Page {
	return (*hashes.Page)(r.words[i*hashes.PageWords:])
}

// readStretch calls each for the operations of stretch i of the tail of an input.
func (r *tailReader) readStretch(in *input, i int, each func(hashes.Entry)) (begin, end tailPlace, err error) {
	number := in.header.Pages + 1 + uint64(i)*stretchPages
	pages := int(min(number+stretchPages, max(number, in.Counted.Pages)) - number)
	before := number - 1
	if i == 0 {
		before = 0 // in the order of checks
	}
	err = recovery.ReadPages(in.File, before, r.words[:hashes.PageWords])
	if err == nil {
		err = recovery.ReadPages(in.File, number, r.words[hashes.PageWords:][:pages*hashes.PageWords])
	}
	if err != nil {
		return begin, end, err
	}
	begin.Place = hashes.Place{Identity: in.Counted.Identity, Number: number, Before: r.page(0).Check(before)}
	if pages > 0 {
		begin.operations = r.page(1).OperationsBefore()
	}
	end = begin
	for n := 1; n <= pages && err == nil; n++ {
		end.Place, end.operations, err = hashes.ReadTail(r.page(n), end.Place, end.operations, each)
	}
	return begin, end, err
}

// survey finds what is in stretch i of the tail.
func (b *stretch) survey(r *tailReader, in *input, i int) {
	b.spans, b.deletes = b.spans[:0], 0
	b.begin, b.end, b.err = r.readStretch(in, i, func(e hashes.Entry) {
		if e.Kind == hashes.Delete {
			b.deletes++
			return
		}
		if n := len(b.spans); n == 0 || b.spans[n-1].time != e.Time {
			b.spans = append(b.spans, span{time: e.Time})
		}
		b.spans[len(b.spans)-1].inserts++
	})
}

// follow checks that stretch i of the tail fits those before it, and that the last one has the check
// that the superblock names.
func (b *stretch) follow(in *input, i int) error {
	if i == 0 {
		in.surveyed = tailPlace{Place: b.begin.Place}
	}
	switch {
	case b.err != nil:
		return b.err
	case b.begin != in.surveyed:
		return hashes.Corrupt(b.begin.Number, "it says that %d operations of the tail are before it, not %d", b.begin.operations, in.surveyed.operations)
	case i == in.stretches()-1 && b.end.Before != in.Counted.Check:
		return hashes.Corrupt(b.end.Number-1, "the check is not the one that the superblock names")
	}
	in.surveyed = b.end
	return nil
}

// surveyTails reads the tails the first time. It checks them, counts their items, and returns the times
// of the inserts and how many operations there are. None of that depends on the workers, and neither
// does an error: it names the first page that is wrong.
func (m *Merged) surveyTails(ctx context.Context, workers int) (past history, operations uint64, err error) {
	stretches := make([]stretch, min(roundStretches, m.stretches()))
	for first := 0; first < m.stretches(); first += len(stretches) {
		stretches = stretches[:min(len(stretches), m.stretches()-first)]
		err := sweep.Each(ctx, workers, len(stretches), nil, func() (run func(int) error, finish func() error) {
			r := new(tailReader)
			run = func(i int) error {
				in, n := m.stretch(first + i)
				stretches[i].survey(r, in, n)
				return nil
			}
			return run, func() error { return nil }
		})
		if err != nil {
			return nil, 0, err
		}
		for i := range stretches {
			b := &stretches[i]
			in, n := m.stretch(first + i)
			if err := b.follow(in, n); err != nil {
				return nil, 0, err
			}
			operations += b.end.operations - b.begin.operations
			m.items -= b.deletes
			for _, s := range b.spans {
				past.add(s.time, s.inserts)
				m.items += s.inserts
			}
		}
	}
	return past, operations, nil
}

// word returns what the spool of the tails has for an operation: the hash without its first bits,
// which the partition tells, and the operation, which takes their place. So a word takes no more room
// than a hash, and words are sorted as fast.
func (m *Merged) word(h uint64, o operation) uint64 { return h<<(64-m.tails.shift) | uint64(o) }

// entry returns the entry of a word of a partition of the spool.
func (m *Merged) entry(part int, word uint64) entry {
	n := 64 - m.tails.shift
	return entry{uint64(part)<<m.tails.shift | word>>n, operation(word & (1<<n - 1))}
}

// newTails makes the spool of the tails. It has enough partitions for an operation to have room in a
// word, even if the budget is too small for them: with many inputs, the smallest budget is.
func (m *Merged) newTails(dir scratcher, workers int, budget int64) (tails *spool, collectors int) {
	need := 1 << (operationInput + bits.Len(uint(len(m.inputs)-1)))
	least := int64(2 * need * 8 * minChunkLen) // for each collector
	collectors = int(min(int64(workers), max(budget/least, 1)))
	return newSpool(dir, collectors, max(budget, least), max(m.n, need)), collectors
}

// spoolTails reads the tails the second time, and spools their operations.
func (m *Merged) spoolTails(ctx context.Context, dir scratcher, workers int, budget int64, ageAt func(time uint64) int) error {
	m.tails, workers = m.newTails(dir, workers, budget)
	m.n = min(m.n, m.tails.parts())
	return sweep.Each(ctx, workers, m.stretches(), nil, func() (run func(int) error, finish func() error) {
		r, c := new(tailReader), m.tails.collector()
		run = func(i int) error {
			in, n := m.stretch(i)
			age, at, known := 0, uint64(0), false // of the last insert
			var failed error
			_, _, err := r.readStretch(in, n, func(e hashes.Entry) {
				o := newOperation(in.number, 0, hashes.Delete)
				if e.Kind == hashes.Insert {
					if !known || e.Time != at {
						age, at, known = ageAt(e.Time), e.Time, true
					}
					o = newOperation(in.number, age, hashes.Insert)
				}
				if failed == nil {
					failed = c.addTo(e.Hash>>m.tails.shift, m.word(e.Hash, o))
				}
			})
			if err == nil {
				err = failed
			}
			return err
		}
		return run, c.flush
	})
}

// appendTails appends the sorted entries of a partition of the spool.
func (m *Merged) appendTails(w *worker, part int, drop bool) error {
	n := m.tails.size(part, part+1)
	w.hashes = w.hashes[:0]
	err := m.tails.each(part, part+1, drop, func(chunk []uint64) { w.hashes = append(w.hashes, chunk...) })
	if err != nil {
		return err
	}
	w.tmp = slices.Grow(w.tmp[:0], n)
	for _, word := range sortHashes(w.hashes, w.tmp[:n], 0) {
		w.merge.entries = append(w.merge.entries, m.entry(part, word))
	}
	return nil
}

// stretches returns how many stretches the tails have.
func (m *Merged) stretches() (n int) {
	for i := range m.inputs {
		n += m.inputs[i].stretches()
	}
	return n
}

// stretch returns the input that has stretch i of the tails, and which of its stretches that is.
func (m *Merged) stretch(i int) (in *input, n int) {
	in = &m.inputs[0]
	for ; i >= in.stretches(); in = &m.inputs[in.number+1] {
		i -= in.stretches()
	}
	return in, i
}
