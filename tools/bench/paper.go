package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sort"
	"time"

	"github.com/bits-and-blooms/bloom/v3"
	"github.com/greatroar/blobloom"
	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/mmapfilter/mmapfilter/tools/bench/peer"
	"github.com/mmapfilter/mmapfilter/tools/internal/figures"
)

// newPaper returns the command that repeats the evaluation of the cuckoo filter paper (Fan, Andersen,
// Kaminsky, Mitzenmacher, "Cuckoo Filter: Practically Better Than Bloom", CoNEXT 2014). PAPER.md has
// its output beside the figures of the paper.
func newPaper(s *session) command {
	p := &paperRun{session: s}
	s.size, s.rounds = 3<<20, 5
	s.flags.StringVar(&p.figure, "figure", "table3", "table3, fig2, fig4, fig5, fig6, fig7 or fig8; the paper has 192MiB for -size")
	s.flags.Uint64Var(&p.buckets, "buckets", 1<<15, "fig2: in a table; the paper has up to 2^25")
	s.flags.Uint64Var(&p.asks, "asks", 4_000_000, "table3, fig4: how many absent keys a rate is measured with")
	s.flags.Uint64Var(&p.lookups, "lookups", 40_000, "fig5, fig6: how many keys a turn looks up")
	return command{map[string]string{"size": "96KiB", "rounds": "2", "buckets": "512", "asks": "50000", "lookups": "500"}, p.run}
}

type paperRun struct {
	*session
	figure                 string
	buckets, asks, lookups uint64
	draws                  uint64 // turns that have looked keys up
}

func (p *paperRun) run() error {
	switch p.figure {
	case "table3":
		return p.table3()
	case "fig2":
		return p.loads()
	case "fig4":
		return (&spaceRun{session: p.session, asks: p.asks, of: paperSpaces()}).run()
	case "fig5":
		return p.shares()
	case "fig6", "fig7", "fig8":
		return p.occupancy()
	}
	return fmt.Errorf("%q is not table3, fig2, fig4, fig5, fig6, fig7 or fig8", p.figure)
}

// The paper's Bloom filters have 13 bits a key.
const (
	bloomBits   = 13
	bloomHashes = 9 // 13·ln 2
)

// A structure is a filter of the paper, or ours beside it.
type structure struct {
	name   string
	keys   uint64 // the keys with which it counts as full; fewer if it refuses a key before
	create func(s *session, n uint64) (*peer.Filter, error)
	paper  string // Table 3: items in millions, bits an item, rate, million inserts a second
}

// structures returns the structures of Table 3 that a library has, and our layout Compact. Each has a
// table of the given size.
func structures(bytes uint64) []structure {
	live := func(name string, v variant, paper string) structure {
		return structure{name, v.keys(int64(bytes)), func(s *session, n uint64) (*peer.Filter, error) {
			return s.createLive(s.path(name+".mmf"), v, n, writing{syncEvery: 65_536})
		}, paper}
	}
	return []structure{
		live("CF", variant{layout: layout.Packed, f: 12}, "127.78 / 12.60 / 0.19 % / 5.00"),
		live("ss-CF", variant{layout: layout.SemiSorted, f: 13}, "128.04 / 12.58 / 0.09 % / 3.13"),
		live("Compact", variant{rate: 0.002}, "-"),
		{"BF", bytes * 8 / bloomBits, func(s *session, _ uint64) (*peer.Filter, error) {
			return bitsAndBlooms(s, bloom.New(uint(bytes*8), bloomHashes)), nil
		}, "123.89 / 13.00 / 0.19 % / 3.91"},
		{"blk-BF", bytes * 8 / bloomBits, func(s *session, _ uint64) (*peer.Filter, error) {
			return blocked(s, blobloom.New(bytes*8, bloomHashes)), nil
		}, "123.89 / 13.00 / 0.43 % / 7.64"},
	}
}

// A member is a structure that is filled. keys and paper are as in structure.
type member struct {
	held
	keys  uint64
	paper string
	took  time.Duration // by inserts
}

