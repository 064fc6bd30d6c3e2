package main

import (
	"errors"
	"fmt"
	"math/bits"
	"strconv"
	"strings"

	"github.com/mmapfilter/mmapfilter/tools/bench/peer"
	"github.com/mmapfilter/mmapfilter/tools/internal/figures"
)

// A filling is a filter that is filled, with what was measured on the way.
type filling struct {
	held
	slots uint64
	cells map[float64][2]series // by load: inserts, deletes
}

type series []float64

// inserts measures inserts and deletes as filters fill.
type inserts struct {
	*session
	choice choice
	check  uint64 // keys that are looked for at the end; 0 means all
}

func (i *inserts) run(percents string) (err error) {
	loads, err := parseLoads(percents)
	if err != nil {
		return err
	}
	// The number of slots is a power of two, since other filters have no other table sizes.
	slots := uint64(1) << bits.Len64(byDefault.keys(int64(i.size))) >> 1
	if slots < 1000 {
		return fmt.Errorf("%v hold too few keys for turns", &i.size)
	}
	all, err := i.open(slots)
	defer func() {
		for _, f := range all {
			err = errors.Join(err, f.filter.Close())
		}
	}()
	if err != nil {
		return err
	}
	for _, load := range loads {
		if err := i.replaceAt(all, load); err != nil {
			return err
		}
	}
	for _, f := range all {
		if err := f.examine(i.session, i.check, 0); err != nil {
			return err
		}
	}
	i.reportInserts(all, loads, slots)
	return nil
}

func parseLoads(text string) (loads []float64, err error) {
	before := 0.0
	for word := range strings.SplitSeq(text, ",") {
		load, err := strconv.ParseFloat(word, 64)
		if err != nil || load <= before || load > 100 {
			return nil, fmt.Errorf("%q are no rising percents up to 100", text)
		}
		loads, before = append(loads, load/100), load
	}
	return loads, nil
}

// insertSpecs returns the filters that can be inserted into. All are compared with the first one.
func (i *inserts) insertSpecs() (all []spec, err error) {
	for _, how := range []struct {
		name string
		writing
	}{{"Insert", writing{}}, {"InsertBatch of 1,024", writing{batch: 1024}}} {
		path := i.path(fmt.Sprintf("%d.mmf", len(all)))
		all = append(all, spec{name: byDefault.name() + ": " + how.name, create: func(s *session, slots uint64) (*peer.Filter, error) {
			return s.createLive(path, byDefault, slots, how.writing)
		}})
	}
	first := all[0]
	others, err := i.choice.chosen(append(all[1:], goPeers(defaultRate)...))
	if err != nil {
		return nil, err
	}
	chosen := []spec{first}
	for _, spec := range others {
		if !spec.filled {
			chosen = append(chosen, spec)
		}
	}
	return chosen, nil
}

// open makes the filters, each for about the same number of slots. Even with an error, it
// returns the filters that it has made.
func (i *inserts) open(slots uint64) (all []*filling, err error) {
	specs, err := i.insertSpecs()
	if err != nil {
		return nil, err
	}
	for _, spec := range specs {
		f, err := spec.create(i.session, uint64(standardLoad*float64(slots)))
		if err != nil {
			return all, fmt.Errorf("%s: %w", spec.name, err)
		}
		all = append(all, &filling{held{name: spec.name, filter: f}, slots, map[float64][2]series{}})
	}
	return all, nil
}

// replaceAt fills all filters to a load. Then each in turn inserts keys and deletes its oldest,
// so that its load stays the same.
func (i *inserts) replaceAt(all []*filling, load float64) error {
	turn := min(1<<17, all[0].slots/1000+1)
	for _, f := range all {
		i.note("%s: filling to %.0f %%", f.name, 100*load)
		if _, err := f.add(i.session, uint64(load*float64(f.slots))-(f.high-f.low)); err != nil {
			return err
		}
	}
	_, err := i.takeTurns(len(all), func(k int) (float64, error) {
		f := all[k]
		if f.full {
			return 0, nil
		}
		added, err := f.add(i.session, turn)
		if err != nil || f.full {
			return 0, err
		}
		cells := f.cells[load]
		cells[0] = append(cells[0], float64(added.Time())/float64(turn))
		removed, err := f.filter.Remove(f.low, turn)
		switch {
		case err == nil:
			f.low += turn
			f.lost += turn - removed.Keys
			f.checked += turn
			cells[1] = append(cells[1], float64(removed.Time())/float64(turn))
		case !errors.Is(err, peer.ErrUnsupported):
			return 0, fmt.Errorf("%s: %w", f.name, err)
		}
		f.cells[load] = cells
		return 0, nil
	})
	return err
}

func (i *inserts) reportInserts(all []*filling, loads []float64, slots uint64) {
	i.printf("\n%s slots. Ours are files: every operation is logged, and a commit comes when a segment of the log is full.\n", figures.Grouped(int64(slots)))
	i.printf("In parentheses: over %s in the same rounds. Columns are by load; a Bloom filter has no slots: 95 %% is what it is made for.\n", all[0].name)
	for c, what := range []string{"insert, ns of processor time", "delete of the oldest key, ns of processor time"} {
		head := []string{what}
		for _, load := range loads {
			head = append(head, fmt.Sprintf("%.0f %%", 100*load))
		}
		t := figures.NewTable(append(head, "lost, of")...)
		for _, f := range all {
			cells := []string{f.name}
			for _, load := range loads {
				cells = append(cells, f.cell(c, load, all[0]))
			}
			t.Row(append(cells, f.lostOf())...)
		}
		i.print(t)
	}
}

func (f *filling) cell(c int, load float64, base *filling) string {
	own, others := f.cells[load][c], base.cells[load][c]
	switch {
	case len(own) > 0 && len(own) == len(others):
		return fmt.Sprintf("%s (%s)", figures.Digits(figures.Median(own)), figures.Digits(figures.MedianRatio(own, others)))
	case len(own) > 0:
		return figures.Digits(figures.Median(own))
	case f.full:
		return fmt.Sprintf("full at %.1f %%", 100*float64(f.high-f.low)/float64(f.slots))
	}
	return "none"
}
