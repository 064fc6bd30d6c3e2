package main

import (
	"errors"
	"fmt"
	"math/bits"
	"strconv"
	"strings"
)

// The operations that are measured as filters fill.
const (
	opInsert = iota
	opDelete
	opAbsent
	opPresent
	operations
)

var operationNames = [operations]string{"insert", "delete of the oldest key", "lookup of an absent key", "lookup of a key that is there"}

// A filling is a filter that is being filled, and what has been measured so far.
type filling struct {
	held
	cells map[float64]*[operations][]float64 // ns, by load
}

// A loadRun measures what operations cost as filters fill.
type loadRun struct {
	*session
	specs  []spec // all are compared with the first one
	tables []int  // the operations that are measured and printed; inserts and deletes are always done
	check  uint64 // keys that are looked for at the end; 0 means all
	slots  uint64 // of each filter; a load is a share of them
	draws  uint64 // turns so far
}

func (l *loadRun) run(percents string) (err error) {
	loads, err := parseLoads(percents)
	if err != nil {
		return err
	}
	// The number of slots is a power of two, since other filters have no other table sizes.
	l.slots = uint64(1) << bits.Len64(byDefault.keys(int64(l.size))) >> 1
	if l.slots < 1000 {
		return fmt.Errorf("%v hold too few keys for turns", &l.size)
	}
	all, err := l.open()
	defer func() {
		for _, f := range all {
			err = errors.Join(err, f.filter.Close())
		}
	}()
	if err != nil {
		return err
	}
	for _, load := range loads {
		if err := l.measureAt(all, load); err != nil {
			return err
		}
	}
	for _, f := range all {
		if err := f.examine(l.session, l.check, 0); err != nil {
			return err
		}
	}
	l.report(all, loads)
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

// insertSpecs returns the filters that allow inserts.
func (p *peersRun) insertSpecs() (all []spec, err error) {
	for _, how := range []struct {
		name string
		writing
	}{{"Insert", writing{}}, {"InsertBatch of 1,024", writing{batch: 1024}}} {
		path := p.path(fmt.Sprintf("%d.mmf", len(all)))
		all = append(all, spec{name: byDefault.name() + ": " + how.name, create: func(s *session, slots uint64) (*Filter, error) {
			return s.createLive(path, byDefault, slots, how.writing)
		}})
	}
	first := all[0]
	others, err := p.choice.chosen(append(all[1:], goPeers(defaultRate)...))
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

// open creates the filters. Even with an error, it returns the filters created so far.
func (l *loadRun) open() (all []*filling, err error) {
	for _, spec := range l.specs {
		f, err := spec.create(l.session, uint64(standardLoad*float64(l.slots)))
		if err != nil {
			return all, fmt.Errorf("%s: %w", spec.name, err)
		}
		all = append(all, &filling{held{name: spec.name, filter: f}, map[float64]*[operations][]float64{}})
	}
	return all, nil
}

// measureAt fills all filters to a load. Then each in turn inserts keys and deletes its oldest, so that
// its load stays the same, and looks keys up.
func (l *loadRun) measureAt(all []*filling, load float64) error {
	for _, f := range all {
		l.note("%s: filling to %.0f %%", f.name, 100*load)
		f.cells[load] = new([operations][]float64)
		if _, err := f.add(l.session, uint64(load*float64(l.slots))-(f.high-f.low)); err != nil {
			return err
		}
	}
	_, err := l.takeTurns(len(all), func(k int) (float64, error) { return 0, l.turn(all[k], all[k].cells[load]) })
	return err
}

// turn measures each operation once, unless the filter is full.
func (l *loadRun) turn(f *filling, cells *[operations][]float64) error {
	n := min(1<<17, l.slots/1000+1)
	l.draws++
	if f.full {
		return nil
	}
	c, err := f.add(l.session, n)
	if err != nil || f.full {
		return err
	}
	took := func(op int, c Count) { cells[op] = append(cells[op], float64(c.Processor)/float64(n)) }
	took(opInsert, c)
	c, err = f.filter.Remove(f.low, n)
	if err == nil {
		f.low += n
		f.lost += n - c.Keys
		f.checked += n
		took(opDelete, c)
	} else if !errors.Is(err, ErrUnsupported) {
		return fmt.Errorf("%s: %w", f.name, err)
	}
	for _, op := range l.tables {
		first := Absent + l.draws*n
		switch op {
		case opInsert, opDelete:
			continue
		case opPresent:
			first = f.low + Mix(l.seed+l.draws)%(f.high-f.low-n+1)
		}
		if c, err = f.filter.Ask(first, n); err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
		took(op, c)
	}
	return nil
}

func (l *loadRun) report(all []*filling, loads []float64) {
	l.printf("\n%s slots. Ours are files: every operation is logged, and a commit comes when a segment of the log is full.\n", Grouped(int64(l.slots)))
	l.printf("In parentheses: over %s in the same rounds. Columns are by load; a Bloom filter has no slots: 95 %% is what it is made for.\n", all[0].name)
	for _, op := range l.tables {
		head := []string{operationNames[op] + ", ns of processor time"}
		for _, load := range loads {
			head = append(head, fmt.Sprintf("%.0f %%", 100*load))
		}
		t := NewTable(append(head, "lost, of")...)
		for _, f := range all {
			cells := []string{f.name}
			for _, load := range loads {
				cells = append(cells, l.cell(f, f.cells[load][op], all[0].cells[load][op]))
			}
			t.Row(append(cells, f.lostOf())...)
		}
		l.print(t)
	}
}

func (l *loadRun) cell(f *filling, own, others []float64) string {
	switch {
	case len(own) > 0 && len(own) == len(others):
		return fmt.Sprintf("%s (%s)", Digits(Median(own)), Digits(MedianRatio(own, others)))
	case len(own) > 0:
		return Digits(Median(own))
	case f.full:
		return fmt.Sprintf("full at %.1f %%", 100*float64(f.high-f.low)/float64(l.slots))
	}
	return "none"
}
