package main

import (
	"errors"
	"fmt"
	"os"
	"sort"

	"github.com/bits-and-blooms/bloom/v3"
	"github.com/greatroar/blobloom"
	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/mmapfilter"
)

// newPaper returns the command that repeats the evaluation of the cuckoo filter paper (Fan, Andersen,
// Kaminsky, Mitzenmacher, "Cuckoo Filter: Practically Better Than Bloom", CoNEXT 2014). PAPER.md has
// its output beside the figures of the paper.
func newPaper(s *session) command {
	p := &paperRun{session: s}
	s.size, s.rounds = 3<<20, 5
	s.flags.StringVar(&p.figure, "figure", "table3", "table3, fig2, fig4, fig5, fig6, fig7 or fig8; the paper has 192MiB for -size")
	s.flags.Uint64Var(&p.buckets, "buckets", 1<<15, "fig2: how many buckets a table has; the paper has up to 2^25")
	s.flags.Uint64Var(&p.asks, "asks", 4_000_000, "table3, fig4: how many absent keys a rate is measured with")
	return command{map[string]string{"size": "96KiB", "rounds": "2", "buckets": "512", "asks": "50000"}, p.run}
}

type paperRun struct {
	*session
	figure        string
	buckets, asks uint64
}

func (p *paperRun) run() error {
	const rising = "10,20,30,40,50,60,70,80,90,95"
	atLoads := func(loads string, tables ...int) error {
		return (&loadRun{session: p.session, specs: structures(), tables: tables}).run(loads)
	}
	switch p.figure {
	case "table3":
		return (&spaceRun{session: p.session, asks: p.asks, of: structures()}).run()
	case "fig2":
		return p.firstWithoutSlot()
	case "fig4":
		return (&spaceRun{session: p.session, asks: p.asks, of: paperSpaces()}).run()
	case "fig5":
		return atLoads("95", opAbsent, opPresent)
	case "fig6":
		return atLoads(rising, opAbsent, opPresent)
	case "fig7":
		return atLoads(rising, opInsert)
	case "fig8":
		return atLoads(rising, opDelete)
	}
	return fmt.Errorf("%q is not table3, fig2, fig4, fig5, fig6, fig7 or fig8", p.figure)
}

// The paper's Bloom filters have 13 bits a key.
const (
	bloomBits   = 13
	bloomHashes = 9 // 13·ln 2
)

// structures returns the structures of Table 3 that a library provides, and our layout Compact.
// Inserts fill all of them.
func structures() []spec {
	live := func(name string, v variant) spec {
		return spec{name, false, func(s *session, n uint64) (*Filter, error) {
			return s.createLive(s.path(name+".mmf"), v, n, writing{syncEvery: 65_536})
		}}
	}
	return []spec{
		live("CF", variant{layout: layout.Packed, f: 12}),
		live("ss-CF", variant{layout: layout.SemiSorted, f: 13}),
		live("Compact", variant{rate: 0.002}),
		{"BF", false, func(s *session, n uint64) (*Filter, error) {
			return bitsAndBlooms(s, bloom.New(uint(n*bloomBits), bloomHashes)), nil
		}},
		{"blk-BF", false, func(s *session, n uint64) (*Filter, error) {
			return blocked(s, blobloom.New(n*bloomBits, bloomHashes)), nil
		}},
	}
}

// paperSpaces are the filters of figure 4: our layouts of the paper with several lengths of
// fingerprints, and Bloom filters.
func paperSpaces() (all []spec) {
	for _, k := range paperLayouts {
		for _, f := range []int{7, 8, 9, 10, 12, 13, 15, 16} {
			if bucketSize(k, f) > 0 {
				all = append(all, ours(variant{layout: k, f: f}))
			}
		}
	}
	for _, rate := range []float64{0.03, defaultRate, 0.0001} {
		all = append(all, spec{fmt.Sprintf("bits-and-blooms/bloom v3, for %s", percent(rate)), false, makeBitsAndBlooms(rate)})
	}
	return all
}

// firstWithoutSlot fills tables of the layout of the paper until an insert is refused (figure 2). The
// paper's table has no stash, so its load compares with our load at the first key without a slot.
func (p *paperRun) firstWithoutSlot() error {
	t := NewTable("b", "m", "f", "first key without a slot", "first refused")
	for _, b := range []int{2, 4, 8} {
		for _, f := range []int{4, 6, 8, 12, 20} {
			p.note("b=%d, f=%d", b, f)
			opts, err := tableOf(f, b, p.buckets)
			if err != nil {
				return err
			}
			noSlot, refused, err := p.load(opts, float64(p.buckets)*float64(b))
			if err != nil {
				return err
			}
			t.Row(fmt.Sprint(b), Grouped(int64(p.buckets)), fmt.Sprint(f), fmt.Sprintf("%.2f", 100*noSlot), fmt.Sprintf("%.2f", 100*refused))
		}
	}
	p.printf("\nLoad factor, in %% of the slots, when the first key finds no slot, and when the first is refused:\n")
	p.print(t)
	return nil
}

// tableOf returns options for a table with this number of buckets. It searches for the capacity,
// since short fingerprints get more buckets for the same keys.
func tableOf(f, b int, buckets uint64) (*mmapfilter.Options, error) {
	opts := &mmapfilter.Options{Layout: layout.Packed, FingerprintBits: f, BucketSize: b, CommitInterval: -1, Seed: 1}
	n := sort.Search(int(buckets)*b, func(i int) bool {
		opts.Capacity = uint64(i) + 1
		plan, err := opts.Plan()
		return err != nil || plan.Lines >= buckets
	})
	opts.Capacity = uint64(n) + 1
	plan, err := opts.Plan()
	if err == nil && plan.Lines != buckets {
		err = fmt.Errorf("there is no table of %d buckets, the next has %d", buckets, plan.Lines)
	}
	return opts, err
}

// loadPolls is how often the stash is looked at while a table is filled.
const loadPolls = 2048

// load fills a table. It returns the load when the first key went to the stash, and the load when a
// key was refused. Then it looks all keys up.
func (p *paperRun) load(opts *mmapfilter.Options, slots float64) (noSlot, refused float64, err error) {
	path := p.path("load.mmf")
	f, err := mmapfilter.Create(path, opts)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, f.Close(), os.Remove(path)) }()
	var key Key
	n, poll := uint64(0), max(1, uint64(slots/loadPolls))
	for ; ; n++ {
		key.Set(p.seed, n)
		if err := f.Insert(key[:]); errors.Is(err, mmapfilter.ErrFull) {
			break
		} else if err != nil {
			return 0, 0, err
		}
		if noSlot == 0 && n%poll == 0 && f.Stats().StashLen > 0 {
			noSlot = float64(n) / slots
		}
	}
	for i := range n {
		if key.Set(p.seed, i); !f.Contains(key[:]) {
			return 0, 0, fmt.Errorf("key %d of %d is lost", i, n)
		}
	}
	return noSlot, float64(n) / slots, p.ctx.Err()
}
