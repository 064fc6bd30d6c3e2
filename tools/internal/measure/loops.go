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

// batchKeys is the number of keys in a call of ContainsBatch.
const batchKeys = 256

// newLoop makes a loop over its own random absent keys.
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
				for range 48 { // about as long as an uncached lookup and a look at the clock
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

// loopBlock is how many times a loop runs between two looks at the clock.
const loopBlock = batchKeys

// A speed is how much a loop does in a second of the clock, and in a second of processor time.
// Only the first includes waiting, and time that others take from a busy machine. The second is
// 0 where the system does not report it.
type speed struct{ Clock, Processor float64 }

// boundFor is how long a measured goroutine stays bound to its thread before its processor time
// is read and it yields. It is a little less than the 10 ms after which the Go scheduler
// preempts a goroutine. Preempting a bound goroutine takes two switches of threads, and beside a
// writer would leave it without a thread for a noticeable share of its time.
const boundFor = 9 * time.Millisecond

// measureSpeed runs a loop for the duration d, counted from begun.
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

// runBound runs a loop for the duration d, but at least for a block. It returns the number of
// blocks and the processor time used.
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

// together returns the speed of several loops at once, each in its own goroutine.
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

// latencies runs a loop one step at a time and reads the clock after each. It records the times
// from one reading to the next.
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

// counting is like latencies, and counts the steps where other processes can see the count.
func counting(l loop, d time.Duration, count *uint64) *histogram {
	return latencies(func(int) {
		l(1)
		atomic.AddUint64(count, 1)
	}, d)
}

// Arguments and results of the tasks of children.
type (
	openArgs struct {
		File      string
		Residency mmapfilter.Residency
	}
	loopArgs struct {
		Loop    loopKind
		Seed    uint64
		For     time.Duration
		Counter string // a file whose first word is the counter
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
