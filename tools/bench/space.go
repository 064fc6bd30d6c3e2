package main

import (
	"errors"
	"fmt"
	"math"
)

// newSpace returns the command that measures bits a key, and the rate they give.
func newSpace(s *session) command {
	r := &spaceRun{session: s}
	s.size = 64 << 20
	r.choice.flags(s)
	s.flags.Uint64Var(&r.asks, "asks", 20_000_000, "how many absent keys are asked for")
	s.flags.Uint64Var(&r.check, "check", 0, "how many of the keys that a filter has accepted are looked for; 0 means all")
	return command{map[string]string{"size": "256KiB", "asks": "100000"}, r.run}
}

type spaceRun struct {
	*session
	choice      choice
	asks, check uint64
	of          []spec // filters to measure; nil: the usual ones
}

// specs returns filters at several rates, our filters first.
func (r *spaceRun) specs() ([]spec, error) {
	if r.of != nil {
		return r.of, nil
	}
	var all []spec
	for _, rate := range []float64{0.1, 0.05, 0.02, 0.01, 0.005, 0.001, 0.0001} {
		all = append(all, ours(variant{rate: rate}))
	}
	for _, rate := range []float64{0.03, defaultRate, 0.0001} {
		all = append(all, spec{fmt.Sprintf("bits-and-blooms/bloom v3, for %s", percent(rate)), false, makeBitsAndBlooms(rate)})
	}
	all = append(all, spec{"Pebble's bloom, 10 bits, parts of a million keys", true, makePebble(10)})
	return r.choice.chosen(append(all, goPeers(0.0025)...))
}

func (r *spaceRun) run() error {
	if r.asks < 1 {
		return errors.New("-asks must be at least 1")
	}
	specs, err := r.specs()
	if err != nil {
		return err
	}
	n := byDefault.keys(int64(r.size))
	r.printf("\n%s keys, and %s absent ones asked for\n", Grouped(int64(n)), Grouped(int64(r.asks)))
	t := NewTable("filter", "keys it has", "lost, of", "bits a key", "rate measured", "log2(1/rate)", "bits above that", "times that")
	for _, spec := range specs {
		if err = r.ctx.Err(); err != nil {
			break
		}
		var k *held
		if k, err = r.measure(spec, n); err != nil {
			err = fmt.Errorf("%s: %w", spec.name, err)
			break // still print the results so far
		}
		t.Row(append(k.cells(), k.distance()...)...)
	}
	r.print(t)
	return err
}

func (r *spaceRun) measure(spec spec, n uint64) (k *held, err error) {
	f, err := spec.create(r.session, n)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()); forget() }()
	k = &held{name: spec.name, filter: f}
	return k, k.fill(r.session, n, spec.filled, r.check, r.asks)
}

// distance compares the space with the least space that any filter with this rate needs
// (Carter et al., "Exact and approximate membership testers", STOC 1978).
func (k *held) distance() []string {
	if k.positives == 0 {
		return []string{fmt.Sprintf("above %.2f", math.Log2(float64(k.asks))), "unknown", "unknown"}
	}
	least := math.Log2(1 / k.rate())
	return []string{fmt.Sprintf("%.2f", least), fmt.Sprintf("%.2f", k.bitsPerKey()-least), fmt.Sprintf("%.3f", k.bitsPerKey()/least)}
}
