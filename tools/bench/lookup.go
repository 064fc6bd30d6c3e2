package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"

	"github.com/mmapfilter/mmapfilter/layout/kernel"
	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/mmapfilter/mmapfilter/tools/bench/peer"
	"github.com/mmapfilter/mmapfilter/tools/internal/figures"
)

// newLookup returns the command that compares lookups with random reads of lines of the same
// file, for every layout, in a large file and in one that fits a cache.
func newLookup() command {
	small := figures.Size(256 << 10)
	blocks := 8
	list := variantList(variants())
	fastest := kernel.InUse().String()
	isa := fastest
	return command{
		flags: func(s *session) {
			s.flags.Var(&list, "layouts", "default, which is a rate of 1 %, and layouts with f=12, comma-separated")
			s.flags.Var(&small, "small", "size of the lines of another filter, which fits the second cache together with what is asked")
			s.flags.StringVar(&isa, "kernel", isa, "code that looks up, one of "+strings.Join(kernel.Names(), ", "))
			s.flags.IntVar(&blocks, "blocks", blocks, "how many times 16,384 keys a turn has")
		},
		short: map[string]string{"size": "1MiB", "small": "64KiB", "rounds": "2", "blocks": "1"},
		run: func(s *session) error {
			if blocks < 1 {
				return errors.New("no blocks, no figures")
			}
			if err := kernel.Use(isa); err != nil {
				return err
			}
			defer kernel.Use(fastest)
			for _, bytes := range []figures.Size{s.size, small} {
				for _, v := range list {
					if err := s.lookups(v, int64(bytes), blocks); err != nil {
						return err
					}
				}
			}
			return nil
		},
	}
}

// An asked says which keys are looked up. Of mixed keys, half are present on average.
type asked string

const (
	absent  asked = "absent"
	present asked = "present"
	mixed   asked = "mixed"
)

// A question is one way of looking up keys.
type question struct {
	call  string
	batch int
	keys  asked
}

func questions() (all []question) {
	for _, batch := range []int{64, 256, 1024, 4096} {
		for _, keys := range []asked{absent, present, mixed} {
			all = append(all, question{"ContainsHashes", batch, keys})
		}
	}
	for _, keys := range []asked{absent, present, mixed} {
		all = append(all, question{"ContainsBatch", 1024, keys})
	}
	for _, keys := range []asked{absent, present} {
		all = append(all, question{"Contains", 1, keys}, question{"ContainsHash", 1, keys})
	}
	return all
}

// lookups measures one file, and prints its table.
func (s *session) lookups(v variant, bytes int64, blocks int) (err error) {
	n := v.keys(bytes)
	path, f, err := s.build("lookup.mmf", v.options(n), n)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	all := questions()
	reads, times, err := s.questions(path, f, n, all, blocks)
	if err != nil {
		return err
	}
	s.printf("\n%s\n", s.describe(f.Stats()))
	best, which := reads[0], "64 prefetches in flight"
	if figures.Median(reads[1]) < figures.Median(best) {
		best, which = reads[1], "without prefetches"
	}
	s.printf("The limit: random reads of lines, %s, which are the faster ones here.\n", which)
	t := figures.NewTable(v.name(), "batch", "keys", "ns", "over the limit")
	for i, name := range []string{"random reads of lines, 64 prefetches in flight", "random reads of lines, without prefetches", "random reads of lines, a chain of dependent reads"} {
		t.Row(name, "", "", figures.Digits(figures.Median(reads[i])), figures.Digits(figures.MedianRatio(reads[i], best)))
	}
	for i, q := range all {
		t.Row(q.call, fmt.Sprint(q.batch), string(q.keys), figures.Digits(figures.Median(times[i])), "**"+figures.Digits(figures.MedianRatio(times[i], best))+"**")
	}
	s.print(t)
	return nil
}

// questions measures some questions and the three kinds of reads, in nanoseconds.
func (s *session) questions(path string, f *mmapfilter.Filter, n uint64, all []question, blocks int) (reads, times [][]float64, err error) {
	l, err := openLimit(path, s.seed)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, l.close()) }()
	a := newAsker(f, n, s.seed)
	kinds := []func(int) uint64{l.prefetched, l.plain, l.chain}
	v, err := s.takeTurns(len(kinds)+len(all), func(i int) (float64, error) {
		if i < len(kinds) {
			return timeReads(kinds[i], blocks), nil
		}
		return a.turn(all[i-len(kinds)], blocks)
	})
	if err != nil {
		return nil, nil, err
	}
	return v[:len(kinds)], v[len(kinds):], nil
}

// timeReads returns the time of one read, in nanoseconds, after a block of reads to warm up.
func timeReads(read func(int) uint64, blocks int) float64 {
	sum := read(peer.BlockKeys)
	n := blocks * peer.BlockKeys
	took := peer.Timed(func() { sum += read(n) })
	runtime.KeepAlive(sum) // keeps the compiler from dropping the reads
	return float64(took.Time()) / float64(n)
}

// An asker looks up keys that no earlier turn has looked up.
type asker struct {
	filter *mmapfilter.Filter
	n      uint64 // keys in the filter
	seed   uint64
	rng    *rand.PCG

	keys   []peer.Key
	slices [][]byte // of keys
	hashes []uint64
	found  []bool
}

func newAsker(f *mmapfilter.Filter, n, seed uint64) *asker {
	a := &asker{filter: f, n: n, seed: seed, rng: rand.NewPCG(seed, 64)}
	a.keys = make([]peer.Key, peer.BlockKeys)
	a.hashes, a.found = make([]uint64, len(a.keys)), make([]bool, len(a.keys))
	for i := range a.keys {
		a.slices = append(a.slices, a.keys[i][:])
	}
	return a
}

// turn returns the time of one key, in nanoseconds, after a block to warm up.
func (a *asker) turn(q question, blocks int) (float64, error) {
	var sum peer.Count
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
	return float64(sum.Time()) / float64(blocks*len(a.keys)), nil
}

// draw makes the keys of a block, and returns how many of them are in the filter.
func (a *asker) draw(q question) (in uint64) {
	for i := range a.keys {
		x := a.rng.Uint64()
		number := x >> 1 % a.n
		switch {
		case q.keys == absent, q.keys == mixed && x&1 == 0:
			number = peer.Absent + x>>24
		default:
			in++
		}
		a.keys[i].Set(a.seed, number)
		if q.call != "Contains" && q.call != "ContainsBatch" {
			a.hashes[i] = a.filter.Hash(a.keys[i][:])
		}
	}
	return in
}

// block looks up the keys of a block, and counts those that may be present.
func (a *asker) block(q question) peer.Count {
	f := a.filter
	c := peer.Timed(func() {
		switch q.call {
		case "ContainsHashes":
			for i := 0; i < len(a.hashes); i += q.batch {
				f.ContainsHashes(a.hashes[i:i+q.batch], a.found[i:])
			}
		case "ContainsBatch":
			for i := 0; i < len(a.slices); i += q.batch {
				f.ContainsBatch(a.slices[i:i+q.batch], a.found[i:])
			}
		case "ContainsHash":
			for i := range a.hashes {
				a.found[i] = f.ContainsHash(a.hashes[i])
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
