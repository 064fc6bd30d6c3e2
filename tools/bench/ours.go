package main

import (
	"fmt"
	"iter"
	"math"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/mmapfilter/mmapfilter/tools/bench/peer"
	"github.com/mmapfilter/mmapfilter/tools/internal/figures"
)

// fingerprintBits is f of the filters that are compared by time.
const fingerprintBits = 12

// standardLoad is how full they are.
const standardLoad = 0.95

// bucketSize is b of a layout with that f: 4 slots, which is the paper's choice,
// where a word does not decide.
func bucketSize(k layout.Kind, f int) int {
	b := 0
	for _, p := range layout.LegalParams(k) {
		if p.FingerprintBits == f && (b == 0 || p.BucketSize == 4) {
			b = p.BucketSize
		}
	}
	return b
}

// optionsFor are those of a filter for n keys.
func optionsFor(k layout.Kind, f int, n uint64) mmapfilter.Options {
	return mmapfilter.Options{Layout: k, FingerprintBits: f, BucketSize: bucketSize(k, f), Capacity: n, MemoryBudget: 1 << 30}
}

// keysFor is how many keys fill lines of so many bytes to a load.
func keysFor(k layout.Kind, bytes int64, load float64) uint64 {
	p := layout.Params{FingerprintBits: fingerprintBits, BucketSize: bucketSize(k, fingerprintBits)}
	lines := math.Floor(float64(bytes) * 8 / float64(layout.LineBits(k, p)))
	return uint64(load * lines * float64(layout.SlotsPerLine(k, p)))
}

// pieceKeys is how many keys are worked through between two looks at whether the run
// is interrupted.
const pieceKeys = 1 << 20

// keySequence yields n keys, or why it stops before.
func (s *session) keySequence(n uint64) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		var key peer.Key
		for i := range n {
			if i%pieceKeys == 0 && s.ctx.Err() != nil {
				yield(nil, s.ctx.Err())
				return
			}
			key.Set(s.seed, i)
			if !yield(key[:], nil) {
				return
			}
		}
	}
}

// add is the Add of a filter, a piece at a time.
func (s *session) add(f peer.Filter, first, n uint64) (sum peer.Count, err error) {
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

// ask is the Ask of a filter, likewise; it counts keys.
func (s *session) ask(f peer.Filter, first, n uint64) (found uint64, err error) {
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

// build builds a filter of n keys and opens it, all of it in memory.
func (s *session) build(name string, opts mmapfilter.Options, n uint64) (path string, f *mmapfilter.Filter, err error) {
	if n == 0 {
		return "", nil, fmt.Errorf("%v lines hold no key; -size and -sizes say how many bytes of them there are", opts.Layout)
	}
	path = s.path(name)
	s.note("%v, f=%d: building from %s keys", opts.Layout, opts.FingerprintBits, figures.Grouped(int64(n)))
	f, err = mmapfilter.Build(s.ctx, path, &opts, s.keySequence(n))
	if err != nil {
		return "", nil, err
	}
	if err := f.Close(); err != nil {
		return "", nil, err
	}
	f, err = mmapfilter.OpenReadOnly(path, &mmapfilter.OpenOptions{Residency: mmapfilter.ResidencyPopulate})
	return path, f, err
}

// describe says which filter it is.
func describe(st mmapfilter.Stats) string {
	return fmt.Sprintf("%v, f=%d, b=%d: %s keys, %.2f %% load, %s", st.Layout, st.FingerprintBits, st.BucketSize,
		figures.Grouped(int64(st.Len)), 100*st.Load, figures.Mebibytes(st.FileBytes))
}
