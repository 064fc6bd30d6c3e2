package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
)

// newLookup returns the command that compares lookups with random reads of lines of the same file.
func newLookup(s *session) command {
	l := &lookupRun{session: s}
	listFlag(s, &l.sizes, "sizes", "1GiB,256KiB", "sizes of the lines of the filters, instead of -size", parseSize)
	s.flags.IntVar(&l.blocks, "blocks", 8, "how many times 16,384 keys a turn has")
	return command{map[string]string{"sizes": "1MiB,64KiB", "rounds": "2", "blocks": "1"}, l.run}
}

type lookupRun struct {
	*session
	sizes  []Size
	blocks int
}

func (l *lookupRun) run() error {
	if l.blocks < 1 {
		return errors.New("-blocks must be at least 1")
	}
	for _, size := range l.sizes {
		m, err := l.measure(size, questions())
		if err != nil {
			return err
		}
		l.report(m)
	}
	return nil
}

// An asked says which keys are looked up.
type asked string

const (
	absent  asked = "absent"
	present asked = "present"
)

// A question is one way of looking up keys.
type question struct {
	call  string
	batch int
	keys  asked
}

func questions() []question {
	return []question{
		{"ContainsHashes", 1024, absent}, {"ContainsBatch", 1024, absent}, {"ContainsBatch", 1024, present},
		{"Contains", 1, absent}, {"Contains", 1, present},
	}
}

// A lookupMeasure has times in nanoseconds of all rounds.
type lookupMeasure struct {
	size   Size
	of     string // the filter, and how it is mapped
	keys   uint64
	all    []question
	reads  [3][]float64 // with prefetches, without prefetches, and in a chain of dependent reads
	times  [][]float64  // of each question
	limit  []float64    // the faster of reads with prefetches and without
	faster string
}

// measure measures a file. Reads and lookups take turns.
func (l *lookupRun) measure(size Size, all []question) (m *lookupMeasure, err error) {
	n := byDefault.keys(int64(size))
	path, f, err := l.build("lookup.mmf", byDefault.options(n), n)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	reader, err := openLimit(path, l.seed)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, reader.close()) }()
	m = &lookupMeasure{size: size, of: l.describe(f.Stats()), keys: n, all: all}
	a := newAsker(f, n, l.seed)
	kinds := []func(int) uint64{reader.prefetched, reader.plain, reader.chain}
	v, err := l.takeTurns(len(kinds)+len(all), func(i int) (float64, error) {
		if i < len(kinds) {
			return timeReads(kinds[i], l.blocks), nil
		}
		return a.turn(all[i-len(kinds)], l.blocks)
	})
	if err != nil {
		return nil, err
	}
	copy(m.reads[:], v)
	m.times = v[len(kinds):]
	m.limit, m.faster = m.reads[0], "64 prefetches in flight"
	if Median(m.reads[1]) < Median(m.limit) {
		m.limit, m.faster = m.reads[1], "without prefetches"
	}
	return m, nil
}

func (l *lookupRun) report(m *lookupMeasure) {
	l.printf("\n%s\nThe limit: random reads of lines, %s, which are the faster ones here.\n", m.of, m.faster)
	t := NewTable(byDefault.name(), "batch", "keys", "ns", "over the limit")
	for i, name := range []string{"random reads of lines, 64 prefetches in flight", "random reads of lines, without prefetches", "random reads of lines, a chain of dependent reads"} {
		t.Row(name, "", "", Digits(Median(m.reads[i])), Digits(MedianRatio(m.reads[i], m.limit)))
	}
	for i, q := range m.all {
		t.Row(q.call, fmt.Sprint(q.batch), string(q.keys), Digits(Median(m.times[i])), "**"+Digits(MedianRatio(m.times[i], m.limit))+"**")
	}
	l.print(t)
}

// timeReads returns the time of one read, in nanoseconds, after a block of reads to warm up.
func timeReads(read func(int) uint64, blocks int) float64 {
	sum := read(BlockKeys)
	n := blocks * BlockKeys
	took := Timed(func() { sum += read(n) })
	runtime.KeepAlive(sum) // keeps the compiler from dropping the reads
	return float64(took.Processor) / float64(n)
}

// An asker looks up keys that no earlier turn has looked up.
type asker struct {
	filter *mmapfilter.Filter
	n      uint64 // keys in the filter
	seed   uint64
	rng    *rand.PCG

	keys   []Key
	slices [][]byte // of keys
	hashes []uint64
	found  []bool
}

func newAsker(f *mmapfilter.Filter, n, seed uint64) *asker {
	a := &asker{filter: f, n: n, seed: seed, rng: rand.NewPCG(seed, 64)}
	a.keys = make([]Key, BlockKeys)
	a.hashes, a.found = make([]uint64, len(a.keys)), make([]bool, len(a.keys))
	for i := range a.keys {
		a.slices = append(a.slices, a.keys[i][:])
	}
	return a
}

// turn returns the time of one lookup, in nanoseconds, after a block to warm up.
func (a *asker) turn(q question, blocks int) (float64, error) {
	var sum Count
	for block := range blocks + 1 {
		wanted := a.draw(q)
		c := a.block(q)
		if c.Keys < wanted {
			return 0, fmt.Errorf("%s found %d of %d keys that are in the filter", q.call, c.Keys, wanted)
		}
		if block > 0 {
			sum.Clock += c.Clock
			sum.Processor += c.Processor
		}
	}
	return float64(sum.Processor) / float64(blocks*len(a.keys)), nil
}

// draw makes the keys of a block, and returns how many of them are in the filter.
func (a *asker) draw(q question) (in uint64) {
	for i := range a.keys {
		x := a.rng.Uint64()
		number := Absent + x>>24
		if q.keys == present {
			number = x >> 1 % a.n
			in++
		}
		a.keys[i].Set(a.seed, number)
		if q.call == "ContainsHashes" {
			a.hashes[i] = a.filter.Hash(a.keys[i][:])
		}
	}
	return in
}

// block looks up the keys of a block, and counts the keys that may be present.
func (a *asker) block(q question) Count {
	f := a.filter
	c := Timed(func() {
		switch q.call {
		case "ContainsHashes":
			for i := 0; i < len(a.hashes); i += q.batch {
				f.ContainsHashes(a.hashes[i:i+q.batch], a.found[i:])
			}
		case "ContainsBatch":
			for i := 0; i < len(a.slices); i += q.batch {
				f.ContainsBatch(a.slices[i:i+q.batch], a.found[i:])
			}
		default:
			for i := range a.keys {
				a.found[i] = f.Contains(a.keys[i][:])
			}
		}
	})
	for _, found := range a.found {
		if found {
			c.Keys++
		}
	}
	return c
}
