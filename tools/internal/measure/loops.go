package measure

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
)

// A loop does one thing n times.
type loop func(n int)

// A loopKind names what a loop does.
type loopKind string

const (
	loopContains loopKind = "Contains"
	loopBatch    loopKind = "ContainsBatch"
	loopCompute  loopKind = "arithmetic"
	loopClock    loopKind = "the clock alone"
)

// batchKeys is how many keys a call of ContainsBatch has.
const batchKeys = 256

// newLoop makes a loop over random absent keys of its own.
func newLoop(kind loopKind, f *mmapfilter.Filter, seed uint64) (loop, error) {
	keys := newAbsentKeys(seed)
	switch kind {
	case loopContains:
		return func(n int) {
			for range n {
				f.Contains(keys.next())
			}
		}, nil
	case loopBatch:
		return batchLoop(f, keys), nil
	case loopCompute:
		return func(n int) {
			for range n {
				for range 48 { // about what a lookup takes that no cache holds, with a look at the clock
					keys.next()
				}
			}
		}, nil
	case loopClock:
		return func(int) {}, nil
	}
	return nil, fmt.Errorf("there is no loop %q", kind)
}

func batchLoop(f *mmapfilter.Filter, keys *absentKeys) loop {
	batch, found := make([][]byte, batchKeys), make([]bool, batchKeys)
	return func(n int) {
		for ; n > 0; n -= batchKeys {
			part := batch[:min(n, batchKeys)]
			for i := range part {
				part[i] = append(part[i][:0], keys.next()...)
			}
			f.ContainsBatch(part, found)
		}
	}
}

// loopBlock is how much of a loop is run between two looks at the clock.
const loopBlock = batchKeys

// A speed is how much a loop does in a second: of the clock, and of the time that
// processors gave it. What it waits for is in the first; what others take away
// of a busy machine is too. The second is 0 where the system does not say.
type speed struct{ Clock, Processor float64 }

// boundFor is how long a goroutine that is measured is bound to its thread, whose time
// is read then, before it yields: a little less than the 10 ms after which the scheduler
// of Go would have it let others run. A bound one changes threads for that, twice, and
// was without one for a twentieth of its time beside a writer; others pay little for it.
const boundFor = 9 * time.Millisecond

// measureSpeed runs a loop from begun on for some time.
func measureSpeed(l loop, begun time.Time, d time.Duration) speed {
	var used time.Duration
	for n := 0; ; runtime.Gosched() {
		blocks, processor := runBound(l, min(boundFor, d-time.Since(begun)))
		n += blocks * loopBlock
		used += processor
		if took := time.Since(begun); took >= d {
			s := speed{Clock: float64(n) / took.Seconds()}
			if used > 0 {
				s.Processor = float64(n) / used.Seconds()
			}
			return s
		}
	}
}

// runBound runs a loop for some time, at least a block: how many blocks, and what
// processors gave it.
func runBound(l loop, d time.Duration) (blocks int, processor time.Duration) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	used := threadTime()
	for begun := time.Now(); ; {
		l(loopBlock)
		if blocks++; time.Since(begun) >= d {
			return blocks, threadTime() - used
		}
	}
}

// together is the speed of several loops at once, each in a goroutine.
func together(loops []loop, d time.Duration) (sum speed) {
	speeds := make([]speed, len(loops))
	var ready, done sync.WaitGroup
	var begun time.Time
	start := make(chan struct{})
	for i, l := range loops {
		ready.Add(1)
		done.Add(1)
		go func() {
			defer done.Done()
			ready.Done()
			<-start
			speeds[i] = measureSpeed(l, begun, d)
		}()
	}
	ready.Wait()
	begun = time.Now()
	close(start)
	done.Wait()
	for _, v := range speeds {
		sum.Clock += v.Clock
		sum.Processor += v.Processor
	}
	return sum
}

// latencies runs a loop one by one, and looks at the clock after each: what it
// gives is the time from one look to the next.
func latencies(l loop, d time.Duration) *histogram {
	h := new(histogram)
	begun := time.Now()
	for last := time.Duration(0); last < d; {
		l(1)
		now := time.Since(begun)
		h.add(now - last)
		last = now
	}
	return h
}

// counting runs a loop one by one and counts, for others to see.
func counting(l loop, d time.Duration, count *uint64) *histogram {
	return latencies(func(int) {
		l(1)
		atomic.AddUint64(count, 1)
	}, d)
}

// Arguments and results of what children do.
type (
	openArgs struct {
		File      string
		Residency mmapfilter.Residency
	}
	loopArgs struct {
		Loop    loopKind
		Seed    uint64
		For     time.Duration
		Counter string // a file whose first word counts
	}
)

func (w *worker) open(a openArgs) (mmapfilter.Stats, error) {
	f, err := mmapfilter.OpenReadOnly(a.File, &mmapfilter.OpenOptions{Residency: a.Residency})
	if err != nil {
		return mmapfilter.Stats{}, err
	}
	w.filter = f
	return f.Stats(), nil
}

func (w *worker) rate(a loopArgs) (speed, error) {
	l, err := newLoop(a.Loop, w.filter, a.Seed)
	if err != nil {
		return speed{}, err
	}
	return measureSpeed(l, time.Now(), a.For), nil
}

func (w *worker) latency(a loopArgs) (*histogram, error) {
	l, err := newLoop(a.Loop, w.filter, a.Seed)
	if err != nil {
		return nil, err
	}
	return latencies(l, a.For), nil
}

func (w *worker) count(a loopArgs) (*histogram, error) {
	l, err := newLoop(a.Loop, w.filter, a.Seed)
	if err != nil {
		return nil, err
	}
	page, err := openCounter(a.Counter)
	if err != nil {
		return nil, err
	}
	defer page.Unmap()
	return counting(l, a.For, page.count), nil
}
