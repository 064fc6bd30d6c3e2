package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"math"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/mmapfilter"
)

// A variant is one of our filters: the filter of options with only a rate, or a layout of the paper
// with fingerprints of f bits.
type variant struct {
	layout layout.Kind
	f      int     // 0 means that the rate determines it
	rate   float64 // 0 means that f determines it
}

// defaultRate is the rate of options that do not set one.
const defaultRate = 0.01

// byDefault is the filter of empty options.
var byDefault = variant{rate: defaultRate}

// paperLayouts are the layouts of the paper.
var paperLayouts = []layout.Kind{layout.Packed, layout.SemiSorted}

// standardLoad is the load of a filter that is not made for a rate.
const standardLoad = 0.95

// name returns a name such as "mmapfilter, rate 1 %" or "mmapfilter packed, f=12, b=4".
func (v variant) name() string {
	name := "mmapfilter"
	if v.layout != layout.Auto {
		name += " " + v.layout.String()
	}
	if v.rate > 0 {
		return name + ", rate " + percent(v.rate)
	}
	return fmt.Sprintf("%s, f=%d, b=%d", name, v.f, bucketSize(v.layout, v.f))
}

// options returns the options of a filter for n keys.
func (v variant) options(n uint64) mmapfilter.Options {
	opts := mmapfilter.Options{Layout: v.layout, FalsePositiveRate: v.rate, FingerprintBits: v.f, Capacity: n, MemoryBudget: 1 << 30}
	if v.f > 0 {
		opts.BucketSize = bucketSize(v.layout, v.f)
	}
	return opts
}

// keys returns the capacity of a filter of about the given size, at the standard load or at
// the load that its rate allows.
func (v variant) keys(bytes int64) uint64 {
	if v.rate == 0 {
		p := layout.Params{FingerprintBits: v.f, BucketSize: bucketSize(v.layout, v.f)}
		lines := math.Floor(float64(bytes) * 8 / float64(layout.LineBits(v.layout, p)))
		return uint64(standardLoad * lines * float64(layout.SlotsPerLine(v.layout, p)))
	}
	opts := v.options(uint64(bytes)) // a byte a key
	plan, err := opts.Plan()
	if err != nil {
		return 0
	}
	return uint64(float64(bytes) * float64(bytes) / float64(plan.FileBytes-layout.OffRegion))
}

// bucketSize returns b of a layout for f. If the layout leaves a choice, it is 4, as in the paper.
func bucketSize(k layout.Kind, f int) int {
	b := 0
	for _, p := range layout.LegalParams(k) {
		if p.FingerprintBits == f && (b == 0 || p.BucketSize == 4) {
			b = p.BucketSize
		}
	}
	return b
}

// pieceKeys is the number of keys between checks for an interrupt.
const pieceKeys = 1 << 20

// keySequence yields the keys numbered from first up to end, or the reason why it stops early.
func keySequence(ctx context.Context, seed, first, end uint64) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		var key Key
		for i := first; i < end; i++ {
			if i%pieceKeys == 0 && ctx.Err() != nil {
				yield(nil, ctx.Err())
				return
			}
			key.Set(seed, i)
			if !yield(key[:], nil) {
				return
			}
		}
	}
}

// numbers yields n keys of 8 bytes, from first on.
func numbers(first, n uint64) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		var key [8]byte
		for i := range n {
			binary.LittleEndian.PutUint64(key[:], first+i)
			if !yield(key[:], nil) {
				return
			}
		}
	}
}

// add calls the Add of a filter, a piece at a time.
func (s *session) add(f *Filter, first, n uint64) (sum Count, err error) {
	for sum.Keys < n {
		if err := s.ctx.Err(); err != nil {
			return sum, err
		}
		piece := min(n-sum.Keys, pieceKeys)
		c, err := f.Add(first+sum.Keys, piece)
		sum.Add(c)
		if err != nil || c.Keys < piece {
			return sum, err
		}
	}
	return sum, nil
}

// ask calls the Ask of a filter, a piece at a time, and returns the number of keys found.
func (s *session) ask(f *Filter, first, n uint64) (found uint64, err error) {
	for end := first + n; first < end; {
		if err := s.ctx.Err(); err != nil {
			return found, err
		}
		piece := min(end-first, pieceKeys)
		c, err := f.Ask(first, piece)
		if err != nil {
			return found, err
		}
		found += c.Keys
		first += piece
	}
	return found, nil
}