// open makes all structures, empty. Even with an error, it returns those that it has made.
func (p *paperRun) open() (all []*member, err error) {
	for _, s := range structures(uint64(p.size)) {
		f, err := s.create(p.session, s.keys)
		if err != nil {
			return all, fmt.Errorf("%s: %w", s.name, err)
		}
		all = append(all, &member{held: held{name: s.name, filter: f}, keys: s.keys, paper: s.paper})
	}
	return all, nil
}

func closeAll(all []*member) (err error) {
	for _, m := range all {
		err = errors.Join(err, m.filter.Close())
	}
	return err
}

// insert adds keys up to a number, or up to the first key that is refused. It returns millions of
// keys a second.
func (p *paperRun) insert(m *member, to uint64) (float64, error) {
	if to <= m.high {
		return 0, nil
	}
	c, err := m.add(p.session, to-m.high)
	if err != nil {
		return 0, err
	}
	if m.full {
		p.note("%s is full with %d keys; %d were to go in", m.name, m.high, m.keys)
		m.keys = m.high
	}
	m.took += c.Clock
	return perSecond(c), nil
}

// perSecond returns millions of operations a second.
func perSecond(c peer.Count) float64 { return float64(c.Keys) / 1e6 / max(c.Clock.Seconds(), 1e-9) }

