package main

import (
	"errors"
	"math/bits"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/kernel"
	"github.com/mmapfilter/mmapfilter/recovery"
	"github.com/mmapfilter/mmapfilter/recovery/osfile"
)

// lineWords is the number of words in a line of 64 bytes.
const lineWords = layout.LineBytes / 8

// inFlight is how many lines are prefetched ahead of the line that is read. That is more than the
// number of cache misses that a processor can have in flight.
const inFlight = 64

// A limit reads random lines of 64 bytes of a mapped file, and nothing else. No lookup that reads a
// line can be faster than the faster of two methods, prefetched and plain. The method plain is
// faster if a cache holds the lines, since prefetching a line then takes longer than reading it.
type limit struct {
	words []uint64 // of the lines
	lines uint64
	state uint64 // of the random number generator
	close func() error
}

// openLimit maps the lines of a filter file, and loads all of them into memory.
func openLimit(path string, seed uint64) (*limit, error) {
	f, head, err := osfile.OpenFile(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	end := layout.OffRegion + head.Geometry.RegionBytes
	m, err := osfile.Map(f, end, false)
	if err != nil {
		return nil, err
	}
	if err := m.Populate(false, nil); err != nil {
		return nil, errors.Join(err, m.Unmap())
	}
	l := newLimit(recovery.Words(m.Data[layout.OffRegion:end]), seed)
	l.close = m.Unmap
	return l, nil
}

func newLimit(words []uint64, seed uint64) *limit {
	return &limit{words: words, lines: uint64(len(words) / lineWords), state: seed}
}

// Line numbers are the scaled high bits of a linear congruential generator modulo 2^64 with
// Knuth's multiplier (MMIX). Computing one takes a multiplication or two, which the processor
// does while it waits for memory.
const (
	lcgFactor = 6364136223846793005
	lcgTerm   = 1442695040888963407
)

// prefetched reads n lines, and prefetches inFlight lines ahead. It runs the generator twice,
// for the line to prefetch and for the line to read, so that only lines are in the cache.
func (l *limit) prefetched(n int) (sum uint64) {
	words, lines := l.words, l.lines
	read, ask := l.state, l.state
	for range inFlight {
		ask = ask*lcgFactor + lcgTerm
		line, _ := bits.Mul64(ask, lines)
		kernel.Prefetch(&words[line*lineWords])
	}
	for range n {
		ask = ask*lcgFactor + lcgTerm
		line, _ := bits.Mul64(ask, lines)
		kernel.Prefetch(&words[line*lineWords])
		read = read*lcgFactor + lcgTerm
		line, _ = bits.Mul64(read, lines)
		sum += words[line*lineWords]
	}
	l.state = ask // the next call reads other lines than those prefetched here
	return sum
}

// plain reads n lines that do not depend on one another. The processor decides how many reads
// are in flight.
func (l *limit) plain(n int) (sum uint64) {
	words, lines, x := l.words, l.lines, l.state
	for range n {
		x = x*lcgFactor + lcgTerm
		line, _ := bits.Mul64(x, lines)
		sum += words[line*lineWords]
	}
	l.state = x
	return sum
}

// chain reads n lines, each of which determines the next.
func (l *limit) chain(n int) (sum uint64) {
	words, lines, x := l.words, l.lines, l.state
	for range n {
		x = x*lcgFactor + lcgTerm
		line, _ := bits.Mul64(x, lines)
		word := words[line*lineWords]
		sum += word
		x += word
	}
	l.state = x
	return sum
}
