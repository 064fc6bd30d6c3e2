package crashsim

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// An Explorer searches for crashes that a filter does not survive.
type Explorer struct {
	System System
	Seed   uint64 // seed of the first trace; the next traces have the next seeds
	States uint64 // about how many crash states to check
	// Workers is the number of goroutines; 0 means one for each processor.
	Workers int

	universes []*Universe
}

// Stats says what an explorer has checked.
type Stats struct {
	Traces   uint64
	States   uint64 // recoveries after a crash
	Nested   uint64 // states after a crash in a recovery
	Power    uint64 // states after a power loss; the others are after a kill
	Trashed  uint64 // states with a trashed sector
	Failures uint64 // syncs that failed
	Refused  uint64 // logs for which there was no room
	Lookups  uint64 // lookups beside a writer or a recovery
	Images   uint64 // distinct file contents that recoveries found
	Skipped  uint64 // in an Exhaustive: crashes with an image that was already recovered
	Elapsed  time.Duration
}

func (s *Stats) add(o Stats) {
	s.Traces += o.Traces
	s.States += o.States
	s.Nested += o.Nested
	s.Power += o.Power
	s.Trashed += o.Trashed
	s.Failures += o.Failures
	s.Refused += o.Refused
	s.Lookups += o.Lookups
	s.Skipped += o.Skipped
}

func (s Stats) String() string {
	text := fmt.Sprintf("%d traces, %d crash states (%d after a power loss, %d of a crash inside recovery, %d with a trashed sector), %d distinct images, %d failed syncs, %d logs without room, %d lookups beside a writer, %.1f s, %.0f states/s",
		s.Traces, s.States, s.Power, s.Nested, s.Trashed, s.Images, s.Failures, s.Refused, s.Lookups, s.Elapsed.Seconds(), float64(s.States)/s.Elapsed.Seconds())
	if s.Skipped > 0 {
		text += fmt.Sprintf(", %d states like one before", s.Skipped)
	}
	return text
}

// A worker is one goroutine of an explorer.
type worker struct {
	sys    *System
	rng    *rand.Rand
	source rand.PCG
	trace  *Trace
	pool   map[uint][]*Volume // by sector size
	chain  []crash            // crashes that led to the current life
	images map[uint64]struct{}
	done   map[uint64]struct{} // states that need no second check; nil in random exploration
	stats  Stats
}

func newWorker(sys *System) *worker {
	w := &worker{sys: sys, pool: make(map[uint][]*Volume), images: make(map[uint64]struct{})}
	w.rng = rand.New(&w.source)
	return w
}

func (x *worker) get() *Volume {
	shift := uint(3 * x.trace.sector)
	free := x.pool[shift]
	if len(free) == 0 {
		return new(Volume)
	}
	x.pool[shift] = free[:len(free)-1]
	return free[len(free)-1]
}

func (x *worker) put(v *Volume) {
	x.stats.Failures += uint64(v.Failed)
	x.stats.Refused += uint64(v.Refused)
	x.pool[v.shift] = append(x.pool[v.shift], v)
}

// round is how many traces run between two checks of the number of states. So what a run
// explores depends only on the seed, not on the number of workers or their speed.
const round = 64

// Run explores until it has checked enough states, or finds a violation.
func (e *Explorer) Run() (total Stats, violation *Violation) {
	start := time.Now()
	if err := e.Prepare(); err != nil {
		return Stats{}, &Violation{Oracle: "O6", What: err.Error(), Trace: &Trace{Universe: new(Universe)}}
	}
	n := e.Workers
	if n == 0 {
		n = runtime.GOMAXPROCS(0)
	}
	workers := make([]*worker, n)
	for i := range workers {
		workers[i] = newWorker(&e.System)
	}
	for seed := e.Seed; total.States < e.States && violation == nil; seed += round {
		var stats [round]Stats
		var violations [round]*Violation
		var next, end atomic.Int64
		end.Store(round)
		var wait sync.WaitGroup
		for _, x := range workers {
			wait.Add(1)
			go func() {
				defer wait.Done()
				for i := next.Add(1) - 1; i < end.Load(); i = next.Add(1) - 1 {
					x.stats = Stats{}
					violations[i] = x.explore(randomTrace(e.universes, seed+uint64(i)))
					stats[i] = x.stats
					if violations[i] != nil {
						end.Store(min(i, end.Load())) // earlier traces are running or done
					}
				}
			}()
		}
		wait.Wait()
		for i := 0; i < round && violation == nil; i++ {
			total.add(stats[i])
			violation = violations[i]
		}
	}
	images := make(map[uint64]struct{})
	for _, x := range workers {
		for h := range x.images {
			images[h] = struct{}{}
		}
	}
	total.Images = uint64(len(images))
	total.Elapsed = time.Since(start)
	return total, violation
}

