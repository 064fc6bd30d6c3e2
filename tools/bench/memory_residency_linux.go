package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/mmapfilter/mmapfilter/tools/internal/figures"
	"github.com/mmapfilter/mmapfilter/tools/internal/machine"
	"golang.org/x/sys/unix"
)

// A mode is a way to open a filter.
type mode struct {
	name      string
	residency mmapfilter.Residency
	unable    bool // without the right to lock more memory than RLIMIT_MEMLOCK
}

var modes = []mode{
	{"default", mmapfilter.ResidencyDefault, false},
	{"random", mmapfilter.ResidencyRandom, false},
	{"will-need", mmapfilter.ResidencyWillNeed, false},
	{"populate", mmapfilter.ResidencyPopulate, false},
	{"lock", mmapfilter.ResidencyLock, false},
	{"lock, by a user without the right", mmapfilter.ResidencyLock, true},
	{"heap", mmapfilter.ResidencyHeap, false},
}

type residencies struct {
	*memoryRun
	path   string
	bytes  int64
	groups bool // control groups are available
	with   string
}

// A situation is how much memory a process has, and whether the file is in the page cache.
type situation struct {
	name    string
	limit   int64
	prepare func(path string) error
}

func (r *residencies) situations() []situation {
	room := 2*r.bytes + 64<<20
	return []situation{
		{"In the page cache, as a program left it that has read the file", room, func(path string) error {
			return errors.Join(machine.DropCache(path), readThrough(path))
		}},
		{"Not in memory, where it fits", room, machine.DropCache},
		{"Larger than memory", int64(r.limit), machine.DropCache},
	}
}

func readThrough(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.CopyBuffer(io.Discard, struct{ io.Reader }{f}, make([]byte, 128<<10))
	return err
}

// residency opens a file in each residency mode, in a process with a memory limit: a file that is in the
// page cache, one that is not and fits, and one that is larger.
func (m *memoryRun) residency() (err error) {
	r := &residencies{memoryRun: m}
	if ok, err := r.needDisk(); !ok {
		return err
	}
	if r.path, err = r.filled(); err != nil {
		return err
	}
	info, err := os.Stat(r.path)
	if err != nil {
		return err
	}
	r.bytes = info.Size()
	if err := r.limiter(); err != nil {
		return err
	}
	r.printf("\n%s file, memory limited by %s; the system reads up to %s ahead. Lookups of absent keys.\n", figures.Mebibytes(r.bytes), r.with, readAhead(r.path))
	for _, s := range r.situations() {
		results := make([][]residencyResult, len(modes))
		for round := range r.rounds {
			for i, m := range modes {
				r.note("%s, round %d, %s", s.name, round+1, m.name)
				result, err := r.measure(s, m)
				if err != nil {
					return fmt.Errorf("%s: %w", m.name, err)
				}
				results[i] = append(results[i], result)
			}
		}
		r.printf("\n%s (%s of memory):\n", s.name, figures.Mebibytes(s.limit))
		r.table(results)
	}
	return nil
}

// limiter chooses what limits the memory: a control group, or where there is none what is left without.
func (r *residencies) limiter() error {
	g, err := newMemoryGroup(int64(r.limit))
	if err == nil {
		r.groups, r.with = true, g.String()
		return g.remove()
	}
	r.printf("\nNOT MEASURED with a limit of the page cache: %v\n", err)
	r.with = "RLIMIT_DATA for what is private and RLIMIT_MEMLOCK for what is locked: the page cache has no limit"
	return nil
}

type (
	residencyArgs struct {
		File      string
		Residency mmapfilter.Residency
		Unable    bool  // give up the right to lock memory
		Rlimit    int64 // 0 for none
		For       time.Duration
	}
	// A residencyResult is the result of one mode in one round. Faults and pages are per lookup.
	residencyResult struct {
		Open, First, Full   time.Duration // Full: from opening to 90 % of Rate
		Rate                float64
		Minor, Major, Pages float64
		Resident, RssFile   int64
		RssAnon             int64
		Failed              string // what killed the process, or the error of opening
	}
)

// measure measures one mode in a process with limited memory.
func (r *residencies) measure(s situation, m mode) (result residencyResult, err error) {
	if err := s.prepare(r.path); err != nil {
		return result, err
	}
	var g *memoryGroup
	if r.groups {
		if g, err = newMemoryGroup(s.limit); err != nil {
			return result, err
		}
		defer func() { err = errors.Join(err, g.remove()) }()
	}
	c, err := r.start()
	if err != nil {
		return result, err
	}
	defer c.end() // before the group is removed
	args := residencyArgs{File: r.path, Residency: m.residency, Unable: m.unable, For: r.steady}
	if g != nil {
		err = g.add(c.pid())
	} else {
		args.Rlimit = s.limit
	}
	if err == nil {
		err = c.ask("residency", args, &result)
	}
	if err := r.ctx.Err(); err != nil {
		return result, err
	}
	switch refused := taskError(""); {
	case errors.As(err, &refused):
		result.Failed = strings.ReplaceAll(string(refused), r.path, "FILE")
	case err != nil && g != nil && g.kills() > 0:
		result.Failed = "killed: the kernel had no memory left for it"
	case err != nil:
		result.Failed = err.Error()
	}
	return result, nil
}

