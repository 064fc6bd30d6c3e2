package main

import (
	"errors"
	"fmt"
	"net/rpc"
	"os"
	"strings"
	"time"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/mmapfilter"
)

// modes are the ways to open a filter.
var modes = []struct {
	name      string
	residency mmapfilter.Residency
}{
	{"default", mmapfilter.ResidencyDefault},
	{"random", mmapfilter.ResidencyRandom},
	{"lock", mmapfilter.ResidencyLock},
	{"heap", mmapfilter.ResidencyHeap},
}

// residency opens a file in each residency mode, in a process with a memory limit: once with a
// limit that the file fits in, and once with a smaller one. At the start no part of the file is in
// memory.
func (m *memoryRun) residency() error {
	if why := "files here are always in memory: let -dir name a directory on a disk"; !onDisk(m.temp) {
		if !m.short {
			return errors.New(why)
		}
		m.printf("\nNOT MEASURED: %s\n", why) // a short run goes on
		return nil
	}
	path, err := m.filled()
	if err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	g, err := newMemoryGroup(int64(m.limit))
	if err != nil {
		m.printf("\nNOT MEASURED: %v\n", err)
		return nil
	}
	if err := g.remove(); err != nil {
		return err
	}
	m.printf("\n%s file, memory limited by %s; the system reads up to %s ahead. Lookups of absent keys.\n", Mebibytes(info.Size()), g, readAhead(path))
	for _, s := range []struct {
		name  string
		limit int64
	}{{"Not in memory, where it fits", 2*info.Size() + 64<<20}, {"Larger than memory", int64(m.limit)}} {
		results := make([][]ResidencyResult, len(modes))
		for round := range m.rounds {
			for i, mode := range modes {
				m.note("%s, round %d, %s", s.name, round+1, mode.name)
				result, err := m.opened(ResidencyArgs{path, mode.residency, m.steady}, s.limit)
				if err != nil {
					return fmt.Errorf("%s: %w", mode.name, err)
				}
				results[i] = append(results[i], result)
			}
		}
		m.printf("\n%s (%s of memory):\n", s.name, Mebibytes(s.limit))
		m.residencyTable(results)
	}
	return nil
}

type (
	ResidencyArgs struct {
		File      string
		Residency mmapfilter.Residency
		For       time.Duration
	}
	// A ResidencyResult is the result of one mode in one round. Faults and pages are per lookup.
	ResidencyResult struct {
		Open, First, Full   time.Duration // Full: from opening to 90 % of Rate
		Rate                float64
		Minor, Major, Pages float64
		Resident, RssFile   int64
		RssAnon             int64
		Failed              string // the signal that killed the process, or the error of opening
	}
)

// opened measures one mode in a process with limited memory.
func (m *memoryRun) opened(args ResidencyArgs, limit int64) (result ResidencyResult, err error) {
	if err := dropCache(args.File); err != nil {
		return result, err
	}
	g, err := newMemoryGroup(limit)
	if err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, g.remove()) }()
	c, err := m.start()
	if err != nil {
		return result, err
	}
	defer c.end() // before the group is removed
	if err = g.add(c.pid()); err == nil {
		err = c.ask("Residency", args, &result)
	}
	if err := m.ctx.Err(); err != nil {
		return result, err
	}
	switch refused := rpc.ServerError(""); {
	case errors.As(err, &refused):
		result.Failed = strings.ReplaceAll(string(refused), args.File, "FILE")
	case err != nil && g.kills() > 0:
		result.Failed = "killed: the kernel had no memory left for it"
	case err != nil:
		result.Failed = err.Error()
	}
	return result, nil
}

