package main

import (
	"encoding/csv"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/mmapfilter/mmapfilter/tools/bench/peer"
	"github.com/mmapfilter/mmapfilter/tools/internal/figures"
)

// newGrowth returns the command that measures lookups, inserts and builds at several sizes.
func newGrowth() command {
	g := &growthRun{layouts: variants(), sizes: sizeList{64 << 10, 1 << 20, 32 << 20, 1 << 30, 8 << 30}}
	return command{
		flags: func(s *session) {
			g.session = s
			s.flags.Var(&g.sizes, "sizes", "sizes of the lines of the filters, comma-separated; -size does not count")
			s.flags.Var(&g.layouts, "layouts", "default, which is a rate of 1 %, and layouts with f=12, comma-separated")
			s.flags.IntVar(&g.blocks, "blocks", 4, "how many times 16,384 keys a turn has")
			s.flags.StringVar(&g.out, "out", "growth", "begins the names of the files it writes: .csv, and two pictures of each layout")
			s.flags.BoolVar(&g.draw, "draw", false, "draw the pictures of the .csv file that is there, and measure nothing")
		},
		short: map[string]string{"sizes": "64KiB,256KiB", "rounds": "2", "blocks": "1"},
		run:   func(*session) error { return g.run() },
	}
}

// A sizeList is a flag that holds sizes.
type sizeList []figures.Size

func (l *sizeList) Set(text string) error {
	*l = nil
	for word := range strings.SplitSeq(text, ",") {
		var size figures.Size
		if err := size.Set(word); err != nil {
			return err
		}
		*l = append(*l, size)
	}
	return nil
}

func (l *sizeList) String() string {
	var words []string
	for _, size := range *l {
		words = append(words, size.String())
	}
	return strings.Join(words, ",")
}

type growthRun struct {
	*session
	layouts variantList
	sizes   sizeList
	blocks  int
	out     string
	draw    bool
}

// growthQuestions lists the lookups to measure.
var growthQuestions = []question{
	{"ContainsHashes", 1024, absent},
	{"ContainsBatch", 1024, absent},
	{"Contains", 1, absent},
	{"Contains", 1, present},
}

// A grown is a filter of one size.
type grown struct {
	size  figures.Size
	n     uint64
	path  string
	limit *limit
	asker *asker
	build float64 // ns a key; measured once

	live      peer.Filter // the same file, open for writing after the lookups
	low, high uint64      // the keys it holds
}

// A turnKind is one thing that is measured in rounds.
type turnKind struct {
	name string
	run  func(g *grown) (float64, error)
}

// reads returns the turn that the others are divided by.
func (g *growthRun) reads() turnKind {
	return turnKind{"random reads: the limit", func(f *grown) (float64, error) {
		return min(timeReads(f.limit.prefetched, g.blocks), timeReads(f.limit.plain, g.blocks)), nil
	}}
}

func (g *growthRun) lookups() (all []turnKind) {
	all = append(all, g.reads(),
		turnKind{"chain of dependent reads", func(f *grown) (float64, error) { return timeReads(f.limit.chain, g.blocks), nil }})
	for _, q := range growthQuestions {
		all = append(all, turnKind{fmt.Sprintf("%s, %s", q.call, q.keys), func(f *grown) (float64, error) { return f.asker.turn(q, g.blocks) }})
	}
	return all
}

func (g *growthRun) run() error {
	if g.draw {
		return g.drawn()
	}
	if g.blocks < 1 {
		return errors.New("no blocks, no figures")
	}
	file, err := os.Create(g.out + ".csv")
	if err != nil {
		return err
	}
	defer file.Close()
	w := csv.NewWriter(file)
	w.Write(growthHeader)
	for _, v := range g.layouts {
		if err := g.variant(v, w); err != nil {
			return err
		}
	}
	w.Flush()
	if err := errors.Join(w.Error(), file.Close()); err != nil {
		return err
	}
	return g.drawn()
}

// drawn draws the pictures, and prints their names.
func (g *growthRun) drawn() error {
	files, err := drawGrowth(g.out)
	if err == nil {
		g.printf("Drawn in %s, from %s.csv.\n", strings.Join(files, ", "), g.out)
	}
	return err
}

// variant measures one variant at all sizes. The sizes take turns too.
func (g *growthRun) variant(v variant, w *csv.Writer) (err error) {
	var all []*grown
	defer func() {
		for _, f := range all {
			err = errors.Join(err, f.close())
		}
	}()
	for i, size := range g.sizes {
		f, err := g.grow(fmt.Sprintf("%v-%d", v, i), v, size)
		if f != nil {
			all = append(all, f)
		}
		if err != nil {
			return err
		}
	}
	r := &growthReport{growthRun: g, variant: v, filters: all, csv: w}
	kinds := g.lookups()
	times, err := g.measure(all, kinds)
	if err != nil {
		return err
	}
	r.add(kinds, times)
	for _, f := range all {
		if err := f.open(g.seed); err != nil {
			return err
		}
	}
	kinds = []turnKind{g.reads(), {"Insert and Delete", (*grown).replace}}
	if times, err = g.measure(all, kinds); err != nil {
		return err
	}
	r.add(kinds[1:], times)
	var built []float64
	for _, f := range all {
		built = append(built, f.build)
	}
	r.line("Build, by the clock, once", built, nil)
	r.print()
	return nil
}