// table3 fills every structure, and looks up all its keys and absent ones.
func (p *paperRun) table3() (err error) {
	all, err := p.open()
	defer func() { err = errors.Join(err, closeAll(all)) }()
	if err != nil {
		return err
	}
	t := figures.NewTable("structure", "items (million)", "bits per item", "false positives %", "million items/s", "keys lost", "paper: items / bits / rate / speed")
	for _, m := range all {
		if _, err := p.insert(m, m.keys); err != nil {
			return err
		}
		if err := m.examine(p.session, 0, p.asks); err != nil {
			return err
		}
		t.Row(m.name, fmt.Sprintf("%.2f", float64(m.high)/1e6), fmt.Sprintf("%.2f", m.bitsPerKey()), fmt.Sprintf("%.3f", 100*m.rate()),
			fmt.Sprintf("%.2f", perSecond(peer.Count{Keys: m.high, Clock: m.took})), fmt.Sprint(m.lost), m.paper)
	}
	p.print(t)
	return nil
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

// shares looks keys up in full structures, for several shares of present keys (figure 5).
func (p *paperRun) shares() (err error) {
	all, err := p.open()
	defer func() { err = errors.Join(err, closeAll(all)) }()
	if err != nil {
		return err
	}
	for _, m := range all {
		if _, err := p.insert(m, m.keys); err != nil {
			return err
		}
	}
	shares := []float64{0, 0.25, 0.5, 0.75, 1}
	rows := make([][]string, len(all))
	for _, share := range shares {
		if err := p.lookUp(all, share, rows); err != nil {
			return err
		}
	}
	p.printRows("million lookups a second by the share of keys that are there", shares, all, rows)
	return nil
}

// lookUp has all members look keys up in turn, and adds a cell with the median rate to the row of
// each member. It returns an error if a present key is not found.
func (p *paperRun) lookUp(all []*member, share float64, rows [][]string) error {
	rates, err := p.takeTurns(len(all), func(i int) (float64, error) {
		m := all[i]
		p.draws++
		rng := rand.New(rand.NewPCG(p.seed, p.draws))
		c, present, err := m.filter.Mixed(p.lookups, m.high, share, rng)
		if err == nil && c.Keys < present {
			err = fmt.Errorf("%s: of %d keys that were inserted %d at least are not found", m.name, present, present-c.Keys)
		}
		c.Keys = p.lookups
		return perSecond(c), err
	})
	addCells(rows, rates)
	return err
}

// addCells adds a cell with the median of its rates to each row.
func addCells(rows [][]string, rates [][]float64) {
	for i, r := range rates {
		cell := "-"
		if median := figures.Median(r); median > 0 {
			cell = fmt.Sprintf("%.2f", median)
		}
		rows[i] = append(rows[i], cell)
	}
}

// printRows prints a table with a row for each member, and a column for each share.
func (p *paperRun) printRows(what string, shares []float64, all []*member, rows [][]string) {
	head := []string{what}
	for _, s := range shares {
		head = append(head, fmt.Sprintf("%.0f %%", 100*s))
	}
	t := figures.NewTable(head...)
	for i, m := range all {
		t.Row(append([]string{m.name}, rows[i]...)...)
	}
	p.print(t)
}

// paperSteps are the steps of occupancy.
const paperSteps = 10

// occupancy fills all structures in steps, and looks keys up after each (figure 6) or times the inserts
// (figure 7); or it deletes all keys in steps (figure 8).
func (p *paperRun) occupancy() (err error) {
	all, err := p.open()
	defer func() { err = errors.Join(err, closeAll(all)) }()
	if err != nil {
		return err
	}
	absent, present, inserts := make([][]string, len(all)), make([][]string, len(all)), make([][]string, len(all))
	var shares []float64
	for step := range paperSteps {
		shares = append(shares, float64(step+1)/paperSteps)
		rates, err := p.takeTurns(len(all), func(i int) (float64, error) {
			return p.insert(all[i], min(all[i].keys, all[i].high+p.part(all[i])))
		})
		if err != nil {
			return err
		}
		addCells(inserts, rates)
		if p.figure == "fig6" {
			if err := errors.Join(p.lookUp(all, 0, absent), p.lookUp(all, 1, present)); err != nil {
				return err
			}
		}
	}
	switch p.figure {
	case "fig6":
		p.printRows("absent keys: million lookups a second by occupancy", shares, all, absent)
		p.printRows("keys that are there: million lookups a second by occupancy", shares, all, present)
	case "fig7":
		p.printRows("million inserts a second up to an occupancy", shares, all, inserts)
	case "fig8":
		return p.deletes(all)
	}
	return nil
}

// part returns how many keys a structure inserts, looks up or deletes in a turn.
func (p *paperRun) part(m *member) uint64 { return m.keys/uint64(paperSteps*p.rounds) + 1 }

// deletes deletes all keys of the structures that support deletes, in the order in which they were
// inserted.
func (p *paperRun) deletes(all []*member) error {
	var deleters []*member
	for _, m := range all {
		if _, err := m.filter.Remove(0, 0); err == nil {
			deleters = append(deleters, m)
		}
	}
	rows, shares := make([][]string, len(deleters)), []float64{}
	for step := range paperSteps {
		shares = append([]float64{float64(paperSteps-step) / paperSteps}, shares...)
		rates, err := p.takeTurns(len(deleters), func(i int) (float64, error) {
			m := deleters[i]
			n := min(p.part(m), m.high-m.low)
			if n == 0 {
				return 0, nil
			}
			c, err := m.filter.Remove(m.low, n)
			if err == nil && c.Keys < n {
				err = fmt.Errorf("%s: %d of %d keys could not be deleted", m.name, n-c.Keys, n)
			}
			m.low += n
			return perSecond(c), err
		})
		if err != nil {
			return err
		}
		addCells(rows, rates)
	}
	for _, row := range rows {
		slices.Reverse(row)
	}
	p.printRows("million deletes a second from an occupancy on", shares, deleters, rows)
	return nil
}

// loads fills tables of the layout of the paper until an insert is refused (figure 2). The paper's
// table has no stash, so its load compares with our load at the first key without a slot.
func (p *paperRun) loads() error {
	t := figures.NewTable("b", "m", "f", "first key without a slot", "first refused")
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
			t.Row(fmt.Sprint(b), figures.Grouped(int64(p.buckets)), fmt.Sprint(f), fmt.Sprintf("%.2f", 100*noSlot), fmt.Sprintf("%.2f", 100*refused))
		}
	}
	p.printf("\nLoad factor, in %% of the slots, when the first key finds no slot, and when the first is refused:\n")
	p.print(t)
	return nil
}

// tableOf returns options that make a table of so many buckets. It searches for the capacity, since
// short fingerprints get more buckets for the same keys.
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
	var key peer.Key
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