// Residency opens a filter, and looks keys up.
func (w *worker) Residency(a ResidencyArgs, r *ResidencyResult) error {
	started := time.Now()
	f, err := mmapfilter.OpenReadOnly(a.File, &mmapfilter.OpenOptions{Residency: a.Residency})
	if err != nil {
		return err
	}
	w.filter = f
	opened := time.Now()
	w.lookUp()
	r.Open, r.First = opened.Sub(started), time.Since(opened)

	var rates []float64
	const window = 20 * time.Millisecond
	for time.Since(opened) < a.For {
		from := time.Now()
		n := 0
		w.Look(window, &n)
		rates = append(rates, float64(n)/time.Since(from).Seconds())
	}
	before, err := readsSoFar()
	if err != nil {
		return err
	}
	begun := time.Now()
	looked := 0
	w.Look(a.For, &looked)
	n := float64(looked)
	r.Rate = n / time.Since(begun).Seconds()
	r.Full = opened.Sub(started) + time.Duration(fullAfter(rates, 0.9*r.Rate))*window
	after, err := readsSoFar()
	if err != nil {
		return err
	}
	did := after.since(before)
	r.Minor, r.Major, r.Pages = float64(did.minor)/n, float64(did.major)/n, float64(did.bytes)/layout.PageBytes/n
	var errs [2]error
	r.RssFile, errs[0] = status(os.Getpid(), "RssFile")
	r.RssAnon, errs[1] = status(os.Getpid(), "RssAnon")
	r.Resident = f.Stats().ResidentBytes
	return errors.Join(append(errs[:], f.Close())...)
}

// fullAfter returns the index of the first window from which five windows reach a rate on average.
func fullAfter(rates []float64, rate float64) int {
	for i := range rates {
		sum, few := 0.0, rates[i:min(i+5, len(rates))]
		for _, r := range few {
			sum += r
		}
		if sum >= rate*float64(len(few)) {
			return i
		}
	}
	return len(rates)
}

// residencyTable prints the medians of the rounds.
func (m *memoryRun) residencyTable(results [][]ResidencyResult) {
	best := 0.0
	for _, row := range results {
		if failure(row) == "" {
			best = max(best, middleOf(row, func(r *ResidencyResult) float64 { return r.Rate }))
		}
	}
	t := NewTable("mode", "open", "first lookup", "90 % of full speed after", "lookups a second", "of the best", "minor faults a lookup", "major", "pages read", "in the page cache", "mapped (RssFile)", "private (RssAnon)")
	for i, mode := range modes {
		row := results[i]
		if failed := failure(row); failed != "" {
			t.Row(mode.name, "**"+failed+"**")
			continue
		}
		rate := middleOf(row, func(r *ResidencyResult) float64 { return r.Rate })
		t.Row(mode.name,
			Brief(middleOf(row, func(r *ResidencyResult) time.Duration { return r.Open })),
			Brief(middleOf(row, func(r *ResidencyResult) time.Duration { return r.First })),
			Brief(middleOf(row, func(r *ResidencyResult) time.Duration { return r.Full })),
			Digits(rate),
			fmt.Sprintf("%.2f", rate/best),
			Digits(middleOf(row, func(r *ResidencyResult) float64 { return r.Minor })),
			Digits(middleOf(row, func(r *ResidencyResult) float64 { return r.Major })),
			Digits(middleOf(row, func(r *ResidencyResult) float64 { return r.Pages })),
			Mebibytes(middleOf(row, func(r *ResidencyResult) int64 { return r.Resident })),
			Mebibytes(middleOf(row, func(r *ResidencyResult) int64 { return r.RssFile })),
			Mebibytes(middleOf(row, func(r *ResidencyResult) int64 { return r.RssAnon })))
	}
	m.print(t)
}

// middleOf returns the median of the rounds.
func middleOf[T ~int64 | float64](row []ResidencyResult, get func(r *ResidencyResult) T) T {
	var all []T
	for i := range row {
		all = append(all, get(&row[i]))
	}
	return Median(all)
}

// failure returns the first failure in any round, or "".
func failure(row []ResidencyResult) string {
	for _, r := range row {
		if r.Failed != "" {
			return r.Failed
		}
	}
	return ""
}