var residencyTask = taskOf((*worker).residency)

func (w *worker) residency(a residencyArgs) (r residencyResult, err error) {
	runtime.LockOSThread() // capabilities belong to a thread
	if err := a.limits(); err != nil {
		return r, err
	}
	started := time.Now()
	f, err := mmapfilter.OpenReadOnly(a.File, &mmapfilter.OpenOptions{Residency: a.Residency})
	if err != nil {
		return r, err
	}
	w.filter = f
	opened := time.Now()
	w.lookUp()
	r.Open, r.First = opened.Sub(started), time.Since(opened)

	var rates []float64
	const window = 20 * time.Millisecond
	for time.Since(opened) < a.For {
		from := time.Now()
		n, _ := w.look(window)
		rates = append(rates, float64(n)/time.Since(from).Seconds())
	}
	before, err := readsSoFar()
	if err != nil {
		return r, err
	}
	begun := time.Now()
	looked, _ := w.look(a.For)
	n := float64(looked)
	r.Rate = n / time.Since(begun).Seconds()
	r.Full = opened.Sub(started) + time.Duration(fullAfter(rates, 0.9*r.Rate))*window
	after, err := readsSoFar()
	if err != nil {
		return r, err
	}
	did := after.since(before)
	r.Minor, r.Major, r.Pages = float64(did.minor)/n, float64(did.major)/n, float64(did.bytes)/layout.PageBytes/n
	var errs [2]error
	r.RssFile, errs[0] = status(0, "RssFile")
	r.RssAnon, errs[1] = status(0, "RssAnon")
	r.Resident = f.Stats().ResidentBytes
	return r, errors.Join(append(errs[:], f.Close())...)
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

// limits limits memory without a control group. RLIMIT_AS would not work: it limits addresses,
// and a mapping takes those even without memory.
func (a *residencyArgs) limits() error {
	if a.Rlimit > 0 {
		used, err := status(0, "VmData")
		if err != nil {
			return err
		}
		for resource, bytes := range map[int]int64{unix.RLIMIT_DATA: used + a.Rlimit, unix.RLIMIT_MEMLOCK: a.Rlimit} {
			var limit unix.Rlimit
			if err := unix.Getrlimit(resource, &limit); err != nil {
				return os.NewSyscallError("getrlimit", err)
			}
			limit.Cur = min(uint64(bytes), limit.Max)
			if err := unix.Setrlimit(resource, &limit); err != nil {
				return os.NewSyscallError("setrlimit", err)
			}
		}
	}
	if a.Unable {
		return dropRight(unix.CAP_IPC_LOCK)
	}
	return nil
}

// dropRight drops a capability of this thread.
func dropRight(capability uint) error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return os.NewSyscallError("capget", err)
	}
	data[capability/32].Effective &^= 1 << (capability % 32)
	return os.NewSyscallError("capset", unix.Capset(&header, &data[0]))
}

// table prints the medians of the rounds.
func (r *residencies) table(results [][]residencyResult) {
	best := 0.0
	for _, row := range results {
		if failure(row) == "" {
			best = max(best, middleOf(row, func(r *residencyResult) float64 { return r.Rate }))
		}
	}
	t := figures.NewTable("mode", "open", "first lookup", "90 % of full speed after", "lookups a second", "of the best", "minor faults a lookup", "major", "pages read", "in the page cache", "mapped (RssFile)", "private (RssAnon)")
	for i, m := range modes {
		row := results[i]
		if failed := failure(row); failed != "" {
			t.Row(m.name, "**"+failed+"**")
			continue
		}
		middle := func(get func(r *residencyResult) float64) float64 { return middleOf(row, get) }
		rate := middle(func(r *residencyResult) float64 { return r.Rate })
		t.Row(m.name,
			figures.Brief(time.Duration(middle(func(r *residencyResult) float64 { return float64(r.Open) }))),
			figures.Brief(time.Duration(middle(func(r *residencyResult) float64 { return float64(r.First) }))),
			figures.Brief(time.Duration(middle(func(r *residencyResult) float64 { return float64(r.Full) }))),
			figures.Digits(rate),
			fmt.Sprintf("%.2f", rate/best),
			figures.Digits(middle(func(r *residencyResult) float64 { return r.Minor })),
			figures.Digits(middle(func(r *residencyResult) float64 { return r.Major })),
			figures.Digits(middle(func(r *residencyResult) float64 { return r.Pages })),
			figures.Mebibytes(int64(middle(func(r *residencyResult) float64 { return float64(r.Resident) }))),
			figures.Mebibytes(int64(middle(func(r *residencyResult) float64 { return float64(r.RssFile) }))),
			figures.Mebibytes(int64(middle(func(r *residencyResult) float64 { return float64(r.RssAnon) }))))
	}
	r.print(t)
}

// middleOf returns the median of the rounds.
func middleOf(row []residencyResult, get func(r *residencyResult) float64) float64 {
	var all []float64
	for i := range row {
		all = append(all, get(&row[i]))
	}
	return figures.Median(all)
}

// failure returns the first failure in any round, or "".
func failure(row []residencyResult) string {
	for _, r := range row {
		if r.Failed != "" {
			return r.Failed
		}
	}
	return ""
}
