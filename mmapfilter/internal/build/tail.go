package build

import (
	"cmp"
	"context"
	"math/bits"
	"slices"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/hashes"
	"github.com/mmapfilter/mmapfilter/recovery"
)

// All workers read the tails, stretch by stretch: recovery.TailPages pages at a time. They read the
// tails twice: the first pass finds out the ages, and how many operations there are, which decides the
// number of partitions.

// roundStretches is how many stretches the first pass reads before it joins their results in order. It
// bounds the memory for results.
const roundStretches = 256

// A stretch has what the first pass found in a stretch of a tail.
type stretch struct {
	begin, end hashes.TailPlace
	spans      []span
	inserts    bool // all its operations are inserts
	err        error
}

// A span has operations that follow one another and have the same time.
type span struct{ time, inserts uint64 }

// stretches returns how many stretches the tail has. It has at least one.
func (in *input) stretches() int {
	pages := in.Counted.Pages - in.Header.FirstTail()
	return int(max(1, (pages+recovery.TailPages-1)/recovery.TailPages))
}

// read calls do for the operations of stretch i of the tail, and returns the place where it begins.
func (in *input) read(r *recovery.TailReader, i int, do func(hashes.Entry)) (begin hashes.TailPlace, err error) {
	if err := r.Seek(&in.Kept, in.Header.FirstTail()+uint64(i)*recovery.TailPages); err != nil {
		return begin, err
	}
	begin = r.At
	_, err = r.Next(do)
	return begin, err
}

// survey finds out what stretch i of the tail has.
func (b *stretch) survey(r *recovery.TailReader, in *input, i int) {
	b.spans, b.inserts = b.spans[:0], true
	b.begin, b.err = in.read(r, i, func(e hashes.Entry) {
		b.inserts = b.inserts && e.Op == layout.Insert
		if e.Op == layout.Delete {
			return
		}
		if n := len(b.spans); n == 0 || b.spans[n-1].time != e.Time {
			b.spans = append(b.spans, span{time: e.Time})
		}
		b.spans[len(b.spans)-1].inserts++
	})
	b.end = r.At
}

// follow checks that stretch i of the tail continues the stretch before.
func (b *stretch) follow(in *input, i int) error {
	switch {
	case b.err != nil:
		return b.err
	case i > 0 && b.begin != in.surveyed:
		return hashes.Corrupt(b.begin.Number, "the page continues a history after operation %d, but the pages before it end at operation %d, or in another history", b.begin.From.Number, in.surveyed.From.Number)
	}
	in.surveyed = b.end
	return nil
}

// surveyTails reads the tails the first time. It checks the tails, counts their operations, and returns
// the times of the operations that may add items. The results do not depend on the number of workers,
// nor does an error, which names the first wrong page.
func (m *Merged) surveyTails(ctx context.Context, workers int, w Window) (past history, err error) {
	stretches := make([]stretch, min(roundStretches, m.stretches()))
	readers := make([]recovery.TailReader, workers)
	for first := 0; first < m.stretches(); first += len(stretches) {
		stretches = stretches[:min(len(stretches), m.stretches()-first)]
		err := Parallel(ctx, workers, len(stretches), nil, func(_ context.Context, worker, i int) error {
			in, n := m.stretch(first + i)
			stretches[i].survey(&readers[worker], in, n)
			return nil
		})
		if err != nil {
			return nil, err
		}
		for i := range stretches {
			b := &stretches[i]
			in, n := m.stretch(first + i)
			if err := b.follow(in, n); err != nil {
				return nil, in.fault(err)
			}
			m.entries += b.end.From.Number - b.begin.From.Number
			m.inserts = m.inserts && b.inserts
			for _, s := range b.spans {
				past.add(max(s.time, in.AgesFrom), s.inserts, w)
			}
		}
	}
	return past, nil
}

// spoolTails reads the tails the second time, and spools their operations.
func (m *Merged) spoolTails(ctx context.Context, dir scratcher, workers int, budget int64, ageAt func(time uint64) int) error {
	m.tails = newSpool(dir, workers, budget, m.n)
	m.n = min(m.n, m.tails.Parts())
	workers = min(workers, m.stretches())
	readers, collectors := make([]recovery.TailReader, workers), make([]*collector, workers)
	for i := range collectors {
		collectors[i] = m.tails.collector()
	}
	err := Parallel(ctx, workers, m.stretches(), nil, func(_ context.Context, worker, i int) error {
		in, n := m.stretch(i)
		age, at, known := 0, uint64(0), false // age and time of the last insert, if known
		var failed error
		_, err := in.read(&readers[worker], n, func(e hashes.Entry) {
			if e.Op != layout.Delete && (!known || e.Time != at) {
				age, at, known = ageAt(max(e.Time, in.AgesFrom)), e.Time, true
			}
			if failed == nil {
				failed = collectors[worker].addEntry(newEntry(in.number, age, e))
			}
		})
		return cmp.Or(in.fault(err), failed)
	})
	for _, c := range collectors {
		if err == nil {
			err = c.flush()
		}
	}
	return err
}

// sortEntries sorts entries whose hashes begin with the same bits; common is the number of these bits.
// It sorts words, which is as fast as sorting hashes: a word has as many of the next bits of the hash as
// fit, and the index of the entry. After that, it sorts entries that are equal in these bits.
func (w *worker) sortEntries(entries []entry, common uint) {
	n := bits.Len(uint(len(entries)))
	w.hashes, w.tmp = w.hashes[:0], slices.Grow(w.tmp[:0], len(entries))
	for i, e := range entries {
		w.hashes = append(w.hashes, e.hash<<common>>n<<n|uint64(i))
	}
	sorted := sortHashes(w.hashes, w.tmp[:len(entries)], 0)
	w.merge.other = slices.Grow(w.merge.other[:0], len(entries))
	for _, word := range sorted {
		w.merge.other = append(w.merge.other, entries[word&(1<<n-1)])
	}
	copy(entries, w.merge.other)
	for i := 0; i < len(sorted); {
		end := i + 1
		for end < len(sorted) && sorted[end]>>n == sorted[i]>>n {
			end++
		}
		if end > i+1 {
			slices.SortFunc(entries[i:end], entry.compare)
		}
		i = end
	}
}

// stretches returns how many stretches the tails have.
func (m *Merged) stretches() (n int) {
	for i := range m.inputs {
		n += m.inputs[i].stretches()
	}
	return n
}

// stretch returns the input that has stretch i of the tails, and the number of the stretch in
// this input.
func (m *Merged) stretch(i int) (in *input, n int) {
	in = &m.inputs[0]
	for ; i >= in.stretches(); in = &m.inputs[in.number+1] {
		i -= in.stretches()
	}
	return in, i
}
