package main

import (
	"encoding/csv"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
)

// newChurn returns the command that measures filters whose keys are replaced.
func newChurn(s *session) command {
	c := &churnRun{session: s}
	listFlag(s, &c.rates, "rates", "0.05,0.01,0.001,0.0001", "rates that filters are made for; others are measured at 0.01", parseRate)
	listFlag(s, &c.kinds, "kinds", strings.Join(churnKinds, ","), "which keys are replaced in the default filter if inserts fill it; all other filters replace random keys", parseKind)
	s.flags.IntVar(&c.turnovers, "turnovers", 50, "how many turnovers, each of as many deletes and inserts as there are keys")
	s.flags.Uint64Var(&c.n, "keys", 1_000_000, "how many keys a filter is made for, and has; -size and -rounds have no effect")
	s.flags.Uint64Var(&c.most, "asks", 20_000_000, "how many absent keys a rate is measured with, at most")
	s.flags.StringVar(&c.out, "out", "churn", "begins the names of the files it writes: .csv, and two pictures")
	s.flags.BoolVar(&c.draw, "draw", false, "draw the pictures from the existing .csv file, and measure nothing")
	return command{map[string]string{"keys": "5000", "turnovers": "2", "asks": "100000", "rates": "0.01,0.001"}, c.run}
}

// churnKinds say which key is replaced: the oldest, a random one, or one whose place is drawn
// from a Zipf distribution, so that a few are replaced all the time and most never.
var churnKinds = []string{"oldest", "random", "zipf"}

// zipfExponent is the exponent of the Zipf distribution.
const zipfExponent = 1.1

// churnMeasured lists the turnovers after which a filter is measured. It is always measured after
// the last turnover, too.
var churnMeasured = []int{0, 1, 2, 5, 10, 20, 50}

// churnSync is the number of operations between calls of Sync.
const churnSync = 65_536

type churnRun struct {
	*session
	rates     []float64
	kinds     []string
	turnovers int
	n, most   uint64
	out       string
	draw      bool
}

func (c *churnRun) run() error {
	if c.draw {
		return c.drawn(c.out)
	}
	if err := c.check(); err != nil {
		return err
	}
	file, err := os.Create(c.out + ".csv")
	if err != nil {
		return err
	}
	defer file.Close()
	w := csv.NewWriter(file)
	w.Write(churnHeader)
	err = c.measure(w)
	w.Flush()
	if err := errors.Join(err, w.Error(), file.Close()); err != nil {
		return err
	}
	return c.drawn(c.out)
}

func parseRate(word string) (float64, error) {
	rate, err := strconv.ParseFloat(word, 64)
	if err != nil || !(rate > 0 && rate < 1) {
		return 0, fmt.Errorf("%q is not a rate", word)
	}
	return rate, nil
}

func parseKind(word string) (string, error) {
	if !slices.Contains(churnKinds, word) {
		return "", fmt.Errorf("%q is not one of %v", word, churnKinds)
	}
	return word, nil
}

// check rejects flags with which nothing can be measured.
func (c *churnRun) check() error {
	if c.turnovers < 1 {
		return errors.New("-turnovers must be at least 1")
	}
	if c.n < 2 || c.n > Absent/2/uint64(c.turnovers+1) || c.most < 1 {
		return errors.New("too few keys, or too many to tell from absent ones")
	}
	return nil
}

// measure measures every filter, and prints a table.
func (c *churnRun) measure(w *csv.Writer) error {
	c.printf("\n%s keys; a turnover replaces as many, and Sync is called every %s operations. Ours were filled with Insert, those built by Build. Bits above log2(1/rate) are beyond the least for the rate measured last. Second lines are those that lookups of absent keys read, buckets for others; keys are missing that were not found when they were asked for or deleted. Stash entries are the most after any turnover.\n",
		Grouped(int64(c.n)), Grouped(churnSync))
	if slices.Contains(c.rates, defaultRate) {
		c.printf("seiflotfy/cuckoofilter has 8 bits a fingerprint, whatever the rate; linvon/cuckoo-filter has as many as the rate needs. Both have a power of two buckets.\n")
	}
	var results []*churnResult
	for _, rate := range c.rates {
		for _, spec := range churnSpecs(rate) {
			for _, kind := range c.kinds {
				if spec.name != defaultFilled && kind != "random" {
					continue
				}
				r, err := c.live(spec, kind, rate)
				if err != nil {
					return fmt.Errorf("%s, %s: %w", spec.name, kind, err)
				}
				r.write(w, c.n)
				results = append(results, r)
			}
		}
	}
	c.table(results)
	return nil
}

