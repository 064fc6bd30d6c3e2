package main

import (
	"errors"
	"fmt"
)

// newPeers returns the command that compares our single lookups, or inserts and deletes, with other
// filters.
func newPeers(s *session) command {
	p := &peersRun{session: s}
	p.choice.flags(s)
	s.flags.StringVar(&p.loads, "loads", "", "measure inserts and deletes instead of lookups, when these percents of the slots are full")
	s.flags.Float64Var(&p.rate, "rate", defaultRate, "rate that all filters are made for")
	s.flags.Uint64Var(&p.check, "check", 0, "how many of the keys that a filter has accepted are looked for afterwards; 0 means all")
	s.flags.Uint64Var(&p.asks, "asks", 4_000_000, "how many absent keys the rate is measured with")
	s.flags.Uint64Var(&p.turn, "keys", 1<<17, "how many keys a turn has")
	return command{map[string]string{"size": "256KiB", "rounds": "2", "asks": "100000", "keys": "20000"}, p.run}
}

// warmKeys is how many keys are looked up before each turn and not counted, so that a small
// table is in the cache again.
const warmKeys = BlockKeys

type peersRun struct {
	*session
	choice            choice
	loads             string
	rate              float64
	check, asks, turn uint64
}

// variants returns our filters for the rate. Other filters are compared with the first one.
func (p *peersRun) variants() []variant {
	all := []variant{{rate: p.rate}}
	for _, k := range paperLayouts {
		all = append(all, variant{layout: k, rate: p.rate})
	}
	return all
}

func (p *peersRun) run() error {
	if p.loads != "" {
		specs, err := p.insertSpecs()
		if err != nil {
			return err
		}
		return (&loadRun{session: p.session, specs: specs, tables: []int{opInsert, opDelete}, check: p.check}).run(p.loads)
	}
	if p.turn < 1 || p.asks < 1 {
		return errors.New("-keys and -asks must be at least 1")
	}
	if !(p.rate > 0 && p.rate < 1) {
		return fmt.Errorf("%v is not a rate", p.rate)
	}
	var more []spec
	for _, v := range p.variants()[1:] {
		more = append(more, ours(v))
	}
	others, err := p.choice.chosen(append(more, goPeers(p.rate)...))
	if err != nil {
		return err
	}
	v := p.variants()[0]
	n := v.keys(int64(p.size))
	ours, err := ours(v).create(p.session, n)
	if err != nil {
		return err
	}
	defer ours.Close()
	p.printf("\n%s keys of %d bytes; ours are mapped from %s. Every filter takes turns with %s, and waits for one lookup of a key, with its own hash, after the other. Binary fuse filters are in parts of at most %s keys.\n",
		Grouped(int64(n)), KeyBytes, p.mapped, v.name(), Grouped(fuseKeys))
	t := NewTable("filter", "keys it has", "lost, of", "bits a key", "rate measured", "ns absent", "ns present", "absent over ours", "present over ours")
	own := &held{name: "**" + v.name() + "**", filter: ours}
	if err := own.fill(p.session, n, true, p.check, p.asks); err != nil {
		return err
	}
	var oursAbsent, oursPresent []float64
	var rows [][]string
	for _, spec := range others {
		p.note("%s", spec.name)
		k := &held{name: spec.name}
		var times [][]float64
		if times, err = p.against(k, spec, ours, n); err != nil {
			err = fmt.Errorf("%s: %w", spec.name, err)
			break // still print the results so far, which may have taken hours
		}
		oursAbsent, oursPresent = append(oursAbsent, times[0]...), append(oursPresent, times[1]...)
		rows = append(rows, append(k.cells(), Digits(Median(times[2])), Digits(Median(times[3])),
			"**"+Digits(MedianRatio(times[2], times[0]))+"**", "**"+Digits(MedianRatio(times[3], times[1]))+"**"))
		forget()
	}
	t.Row(append(own.cells(), Digits(Median(oursAbsent)), Digits(Median(oursPresent)), "1", "1")...)
	for _, r := range rows {
		t.Row(r...)
	}
	p.print(t)
	return err
}

// against measures a filter in rounds with ours. It returns the times of absent and present
// keys in our filter, and then in the other.
func (p *peersRun) against(k *held, spec spec, ours *Filter, n uint64) (times [][]float64, err error) {
	f, err := spec.create(p.session, n)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	k.filter = f
	if err := k.fill(p.session, n, spec.filled, p.check, p.asks); err != nil {
		return nil, err
	}
	p.note("%s: turns", spec.name)
	draws := uint64(0)
	return p.takeTurns(4, func(i int) (float64, error) {
		draws++
		filter, has := ours, n
		if i >= 2 {
			filter, has = f, k.high
		}
		first := Absent + p.asks + draws*(p.turn+warmKeys)
		asked := min(p.turn, has)
		if i%2 == 1 {
			first = Mix(p.seed+draws) % (has - asked + 1)
		}
		if _, err := filter.Ask(first+asked, warmKeys); err != nil {
			return 0, err
		}
		c, err := filter.Ask(first, asked)
		return float64(c.Processor) / float64(asked), err
	})
}
