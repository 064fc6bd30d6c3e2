package measure

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/mmapfilter/mmapfilter/tools/internal/figures"
	"golang.org/x/sys/unix"
)

// syncs counts the lookups that are answered while a commit waits for the disk. A thread inserts
// and commits, and the kernel says in /proc/PID/task/TID/syscall which call it is in. A Sync
// calls fdatasync once. So if two consecutive looks find the thread there in the same Sync, all
// lookups in between were answered during that call.
func (l *lookups) syncs(f *mmapfilter.Filter) (err error) {
	l.note("lookups during syncs")
	file := l.path("count")
	page, err := newCounter(file)
	if err != nil {
		return err
	}
	defer page.Unmap()
	reader, err := l.start()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, reader.end()) }()
	if err := reader.ask("open", openArgs{l.path("lookup.mmf"), mmapfilter.ResidencyPopulate}, nil); err != nil {
		return err
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(runtime.NumCPU() + 2)) // for the watcher
	here := &worker{filter: f}
	t := figures.NewTable("lookups during commits", "measured", "syncs seen in progress", "time in them, seen", "answered in them", "a second", "over the rate at other times", "longest of all", "Sync, median", "longest")
	for _, p := range []struct {
		name  string
		count func(a loopArgs) (*histogram, error)
	}{
		{"another process", func(a loopArgs) (*histogram, error) {
			h := new(histogram)
			return h, reader.ask("count", a, h)
		}},
		{"the writer's process", here.count},
	} {
		for _, kind := range []loopKind{loopCompute, loopContains} {
			args := loopArgs{Loop: kind, Seed: 7, For: time.Duration(l.rounds) * 4 * l.turn, Counter: file}
			s, err := watchSyncs(f, page.count, func() (*histogram, error) { return p.count(args) })
			if errors.Is(err, os.ErrNotExist) || errors.Is(err, os.ErrPermission) {
				l.printf("\nNOT MEASURED: lookups that are answered during an fdatasync: %v\n", err)
				return nil
			}
			if err != nil {
				return err
			}
			t.Row("in "+p.name, string(kind), fmt.Sprintf("%d of %d", s.calls, len(s.syncs)), figures.Brief(s.inside), "**"+figures.Grouped(int64(s.answered))+"**", s.rate(), s.share(), figures.Brief(s.lookups.largest), figures.Brief(figures.Median(s.syncs)), figures.Brief(slices.Max(s.syncs)))
		}
	}
	l.print(t)
	return nil
}

// A syncWatch is what was observed of lookups and syncs.
type syncWatch struct {
	calls    int           // syncs observed inside the call
	inside   time.Duration // between two looks that found the same sync
	answered uint64        // lookups in that time
	total    uint64
	took     time.Duration
	syncs    []time.Duration
	lookups  *histogram
}

// rate returns the rate of lookups during syncs, per second.
func (s *syncWatch) rate() string {
	if s.inside == 0 {
		return "no sync seen"
	}
	return figures.Grouped(int64(float64(s.answered) / s.inside.Seconds()))
}

// share returns the rate of lookups during syncs divided by that at other times.
func (s *syncWatch) share() string {
	outside := float64(s.total-s.answered) / (s.took - s.inside).Seconds()
	if s.inside == 0 || outside == 0 {
		return "no sync seen"
	}
	return figures.Digits(float64(s.answered) / s.inside.Seconds() / outside)
}

// syncedInserts is how many inserts the writer makes before each Sync.
const syncedInserts = 8192

// A syncer is a writer in its own thread.
type syncer struct {
	thread atomic.Int64
	turn   atomic.Uint64 // odd during a Sync
	stop   atomic.Bool
	ended  chan error
	syncs  []time.Duration // valid once it has ended
}

func startSyncer(f *mmapfilter.Filter) *syncer {
	w := &syncer{ended: make(chan error, 1)}
	started := make(chan struct{})
	go func() {
		runtime.LockOSThread() // the thread ends with the goroutine
		w.thread.Store(int64(unix.Gettid()))
		close(started)
		w.ended <- w.run(f)
	}()
	<-started
	return w
}

func (w *syncer) run(f *mmapfilter.Filter) error {
	rng := rand.NewPCG(5, 6)
	for !w.stop.Load() {
		for range syncedInserts {
			if err := f.InsertHash(rng.Uint64()); err != nil {
				return err
			}
		}
		w.turn.Add(1)
		begun := time.Now()
		if err := f.Sync(); err != nil {
			return err
		}
		w.syncs = append(w.syncs, time.Since(begun))
		w.turn.Add(1)
	}
	return nil
}

// A look is what a thread was found doing, with the counts before and after the look.
type look struct {
	turn          uint64
	syncing       bool
	before, after uint64
	begun, ended  time.Time
}

func (w *syncer) look(calls *os.File, count *uint64) (l look, err error) {
	l.begun, l.before = time.Now(), atomic.LoadUint64(count)
	l.turn = w.turn.Load()
	var text [64]byte
	n, err := calls.ReadAt(text[:], 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return l, err
	}
	l.syncing = l.turn%2 == 1 && inSync(string(text[:n])) && w.turn.Load() == l.turn
	l.after, l.ended = atomic.LoadUint64(count), time.Now()
	return l, nil
}

// inSync reports whether a thread is waiting in fdatasync. The kernel describes it as "running",
// or by the number of a call and its arguments.
func inSync(text string) bool {
	number, _, _ := strings.Cut(text, " ")
	n, err := strconv.Atoi(number)
	return err == nil && n == unix.SYS_FDATASYNC
}

// watchSyncs watches a writer while lookups run and are counted.
func watchSyncs(f *mmapfilter.Filter, count *uint64, lookups func() (*histogram, error)) (*syncWatch, error) {
	w := startSyncer(f)
	stopped := func() error {
		w.stop.Store(true)
		return <-w.ended
	}
	calls, err := os.Open(fmt.Sprintf("/proc/self/task/%d/syscall", w.thread.Load()))
	if err != nil {
		return nil, errors.Join(err, stopped())
	}
	defer calls.Close()
	s := new(syncWatch)
	done := make(chan error, 1)
	begun, first := time.Now(), atomic.LoadUint64(count)
	go func() {
		var err error
		s.lookups, err = lookups()
		done <- err
	}()
	var last look
	seen := uint64(0)
	for watching := true; watching && err == nil; {
		select {
		case err = <-done:
			watching = false
			continue
		default:
		}
		var now look
		if now, err = w.look(calls, count); err != nil {
			err = errors.Join(err, <-done)
			break
		}
		if now.syncing && last.syncing && now.turn == last.turn {
			s.inside += now.begun.Sub(last.ended)
			s.answered += now.before - last.after
			if seen != now.turn {
				s.calls, seen = s.calls+1, now.turn
			}
		}
		last = now
		time.Sleep(lookPause)
	}
	s.took, s.total = time.Since(begun), atomic.LoadUint64(count)-first
	err = errors.Join(err, stopped())
	s.syncs = w.syncs
	return s, err
}

// lookPause leaves the processor to the threads that are watched.
const lookPause = 50 * time.Microsecond