// live fills a filter, and measures it while its keys are replaced.
func (c *churnRun) live(spec churnSpec, kind string, rate float64) (r *churnResult, err error) {
	f, err := spec.create(c.session, c.n)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close(), os.RemoveAll(c.path("churn.mmf"))); forget() }()
	c.note("%s, rate %s: %s", spec.name, percent(rate), kind)
	r = &churnResult{name: spec.name, shape: f.shape, kind: kind, asked: rate, bitsPerKey: float64(f.bits) / float64(c.n)}
	l := newLife(c.session, f, c.n, kind, spec.filled)
	for turnover := range c.turnovers + 1 {
		if turnover > 0 || !spec.filled {
			took, err := l.turnover(turnover == 0)
			if err != nil {
				return nil, err
			}
			if ns := float64(took.Processor) / float64(c.n); turnover == 0 {
				r.filled = ns
			} else {
				r.ns = append(r.ns, ns)
			}
		}
		if !slices.Contains(churnMeasured, turnover) && turnover < c.turnovers {
			continue
		}
		p := churnPoint{turnovers: turnover, asks: c.asks(rate)}
		if err := l.measure(&p); err != nil {
			return nil, err
		}
		r.points = append(r.points, p)
	}
	return r, nil
}

// asks returns how many absent keys to look up: a million, or up to c.most if the standard
// error would otherwise exceed 2 % of the rate.
func (c *churnRun) asks(rate float64) uint64 {
	return min(c.most, max(1_000_000, uint64(math.Ceil((1-rate)/rate/(0.02*0.02)))))
}

// churnHeader has the columns of the CSV file. In a row after 0 turnovers, ns is the time of an
// insert, or 0 if the filter was built. In other rows it is the time of a delete and an insert, as
// [churnResult.cost] returns it.
var churnHeader = []string{"layout", "shape", "keys replaced", "rate asked", "keys", "bits a key",
	"turnovers", "absent keys", "rate", "second lines", "missing", "deletes not found", "ErrFull", "ns", "most stash entries"}

// write adds a row for each measurement.
func (r *churnResult) write(w *csv.Writer, n uint64) {
	number := func(x float64) string { return strconv.FormatFloat(x, 'g', 5, 64) }
	for _, p := range r.points {
		ns := r.filled
		if p.turnovers > 0 {
			ns = r.cost(p.turnovers)
		}
		w.Write([]string{r.name, r.shape, r.kind, strconv.FormatFloat(r.asked, 'g', -1, 64), fmt.Sprint(n), number(r.bitsPerKey),
			fmt.Sprint(p.turnovers), fmt.Sprint(p.asks), number(p.rate()), number(p.second), fmt.Sprint(p.missing), fmt.Sprint(p.unfound), fmt.Sprint(p.refused), number(ns), fmt.Sprint(p.stash)})
	}
}

// table prints the measurements.
func (c *churnRun) table(results []*churnResult) {
	var shown []int
	for _, turnover := range []int{0, 1, 5, c.turnovers} {
		if turnover <= c.turnovers && !slices.Contains(shown, turnover) {
			shown = append(shown, turnover)
		}
	}
	head := []string{"layout", "keys replaced", "rate asked", "bits a key", "bits above log2(1/rate)"}
	for _, what := range []string{"rate", "second lines"} {
		for _, turnover := range shown {
			if turnover == 0 {
				head = append(head, what+", filled")
			} else {
				head = append(head, fmt.Sprintf("%s after %d", what, turnover))
			}
		}
	}
	t := NewTable(append(head, "missing", "ErrFull", "most stash entries", "ns a delete and an insert, first turnovers", "last turnovers", "last over first")...)
	for _, r := range results {
		rates, seconds := []string{}, []string{}
		for _, p := range r.points {
			if slices.Contains(shown, p.turnovers) {
				rates, seconds = append(rates, percent(p.rate())), append(seconds, percent(p.second))
			}
		}
		last, first, after := r.last(), r.cost(1), r.cost(len(r.ns))
		name := r.shape
		if r.isDefault() {
			name = r.name + ": " + name
		}
		cells := append([]string{name, r.kind, percent(r.asked), fmt.Sprintf("%.2f", r.bitsPerKey), r.above()}, append(rates, seconds...)...)
		t.Row(append(cells, Grouped(int64(last.missing+last.unfound)), Grouped(int64(last.refused)), fmt.Sprint(last.stash), Digits(first), Digits(after), Digits(after/first))...)
	}
	c.print(t)
}

// fewTurnovers is the number of turnovers over which cost takes a median.
const fewTurnovers = 5

// A churnResult holds the measurements of one filter.
type churnResult struct {
	name, shape, kind string
	asked             float64
	bitsPerKey        float64
	filled            float64   // ns a key to fill it
	ns                []float64 // of a delete and an insert, by turnover
	points            []churnPoint
}

// isDefault reports whether the filter was made with options that set only a rate.
func (r *churnResult) isDefault() bool { return r.name == defaultFilled || r.name == defaultBuilt }