// Prepare makes the universes, with the filter under test. Run calls it; a second call does
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
func (x *worker) explore(t *Trace) (violation *Violation) {
	x.trace = t
	x.source.Seed(t.Seed, 0xBAD)
	x.chain = x.chain[:0]
	x.stats.Traces++
	defer func() {
		if r := recover(); r != nil {
			v, ok := r.(*Violation)
			if !ok {
				panic(r)
			}
			violation = v
		}
	}()
	v := x.get()
	v.copyFrom(t.Universe.bases[t.sector])
	v.reseed(mix(t.Seed))
	v.NoRoom = t.noRoom
	p := t.Universe.start
	x.long(v, State{points: []Point{p}, floor: p.LSN, must: p.Counts}, len(t.Ops), 0, forksOfTrace)
	x.put(v)
	return nil
}

// About how often a life is forked: that of a whole trace, that of a client that continues
// after a crash, and one whose sync has failed, after the failure.
const (
	forksOfTrace  = 60
	forksOfClient = 12
	forksOfDead   = 6
)

// weights are the relative odds of a crash after each kind of event.
var weights = [eventKinds]float64{
	StoreHead: 0.02, StoreLog: 0.15, StoreVisible: 0.4, SyncBegins: 1, SyncEnds: 0.5, NameChanges: 1.5,
}

// long lives a life with operations: first a rehearsal, then the same with forks.
func (x *worker) long(v *Volume, st State, end, depth, forks int) {
	rv := x.get()
	rv.copyFrom(v)
	rv.keep = true
	rehearsal := &life{x: x, v: rv, st: st, depth: depth}
	rehearsal.begin(x.trace.readers)
	rehearsal.live(end)
	rv.watch = nil
	if x.trace.readers {
		rehearsal.read(10 + 12*forks)
	}
	if forks > 0 {
		x.again(v, st, rehearsal, end, depth, forks)
	}
	x.put(rv)
}

// again repeats the life of a rehearsal, with forks.
func (x *worker) again(v *Volume, st State, rehearsal *life, end, depth, forks int) {
	kinds := rehearsal.v.kinds
	total := 0.0
	for _, k := range kinds {
		total += weights[k]
	}
	scale := float64(forks) / total
	at := 0 // number of the last event chosen
	choose := func() int {
		for ; at < len(kinds); at++ {
			if x.rng.Float64() < weights[kinds[at]]*scale {
				at++
				return at
			}
		}
		return -1
	}
	l := &life{x: x, v: v, st: st, depth: depth, rehearsal: rehearsal}
	l.begin(false)
	v.hook = func(e Event) {
		x.fork(l, e)
		if e == SyncBegins {
			x.fork(l, e)
		}
		v.next = choose()
	}
	v.next = choose()
	l.live(end)
	if v.events != len(kinds) {
		panic(fmt.Sprintf("crashsim: %d events, %d in the rehearsal of %s", v.events, len(kinds), x.trace))
	}
	v.hook = nil
	if l.dead {
		for range forksOfDead {
			x.fork(l, SyncEnds)
		}
	}
}

// short lives a life that only recovers. It may be forked once.
func (x *worker) short(v *Volume, st State, depth int) {
	l := &life{x: x, v: v, st: st, depth: depth}
	l.begin(x.trace.readers && x.rng.IntN(3) == 0)
	odds := 3
	if v.hasLost() || !v.named() { // a recovery cannot rely on the cache, or on the names there
		odds = 1
	}
	if depth < maxDepth && x.rng.IntN(odds) == 0 {
		x.aim(v)
		v.hook = func(e Event) { x.fork(l, e) }
	}
	l.open(false)
	v.hook, v.watch = nil, nil
	l.read(6)
}

// maxDepth is the largest number of crashes in a row: one in a writer and three in
// recoveries.
const maxDepth = 4

// aim chooses an event of a recovery to crash after.
func (x *worker) aim(v *Volume) {
	e, n := SyncBegins, 8
	kinds := 20
	if !v.named() {
		kinds = 40
	}
	switch x.rng.IntN(kinds) {
	case 0, 1:
		e, n = SyncEnds, 8
	case 2, 3, 4, 5, 6, 7:
		e, n = StoreVisible, 24
	case 8, 9:
		e, n = StoreLog, 60
	case 10, 11:
		e, n = StoreHead, 60
	case 12, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29:
		e, n = NameChanges, 2
	}
	v.left[e] = 1 + x.rng.IntN(n)
}
