package crashsim

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mmapfilter/mmapfilter/layout"
)

// Stats says what an explorer has checked.
type Stats struct {
	Traces   uint64
	States   uint64 // recoveries after a crash
	Nested   uint64 // states after a crash in a recovery
	Power    uint64 // states after a power loss; all other states are after a kill
	Trashed  uint64 // states with a trashed sector
	Failures uint64 // syncs, and calls that write hashes, that failed
	Refused  uint64 // logs that found no room on the disk
	Copies   uint64 // copies made beside a writer
	Changing uint64 // copies that were begun in vain
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
	s.Copies += o.Copies
	s.Changing += o.Changing
	s.Images += o.Images
	s.Skipped += o.Skipped
}

func (s Stats) String() string {
	text := fmt.Sprintf("%d traces, %d crash states (%d after a power loss, %d after a crash in a recovery, %d with a trashed sector), %d distinct images, %d failed syncs or writes of hashes, %d logs without room, %d copies beside a writer (%d more in vain), %.1f s, %.0f states/s",
		s.Traces, s.States, s.Power, s.Nested, s.Trashed, s.Images, s.Failures, s.Refused, s.Copies, s.Changing, s.Elapsed.Seconds(), float64(s.States)/s.Elapsed.Seconds())
	if s.Skipped > 0 {
		text += fmt.Sprintf(", %d states like an earlier one", s.Skipped)
	}
	return text
}

// A worker is one goroutine of an explorer.
type worker struct {
	sys    *System
	rng    *rand.Rand
	source rand.PCG
	trace  *Trace
	pool   map[uint][]*Volume // volumes that are not in use, by sector size
	chain  []crash            // crashes that led to the current life
	images map[uint64]struct{}
	done   map[uint64]struct{} // states that need no second check; nil in random exploration
	stats  Stats

	view layout.View              // see look
	at   func(word uint64) uint64 // view.At
	line layout.Line              // a buffer
}

func newWorker(sys *System) *worker {
	w := &worker{sys: sys, pool: make(map[uint][]*Volume), images: make(map[uint64]struct{})}
	w.rng = rand.New(&w.source)
	w.at = w.view.At
	return w
}

// workers are the goroutines of an explorer.
type workers []*worker

// newWorkers returns a worker for each processor.
func newWorkers(sys *System) workers {
	all := make(workers, runtime.GOMAXPROCS(0))
	for i := range all {
		all[i] = newWorker(sys)
	}
	return all
}

// run makes the workers do the tasks 0 to n-1. It returns the first violation, in the order of the
// tasks, and the Stats of the tasks up to that one.
func (all workers) run(n int, do func(x *worker, task int) *Violation) (total Stats, violation *Violation) {
	stats, violations := make([]Stats, n), make([]*Violation, n)
	var next, end atomic.Int64
	end.Store(int64(n))
	var wait sync.WaitGroup
	for _, x := range all {
		wait.Add(1)
		go func() {
			defer wait.Done()
			for i := next.Add(1) - 1; i < end.Load(); i = next.Add(1) - 1 {
				x.stats = Stats{}
				violations[i] = do(x, int(i))
				stats[i] = x.stats
				if violations[i] != nil {
					end.Store(min(i, end.Load())) // earlier tasks are running or done
				}
			}
		}()
	}
	wait.Wait()
	for i := 0; i < n && violation == nil; i++ {
		total.add(stats[i])
		violation = violations[i]
	}
	return total, violation
}

// begin runs a trace from the files of its universe. A violation ends it.
func (x *worker) begin(t *Trace, seed, stream, device uint64, run func(v *Volume, st State)) (violation *Violation) {
	x.trace = t
	x.source.Seed(seed, stream)
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
	v.copyAs(t.Universe.base, sectorShift(t.sector))
	v.reseed(device)
	p := t.Universe.start
	run(v, State{points: []Point{p}, floor: p.LSN, must: p.Meant})
	x.put(v)
	return nil
}

func (x *worker) get() *Volume {
	shift := sectorShift(x.trace.sector)
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
	if free := x.pool[v.shift]; len(free) < mostFree {
		x.pool[v.shift] = append(free, v)
	}
}

// mostFree is how many volumes of a sector size are kept for reuse. Now and then an operation has
// hundreds of forks at once, and a volume keeps the memory of the largest files that it has had.
const mostFree = 32

func (x *worker) chainText() (text []string) {
	for _, c := range x.chain {
		text = append(text, c.String())
	}
	return text
}