// build builds a filter of n keys, and opens it with all of it in memory.
func (s *session) build(name string, opts mmapfilter.Options, n uint64) (path string, f *mmapfilter.Filter, err error) {
	if n == 0 {
		return "", nil, errors.New("the lines hold no key; give a larger -size or -sizes")
	}
	path = s.path(name)
	s.note("%s: building from %s keys", name, Grouped(int64(n)))
	f, err = mmapfilter.Build(s.ctx, path, &opts, keySequence(s.ctx, s.seed, 0, n))
	if err != nil {
		return "", nil, err
	}
	if err := f.Close(); err != nil {
		return "", nil, err
	}
	f, err = mmapfilter.OpenReadOnly(path, &mmapfilter.OpenOptions{Residency: mmapfilter.ResidencyPopulate})
	if err != nil {
		return "", nil, err
	}
	s.mapped = mountOf(path).kind
	if pages := pagesOf(path); pages != "" {
		s.mapped += ", " + pages
	}
	return path, f, nil
}

// paramsOf returns the parameters of the layout of a filter.
func paramsOf(st mmapfilter.Stats) layout.Params {
	return layout.Params{FingerprintBits: st.FingerprintBits, BucketSize: st.BucketSize, Quotients: st.Quotients, RemainderBits: st.RemainderBits}
}

// describe describes the filter built last, and how it is mapped.
func (s *session) describe(st mmapfilter.Stats) string {
	return fmt.Sprintf("%v, %v: %s keys, %.2f %% load, %s mapped from %s", st.Layout, paramsOf(st),
		Grouped(int64(st.Len)), 100*float64(st.Len)/float64(st.Slots), Mebibytes(st.FileBytes), s.mapped)
}

// percent formats a rate with three digits.
func percent(rate float64) string { return fmt.Sprintf("%.3g %%", 100*rate) }

// A writing says how one of our filters is written to.
type writing struct {
	batch     int // keys in a call of InsertBatch; 0 means one by one, with Insert
	syncEvery int // keys between calls of Sync; 0 means never
}

// live is one of our filters, open for writing.
type live struct {
	filter *mmapfilter.Filter
	writing
	sinceSync int
	keys      [][]byte
	err       error // of a failed operation, except ErrFull
}

// openLive returns the Filter of a filter that is open for writing.
func openLive(f *mmapfilter.Filter, w writing, seed uint64) *Filter {
	l := &live{filter: f, writing: w, keys: make([][]byte, 0, w.batch)}
	insert := Until(l.insert)
	if w.batch > 0 {
		insert = l.insertBatch
	}
	return &Filter{
		Seed:     seed,
		Size:     func() int64 { return f.Stats().FileBytes },
		Insert:   insert,
		Contains: Each(f.Contains),
		Delete:   Each(l.remove),
		Err:      func() error { return l.err },
		End:      f.Close,
	}
}

// createLive creates an empty filter; n keys fill its slots to the standard load.
func (s *session) createLive(path string, v variant, n uint64, w writing) (*Filter, error) {
	opts := v.options(n)
	plan, err := opts.Plan()
	if err != nil {
		return nil, err
	}
	opts.Capacity = uint64(float64(n) * plan.DesignLoad / standardLoad)
	opts.CommitInterval, opts.Seed = -1, s.seed
	f, err := mmapfilter.Create(path, &opts)
	if err != nil {
		return nil, err
	}
	return openLive(f, w, s.seed), nil
}

func (l *live) insert(key []byte) bool { return l.done(1, l.filter.Insert(key)) }

func (l *live) insertBatch(keys []Key) (n int) {
	for n < len(keys) {
		l.keys = l.keys[:0]
		for i := range keys[n:min(n+l.batch, len(keys))] {
			l.keys = append(l.keys, keys[n+i][:])
		}
		inserted, err := l.filter.InsertBatch(l.keys)
		n += inserted
		if !l.done(inserted, err) {
			break
		}
	}
	return n
}

func (l *live) remove(key []byte) bool {
	found, err := l.filter.Delete(key)
	return l.done(1, err) && found
}

// done counts operations, calls Sync when it is due, and keeps an error.
func (l *live) done(operations int, err error) bool {
	if err == nil && l.syncEvery > 0 {
		if l.sinceSync += operations; l.sinceSync >= l.syncEvery {
			l.sinceSync = 0
			err = l.filter.Sync()
		}
	}
	if err != nil && !errors.Is(err, mmapfilter.ErrFull) {
		l.err = err
	}
	return err == nil
}
