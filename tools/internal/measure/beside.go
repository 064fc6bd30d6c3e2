package measure

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/mmapfilter/mmapfilter/tools/internal/figures"
	"golang.org/x/sys/cpu"
)

// newBeside is the command that measures lookups: two goroutines against one, beside a writer,
// each lookup by itself, during syncs, and checked. The things it compares take turns in rounds.
func newBeside() command {
	l := new(lookups)
	return command{
		flags: func(s *session) {
			l.session = s
			s.bytes = 256 << 20
			s.flags.IntVar(&l.rounds, "rounds", 15, "how often each takes its turn")
			s.flags.DurationVar(&l.turn, "time", 100*time.Millisecond, "how long a turn is; the turns of percentiles are ten times as long, and there are a third as many")
		},
		short: map[string]string{"bytes": "32MiB", "rounds": "3", "time": "10ms"},
		run:   func(*session) error { return l.run() },
	}
}

// filledShare is the share of the capacity that the filter holds at first: the writer needs
// room.
const filledShare = 0.5

func (l *lookups) run() (err error) {
	if l.rounds < 1 {
		return errors.New("no rounds, no figures")
	}
	path, err := l.build("lookup.mmf", mmapfilter.Options{}, int64(l.bytes), filledShare)
	if err != nil {
		return err
	}
	if err := l.parallel(path); err != nil {
		return err
	}
	if err := l.checked(path); err != nil {
		return err
	}
	f, err := mmapfilter.Open(path, &mmapfilter.OpenOptions{CommitInterval: -1, Residency: mmapfilter.ResidencyPopulate})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	// The first insert makes the file live and creates the log. That must not happen in a turn.
	w := newTraffic(l.ctx, f)
	if err := errors.Join(w.during(stateInserts, func() error { return nil }), f.Sync()); err != nil {
		return err
	}
	reader, err := l.start()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, reader.end()) }()
	if err := reader.ask("open", openArgs{path, mmapfilter.ResidencyPopulate}, nil); err != nil {
		return err
	}
	if err := l.beside(w, reader); err != nil {
		return err
	}
	if err := l.percentiles(w, reader); err != nil {
		return err
	}
	return l.syncs(f)
}

// A state is what the writer does while lookups are measured.
type state string

const (
	stateIdle        state = "idle"
	stateInserts     state = "inserts and commits"
	stateCheckpoints state = "inserts and checkpoints"
)

// syncEvery is the number of inserts between commits.
const syncEvery = 65_536

// traffic is a writer that can be turned on and off. It shares no cache line with the lookups
// measured beside it.
type traffic struct {
	ctx     context.Context
	filter  *mmapfilter.Filter
	_       cpu.CacheLinePad
	rng     rand.PCG
	inserts int64
	_       cpu.CacheLinePad
	writing time.Duration
}

func newTraffic(ctx context.Context, f *mmapfilter.Filter) *traffic {
	return &traffic{ctx: ctx, filter: f, rng: *rand.NewPCG(1, 2)}
}

// during runs f while the writer is in a state. Afterwards nothing is pending, and nothing
// remains to be written to the disk.
func (w *traffic) during(is state, f func() error) error {
	if is == stateIdle {
		return f()
	}
	var stop atomic.Bool
	var group sync.WaitGroup
	var errs [2]error
	begun := time.Now()
	group.Add(1)
	go func() {
		defer group.Done()
		errs[0] = w.insert(&stop)
	}()
	if is == stateCheckpoints {
		group.Add(1)
		go func() {
			defer group.Done()
			for !stop.Load() && errs[1] == nil {
				errs[1] = w.filter.Checkpoint(w.ctx)
			}
		}()
	}
	err := f()
	stop.Store(true)
	group.Wait()
	w.writing += time.Since(begun)
	return errors.Join(err, errs[0], errs[1], w.filter.Checkpoint(w.ctx))
}

// insert inserts as fast as it can until it is stopped.
func (w *traffic) insert(stop *atomic.Bool) error {
	for n := 1; !stop.Load(); n++ {
		if err := w.filter.InsertHash(w.rng.Uint64()); err != nil {
			if errors.Is(err, mmapfilter.ErrFull) {
				err = fmt.Errorf("%w: take fewer rounds, or a larger filter", err)
			}
			return err
		}
		w.inserts++
		if n%syncEvery == 0 {
			if err := w.filter.Sync(); err != nil {
				return err
			}
		}
	}
	return nil
}

