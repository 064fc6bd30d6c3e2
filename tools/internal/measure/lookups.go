package measure

import (
	"errors"
	"slices"
	"time"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/mmapfilter/mmapfilter/tools/internal/figures"
)

// lookups measures lookups of several kinds, which take turns.
type lookups struct {
	*session
	rounds int
	turn   time.Duration
}

// takeTurns runs the turns round by round, and returns for each turn its results in all rounds.
func (l *lookups) takeTurns(n int, turn func(i int) (speed, error)) ([]turns, error) {
	all := make([]turns, n)
	for range l.rounds {
		for i := range n {
			if err := l.ctx.Err(); err != nil {
				return nil, err
			}
			v, err := turn(i)
			if err != nil {
				return nil, err
			}
			all[i].clock = append(all[i].clock, v.Clock)
			all[i].processor = append(all[i].processor, v.Processor)
		}
	}
	return all, nil
}

// turns holds the speeds of one thing in all rounds.
type turns struct{ clock, processor []float64 }

// nanoseconds is the median time of one lookup.
func (t turns) nanoseconds() string { return figures.Digits(1e9 / figures.Median(t.clock)) }

// over divides the speeds by those of another thing, round by round, and returns the medians: by
// the clock and by processor time.
func (t turns) over(other turns) (clock, processor string) {
	if slices.Contains(append(t.processor, other.processor...), 0) {
		return figures.Digits(figures.MedianRatio(t.clock, other.clock)), "unknown"
	}
	return figures.Digits(figures.MedianRatio(t.clock, other.clock)), figures.Digits(figures.MedianRatio(t.processor, other.processor))
}

// parallel compares two goroutines with one.
func (l *lookups) parallel(path string) (err error) {
	l.note("one goroutine and two")
	f, err := mmapfilter.OpenReadOnly(path, &mmapfilter.OpenOptions{Residency: mmapfilter.ResidencyPopulate})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	kinds := []loopKind{loopCompute, loopContains, loopBatch}
	all, err := l.takeTurns(2*len(kinds), func(i int) (speed, error) {
		var loops []loop
		for g := range i%2 + 1 {
			one, err := newLoop(kinds[i/2], f, uint64(i+g*100))
			if err != nil {
				return speed{}, err
			}
			loops = append(loops, one)
		}
		return together(loops, l.turn), nil
	})
	if err != nil {
		return err
	}
	t := figures.NewTable("two goroutines against one", "ns with one", "rate of two over that of one", "the same in a second of processor time each")
	for i, kind := range kinds {
		name := string(kind)
		if kind == loopCompute {
			name += " (control: what the machine has to give)"
		}
		one, two := all[2*i], all[2*i+1]
		clock, processor := two.over(one)
		t.Row(name, one.nanoseconds(), "**"+clock+"**", "**"+processor+"**")
	}
	l.print(t)
	return nil
}

// checked compares lookups that report faults with lookups that do not.
func (l *lookups) checked(path string) (err error) {
	l.note("checked lookups")
	var filters [2]*mmapfilter.Filter
	for i := range filters {
		f, err := mmapfilter.OpenReadOnly(path, &mmapfilter.OpenOptions{Residency: mmapfilter.ResidencyPopulate, Checked: i == 1})
		if err != nil {
			return err
		}
		defer f.Close()
		filters[i] = f
	}
	kinds := []loopKind{loopContains, loopBatch}
	all, err := l.takeTurns(4, func(i int) (speed, error) {
		one, err := newLoop(kinds[i/2], filters[i%2], uint64(i))
		if err != nil {
			return speed{}, err
		}
		return measureSpeed(one, time.Now(), l.turn), nil
	})
	if err != nil {
		return err
	}
	t := figures.NewTable("Checked", "ns without", "ns with", "time with over time without", "the same of processor time")
	for i, kind := range kinds {
		without, with := all[2*i], all[2*i+1]
		clock, processor := without.over(with)
		t.Row(string(kind), without.nanoseconds(), with.nanoseconds(), "**"+clock+"**", "**"+processor+"**")
	}
	l.print(t)
	return nil
}