// measure returns the times of each kind for each filter. kinds[0] is g.reads().
func (g *growthRun) measure(all []*grown, kinds []turnKind) (times map[string][][]float64, err error) {
	turns, err := g.takeTurns(len(all)*len(kinds), func(i int) (float64, error) { return kinds[i%len(kinds)].run(all[i/len(kinds)]) })
	if err != nil {
		return nil, err
	}
	times = map[string][][]float64{}
	for i, t := range turns {
		name := kinds[i%len(kinds)].name
		times[name] = append(times[name], t)
	}
	return times, nil
}

// A growthReport collects the measurements of one layout.
type growthReport struct {
	*growthRun
	variant variant
	filters []*grown
	csv     *csv.Writer
	rows    [][]string
}

// add adds the medians of the times, and the medians of their ratios to the reads of the same
// rounds.
func (r *growthReport) add(kinds []turnKind, times map[string][][]float64) {
	for _, kind := range kinds {
		var values, ratios []float64
		for i, own := range times[kind.name] {
			values = append(values, figures.Median(own))
			ratios = append(ratios, figures.MedianRatio(own, times[r.reads().name][i]))
		}
		r.line(kind.name, values, ratios)
	}
}

func (r *growthReport) line(name string, values, ratios []float64) {
	cells := []string{name}
	for i, v := range values {
		cell, ratio := figures.Digits(v), ""
		if ratios != nil {
			ratio = strconv.FormatFloat(ratios[i], 'g', 4, 64)
			cell += " (" + figures.Digits(ratios[i]) + ")"
		}
		cells = append(cells, cell)
		f := r.filters[i]
		r.csv.Write([]string{r.variant.String(), fmt.Sprint(int64(f.size)), fmt.Sprint(f.n), name, strconv.FormatFloat(v, 'g', 4, 64), ratio})
	}
	r.rows = append(r.rows, cells)
}

func (r *growthReport) print() {
	head := []string{r.variant.name()}
	for _, f := range r.filters {
		head = append(head, f.size.String())
	}
	t := figures.NewTable(head...)
	for _, row := range r.rows {
		t.Row(row...)
	}
	r.printf("\nns, and over random reads of lines of the same file, with 64 prefetches in flight or without, whichever is faster; mapped from %s\n", r.mapped)
	r.session.print(t)
}

// grow makes the filter of one size. Even with an error, it returns what it has made.
func (g *growthRun) grow(name string, v variant, size figures.Size) (f *grown, err error) {
	n := v.keys(int64(size))
	begun := time.Now()
	path, filter, err := g.build(name+".mmf", v.options(n), n)
	if err != nil {
		return nil, err
	}
	f = &grown{size: size, n: n, path: path, build: float64(time.Since(begun)) / float64(n), asker: newAsker(filter, n, g.seed), high: n}
	f.limit, err = openLimit(path, g.seed)
	return f, err
}

// open reopens the file for writing, once the lookups are done.
func (f *grown) open(seed uint64) error {
	if err := f.asker.filter.Close(); err != nil {
		return err
	}
	writer, err := mmapfilter.Open(f.path, &mmapfilter.OpenOptions{CommitInterval: -1, Residency: mmapfilter.ResidencyPopulate})
	if err != nil {
		return err
	}
	f.live = openLive(writer, writing{}, seed)
	return nil
}

// replace inserts keys, and deletes as many of the oldest. It returns the time of one insert
// and one delete.
func (f *grown) replace() (float64, error) {
	turn := min(peer.BlockKeys, f.n/200+1)
	added, err := f.live.Add(f.high, turn)
	if err != nil {
		return 0, err
	}
	f.high += added.Keys
	removed, err := f.live.Remove(f.low, added.Keys)
	f.low += added.Keys
	if err == nil && (added.Keys < turn || removed.Keys < added.Keys) {
		err = fmt.Errorf("of %d keys %d were inserted, and %d of the oldest found", turn, added.Keys, removed.Keys)
	}
	return float64(added.Time()+removed.Time()) / float64(turn), err
}

func (f *grown) close() error {
	err := f.asker.filter.Close() // a second Close does nothing
	if f.limit != nil {
		err = errors.Join(err, f.limit.close())
	}
	if f.live != nil {
		err = errors.Join(err, f.live.Close())
	}
	return errors.Join(err, os.Remove(f.path))
}