// A place is a process that runs lookups.
type place struct {
	name string
	rate func(a loopArgs) (speed, error)
	each func(a loopArgs) (*histogram, error)
}

// places are another process and the writer's own.
func places(w *traffic, reader *child) []place {
	here := &worker{filter: w.filter}
	return []place{
		{"another process",
			func(a loopArgs) (v speed, err error) { return v, reader.ask("rate", a, &v) },
			func(a loopArgs) (*histogram, error) {
				h := new(histogram)
				return h, reader.ask("latency", a, h)
			}},
		{"the writer's process", here.rate, here.latency},
	}
}

// beside compares the rate of lookups during inserts with the rate while the writer is idle.
func (l *lookups) beside(w *traffic, reader *child) error {
	l.note("lookups beside a writer")
	kinds := []loopKind{loopCompute, loopContains, loopBatch}
	where := places(w, reader)
	all, err := l.takeTurns(2*len(kinds)*len(where), func(i int) (v speed, err error) {
		is := []state{stateIdle, stateInserts}[i%2]
		p := where[i/2/len(kinds)]
		err = w.during(is, func() (err error) {
			v, err = p.rate(loopArgs{Loop: kinds[i/2%len(kinds)], Seed: uint64(i), For: l.turn})
			return err
		})
		return v, err
	})
	if err != nil {
		return err
	}
	t := figures.NewTable("beside a writer at full speed", "in", "ns when idle", "rate over that when idle", "the same in a second of processor time")
	for i := 0; i < len(all); i += 2 {
		kind := kinds[i/2%len(kinds)]
		name := string(kind)
		if kind == loopCompute {
			name += " (control)"
		}
		clock, processor := all[i+1].over(all[i])
		t.Row(name, where[i/2/len(kinds)].name, all[i].nanoseconds(), "**"+clock+"**", "**"+processor+"**")
	}
	l.print(t)
	l.printf("The writer made %s inserts, %s a second while it wrote.\n", figures.Grouped(w.inserts), figures.Grouped(int64(float64(w.inserts)/w.writing.Seconds())))
	return nil
}

// percentiles times each lookup by itself, and reads the clock after each. The rows of the clock
// alone show what that costs. The rows of arithmetic show how long the machine interrupts a loop
// that takes as long as a lookup but shares nothing.
func (l *lookups) percentiles(w *traffic, reader *child) error {
	l.note("percentiles")
	type row struct {
		where place
		is    state
		kind  loopKind
		sum   histogram
	}
	var rows []*row
	for _, p := range places(w, reader) {
		for _, is := range []state{stateIdle, stateInserts, stateCheckpoints} {
			for _, kind := range []loopKind{loopClock, loopCompute, loopContains} {
				rows = append(rows, &row{where: p, is: is, kind: kind})
			}
		}
	}
	before := w.filter.Stats()
	for round := range max(1, l.rounds/3) {
		for i, r := range rows {
			if err := l.ctx.Err(); err != nil {
				return err
			}
			err := w.during(r.is, func() error {
				h, err := r.where.each(loopArgs{Loop: r.kind, Seed: uint64(1000*round + i), For: 10 * l.turn})
				if err == nil {
					r.sum.merge(h)
				}
				return err
			})
			if err != nil {
				return err
			}
		}
	}
	t := figures.NewTable("single lookups", "while", "measured", "50 %", "99 %", "99.9 %", "99.99 %", "maximum", "count")
	for _, r := range rows {
		cells := []string{"in " + r.where.name, string(r.is), string(r.kind)}
		for _, p := range []float64{0.5, 0.99, 0.999, 0.9999} {
			cells = append(cells, figures.Brief(r.sum.percentile(p)))
		}
		t.Row(append(cells, figures.Brief(r.sum.largest), figures.Grouped(int64(r.sum.n)))...)
	}
	l.print(t)
	after := w.filter.Stats()
	l.printf("There were %d commits and %d checkpoints meanwhile; an operation waited for room in the log for %s at most.\n", after.Commits-before.Commits, after.Checkpoints-before.Checkpoints, figures.Brief(after.LongestStall))
	return nil
}
