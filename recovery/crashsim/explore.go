package crashsim

import (
	"math/rand/v2"
	"time"
)

// An Explorer searches for crashes that a filter does not survive.
type Explorer struct {
	System System
	Seed   uint64 // seed of the first trace; the next traces have the next seeds
	States uint64 // about how many crash states to check

	universes []*Universe
}

// Traces run in rounds, and the number of states is checked after each round. So what a run
// explores depends only on the seed, not on the number of workers or their speed. At the end of
// a round all workers wait for the last one, so rounds are long: a round has as many traces as
// about half of the remaining states need, rounded down to a multiple of minRound.
const minRound = 64

func nextRound(done Stats, states uint64) uint64 {
	if done.States == 0 {
		return minRound
	}
	return max(1, (states-done.States)*done.Traces/done.States/2/minRound) * minRound
}

// Run explores until it has checked enough states, or finds a violation.
func (e *Explorer) Run() (total Stats, violation *Violation) {
	start := time.Now()
	if err := e.Prepare(); err != nil {
		return Stats{}, &Violation{Oracle: "O6", What: err.Error(), Trace: &Trace{Universe: new(Universe)}}
	}
	all := newWorkers(&e.System)
	for total.States < e.States && violation == nil {
		seed := e.Seed + total.Traces
		var round Stats
		round, violation = all.run(int(nextRound(total, e.States)), func(x *worker, i int) *Violation {
			return x.explore(randomTrace(e.universes, seed+uint64(i)))
		})
		total.add(round)
	}
	images := make(map[uint64]struct{})
	for _, x := range all {
		for h := range x.images {
			images[h] = struct{}{}
		}
	}
	total.Images = uint64(len(images))
	total.Elapsed = time.Since(start)
	return total, violation
}

// Prepare creates the universes, with the filter under test. Run calls it. A second call does
// nothing.
func (e *Explorer) Prepare() error {
	if e.universes != nil {
		return nil
	}
	all := make([]*Universe, universes)
	for i := range all {
		rng := rand.New(rand.NewPCG(uint64(i), 0xF00D))
		u, err := newUniverse(&e.System, i, randomShape(i, rng), rng)
		if err != nil {
			return err
		}
		all[i] = u
	}
	e.universes = all
	return nil
}

// explore runs one trace, with crashes.
func (x *worker) explore(t *Trace) *Violation {
	return x.begin(t, t.Seed, 0xBAD, mix(t.Seed), func(v *Volume, st State) {
		v.NoRoom, v.FailHashes = t.noRoom, t.hashOdds
		x.long(v, st, 0, oftenOfTrace)
	})
}