// cost returns the time of a delete and an insert around a turnover; turnovers are numbered from 1.
// It is the median over fewTurnovers turnovers, or over half of all turnovers if that is fewer:
// over the first ones for turnover 1, over the last ones for the last turnover.
func (r *churnResult) cost(turnover int) float64 {
	few := min(fewTurnovers, (len(r.ns)+1)/2)
	from := min(max(turnover-1-few/2, 0), len(r.ns)-few)
	return Median(r.ns[from : from+few])
}

// last returns the measurements after all turnovers.
func (r *churnResult) last() churnPoint { return r.points[len(r.points)-1] }

// above returns how many bits a key takes beyond log2(1/rate), the least that any filter needs. The
// rate is the one measured last. It returns "-" if no absent key was answered "maybe".
func (r *churnResult) above() string {
	if r.last().positives == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f", r.bitsPerKey+math.Log2(r.last().rate()))
}

// A churnPoint holds the measurements after some number of turnovers.
type churnPoint struct {
	turnovers       int
	asks, positives uint64
	second          float64 // share of second lines
	missing         uint64  // keys in the filter that are not found
	unfound         uint64  // deletes so far that did not find a key in the filter
	refused         uint64  // inserts so far that found no room
	stash           int     // most entries of the stash in use so far, at the end of a turnover
}

func (p churnPoint) rate() float64 { return float64(p.positives) / float64(p.asks) }

// A life tracks the keys of one filter as they are replaced.
type life struct {
	*session
	filter *churned
	keys   []uint64              // number of the key in each place, or none
	next   uint64                // number of the next key
	absent uint64                // number of the next absent key
	place  func(i uint64) uint64 // place of the key that operation i of a turnover replaces
	places [BlockKeys / 2]uint64 // the places of the keys that are replaced between two readings of the clock

	unfound, refused uint64
	stash            int // as in churnPoint
}

// none marks a place without a key, because its insert was refused.
const none = math.MaxUint64

// newLife begins a life without keys or, if filled is set, with the keys 0 to n-1.
func newLife(s *session, f *churned, n uint64, kind string, filled bool) *life {
	l := &life{session: s, filter: f, keys: make([]uint64, n), absent: Absent}
	for i := range l.keys {
		l.keys[i] = none
		if filled {
			l.keys[i] = uint64(i)
			l.next++
		}
	}
	rng := rand.New(rand.NewPCG(s.seed, n))
	zipf := rand.NewZipf(rng, zipfExponent, 1, n-1)
	l.place = map[string]func(uint64) uint64{
		"oldest": func(i uint64) uint64 { return i },
		"random": func(uint64) uint64 { return rng.Uint64N(n) },
		"zipf":   func(uint64) uint64 { return zipf.Uint64() },
	}[kind]
	return l
}

// turnover replaces as many keys as the filter holds, or fills it.
func (l *life) turnover(fill bool) (sum Count, err error) {
	n := uint64(len(l.keys))
	for i := uint64(0); i < n; {
		if err := l.ctx.Err(); err != nil {
			return sum, err
		}
		places := l.places[:min(n-i, uint64(len(l.places)))]
		for j := range places {
			places[j] = i
			if !fill {
				places[j] = l.place(i)
			}
			i++
		}
		sum.Add(Timed(func() { l.replace(places) }))
		if l.filter.Err != nil {
			if err := l.filter.Err(); err != nil {
				return sum, err
			}
		}
	}
	if l.filter.stash != nil {
		l.stash = max(l.stash, l.filter.stash())
	}
	return sum, nil
}

// replace deletes the keys of some places and inserts new ones, one after the other. A place
// whose insert is refused has no key until its next turn.
func (l *life) replace(places []uint64) {
	var key [1]Key
	for _, at := range places {
		if l.keys[at] != none {
			key[0].Set(l.seed, l.keys[at])
			if l.filter.Delete(key[:]) == 0 {
				l.unfound++
			}
		}
		key[0].Set(l.seed, l.next)
		l.keys[at] = l.next
		if l.filter.Insert(key[:]) == 0 {
			l.keys[at] = none
			l.refused++
		}
		l.next++
	}
}

// measure looks up all keys in the filter, and p.asks absent ones.
func (l *life) measure(p *churnPoint) (err error) {
	if p.second, err = l.filter.second(); err != nil {
		return err
	}
	p.unfound, p.refused, p.stash = l.unfound, l.refused, l.stash
	var key [1]Key
	for _, number := range l.keys {
		key[0].Set(l.seed, number)
		if number != none && l.filter.Contains(key[:]) == 0 {
			p.missing++
		}
	}
	for i := range p.asks {
		if err := l.ctx.Err(); i%BlockKeys == 0 && err != nil {
			return err
		}
		key[0].Set(l.seed, l.absent)
		l.absent++
		p.positives += uint64(l.filter.Contains(key[:]))
	}
	return nil
}
