//go:build faults

package mmapfilter

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout/wal"
	"github.com/mmapfilter/mmapfilter/recovery/fault"
)

// A failure says which writing calls fail: the n-th, counted from 1, and all later ones if sticky is
// set.
type failure struct {
	n      int
	sticky bool
	err    syscall.Errno
}

func (p failure) String() string { return fmt.Sprintf("call %d, sticky=%t: %v", p.n, p.sticky, p.err) }

// start makes calls fail from now on. call returns the name of the first call that failed, or "".
func (p failure) start() (call func() string) {
	var mu sync.Mutex
	seen, first := 0, ""
	fault.Hook = func(call string) error {
		mu.Lock()
		defer mu.Unlock()
		if seen++; seen == p.n {
			first = call
		}
		if seen == p.n || seen > p.n && p.sticky {
			return p.err
		}
		return nil
	}
	return func() string {
		mu.Lock()
		defer mu.Unlock()
		return first
	}
}

// An ioRun runs the ioSteps on a file while calls fail.
type ioRun struct {
	t       *testing.T
	failure failure
	path    string
	copied  string // path of a copy made by abandon
	f       *Filter
	rng     *rand.Rand
	quiet   bool // no work in the background

	ops   []ioOp
	live  []uint64 // keys in the filter
	acked int      // number of operations that must survive any failure
}

type ioOp struct {
	hash   uint64
	insert bool
}

// errorf reports an error and names the failure.
func (r *ioRun) errorf(format string, args ...any) {
	r.t.Helper()
	r.t.Errorf("%v: %s", r.failure, fmt.Sprintf(format, args...))
}

// An ioStep is one call of the library.
type ioStep struct {
	name string
	do   func(r *ioRun) error
	acks bool // if it succeeds, all operations before it survive any failure
}

// builtKeys is the number of keys that Build puts into the file. With spilling, some of their hashes go
// to a temporary file.
const builtKeys = 45_000

var ioSteps = []ioStep{
	{"Create", func(r *ioRun) (err error) {
		r.f, err = Create(r.path, &Options{Capacity: 2500, CommitInterval: -1, Seed: 1})
		r.opened()
		return err
	}, false},
	{"insert", func(r *ioRun) error { return r.operate(200, 0) }, false},
	{"Sync", (*ioRun).sync, true},
	{"insert and delete", func(r *ioRun) error { return r.operate(100, 70) }, false},
	{"Sync", (*ioRun).sync, true},
	{"delete", func(r *ioRun) error { return r.operate(0, 30) }, false},
	{"Checkpoint", func(r *ioRun) error { return r.f.Checkpoint(context.Background()) }, true},
	{"fill the log", func(r *ioRun) error {
		const larger = wal.MinBytes + 4*wal.PageBytes // the next log
		r.f.open.Load().work.Writer.LimitLog(larger)
		size := func() int64 { return r.f.Stats().LogBytes }
		for size() != larger && !r.cramped() {
			if err := r.operate(100, 90); err != nil {
				return err
			}
		}
		if r.cramped() {
			if s := r.f.Stats(); s.LogBytes != wal.MinBytes || !strings.Contains(s.Warning, r.failure.err.Error()) {
				r.errorf("a log without room has %d bytes, and the warning is %q", s.LogBytes, s.Warning)
			}
		}
		return nil
	}, false},
	{"recover a copy", func(r *ioRun) error {
		r.copied = abandon(r.t, r.f, r.path)
		if _, err := Recover(r.copied); err != nil {
			return err
		}
		r.check(r.copied, len(r.ops), len(r.ops))
		return nil
	}, false},
	{"Close", func(r *ioRun) error { return r.f.Close() }, true},
	{"Open", func(r *ioRun) (err error) {
		r.f, err = Open(r.path, &OpenOptions{CommitInterval: -1})
		r.opened()
		return err
	}, false},
	{"insert and delete", func(r *ioRun) error { return r.operate(50, 60) }, false},
	{"Seal", func(r *ioRun) error { return r.f.Seal(context.Background()) }, true},
	{"unseal", func(r *ioRun) error { return r.operate(10, 10) }, false},
	{"Sync", (*ioRun).sync, true},
	{"Seal", func(r *ioRun) error { return r.f.Seal(context.Background()) }, true},
	{"Close", func(r *ioRun) error { return r.f.Close() }, true},
	{"Build", func(r *ioRun) error {
		f, err := Build(context.Background(), r.path, spilling(), numbers(0, builtKeys))
		if err != nil {
			return err
		}
		return f.Close()
	}, false},
}

// opened sets up a writer after opening: the log begins small, and grows when a step allows it.
func (r *ioRun) opened() {
	if r.f == nil {
		return
	}
	l := r.f.open.Load().work
	l.Writer.LimitLog(wal.MinBytes)
	if r.quiet {
		l.Writer.Work = nil
	}
}

func (r *ioRun) sync() error { return r.f.SyncAt(uint64(len(r.ops))) }

// operate does operations in random order, up to the first that fails.
func (r *ioRun) operate(inserts, deletes int) error {
	for inserts+deletes > 0 {
		if r.rng.IntN(inserts+deletes) < inserts {
			inserts--
			hash := r.rng.Uint64()
			if r.rng.IntN(8) == 0 && len(r.live) > 0 {
				hash = r.live[0]
			}
			if err := r.f.InsertHash(hash); err != nil {
				return err
			}
			r.ops = append(r.ops, ioOp{hash, true})
			r.live = append(r.live, hash)
			continue
		}
		deletes--
		i := r.rng.IntN(len(r.live))
		if ok, err := r.f.DeleteHash(r.live[i]); err != nil {
			return err
		} else if !ok {
			r.errorf("Delete does not find a key that was inserted")
		}
		r.ops = append(r.ops, ioOp{r.live[i], false})
		r.live[i] = r.live[len(r.live)-1]
		r.live = r.live[:len(r.live)-1]
	}
	return nil
}

// check opens a file, while no calls fail, and checks that it has the first n operations, where n is
// from atLeast to atMost.
func (r *ioRun) check(path string, atLeast, atMost int) {
	r.t.Helper()
	saved := fault.Hook
	fault.Hook = nil
	defer func() { fault.Hook = saved }()
	f, err := Open(path, &OpenOptions{CommitInterval: -1})
	if err != nil {
		r.errorf("open again: %v", err)
		return
	}
	n := int(f.DurableSeq() + f.DurableOps())
	if n < atLeast || n > atMost {
		r.errorf("the file has %d operations, not %d to %d", n, atLeast, atMost)
		f.Close()
		return
	}
	count, length := make(map[uint64]int), 0
	for _, op := range r.ops[:n] {
		if op.insert {
			count[op.hash]++
			length++
		} else {
			count[op.hash]--
			length--
		}
	}
	if f.Len() != uint64(length) {
		r.errorf("%d items, not %d", f.Len(), length)
	}
	for hash, n := range count {
		if n > 0 && !f.ContainsHash(hash) {
			r.errorf("one of %d keys is missing", len(count))
			break
		}
	}
	// A log that was left behind is removed together with the next log.
	if err := errors.Join(f.Insert([]byte("one more")), f.Close()); err != nil {
		r.errorf("close again: %v", err)
	}
	if _, err := Verify(context.Background(), path); err != nil {
		r.errorf("%v", err)
	}
	r.checkAlone(path)
}

// checkAlone checks that no files are left beside a closed filter.
func (r *ioRun) checkAlone(path string) {
	r.t.Helper()
	if list, _ := filepath.Glob(path + ".*"); len(list) != 0 {
		r.errorf("left %v", list)
	}
}

// cramped reports whether the log kept its size for lack of room.
func (r *ioRun) cramped() bool {
	o := r.f.open.Load()
	return o != nil && o.work.Writer.Protocol().Cramped() != nil
}

// checkAnswers checks that a filter reports its state at once, whatever has failed. This shows that no
// lock is still held.
func (r *ioRun) checkAnswers(closed bool) {
	r.t.Helper()
	s := r.f.Stats()
	if err := r.f.Err(); closed != errors.Is(err, ErrClosed) {
		r.errorf("Err is %v", err)
	}
	if closed != (s.State == "closed") || s.Len != r.f.Len() || s.WriterAlive && r.f.Err() != nil {
		r.errorf("Stats is %+v, and Len is %d", s, r.f.Len())
	}
	r.f.DurableSeq()
}

// checkFailed checks that a filter whose writer has failed refuses every change and answers "maybe" to
// every lookup.
func (r *ioRun) checkFailed() {
	r.t.Helper()
	r.checkAnswers(false)
	for name, change := range changing(r.f) {
		if err := change(); !errors.Is(err, ErrFailed) || !errors.Is(err, r.failure.err) {
			r.errorf("%s after the failure: %v", name, err)
		}
	}
	mustSayMaybe(r.t, r.f)
	if err := r.f.Close(); !errors.Is(err, ErrFailed) || !errors.Is(err, r.failure.err) {
		r.errorf("Close after the failure: %v", err)
	}
	r.checkAnswers(true)
	mustSayMaybe(r.t, r.f)
}

// run does the steps up to the first that fails. It returns the name of the call that failed, or "".
func (r *ioRun) run() (call string) {
	defer func() { fault.Hook = nil }()
	failed := r.failure.start()
	before := "" // the call that failed before the step
	for _, step := range ioSteps {
		err := step.do(r)
		if err == nil && step.acks {
			r.acked = len(r.ops)
		}
		switch call := failed(); {
		case err == nil && (call == before || !r.quiet):
		case err == nil && call == "remove" && (step.name == "Create" || step.name == "Build"):
			// The log that could not be removed belongs to no file.
			before = call
		case err == nil && r.cramped() && (call == "fallocate" || call == "write"):
			before = call // the log keeps its size; the step checks this
		case err == nil:
			r.errorf("%s: no error, although a %s failed", step.name, call)
			return call
		case call == "":
			r.errorf("%s: %v", step.name, err)
			return "none"
		default:
			r.failed(step.name, call, err)
			return call
		}
	}
	r.checkBuilt()
	return failed()
}

// failed checks what a failed step has left behind.
func (r *ioRun) failed(step, call string, err error) {
	r.t.Helper()
	if !errors.Is(err, r.failure.err) {
		r.errorf("%s: %v", step, err)
	}
	switch step {
	case "Create":
		fault.Hook = nil
		list, _ := filepath.Glob(r.path + "*")
		if complete := errors.As(err, new(*CompleteError)); complete != (len(list) == 1) || len(list) > 1 {
			r.errorf("Create failed on a %s with %v and left %v", call, err, list)
		}
		return
	case "Build":
		fault.Hook = nil
		r.checkAlone(r.path)
		complete := errors.As(err, new(*CompleteError))
		f, err := OpenReadOnly(r.path, nil)
		if err != nil {
			r.errorf("after Build failed on a %s: %v", call, err)
			return
		}
		isNew := f.Len() == builtKeys
		f.Close()
		if isNew != complete {
			r.errorf("after Build failed on a %s, the file is the new one: %t", call, isNew)
		}
		if isNew {
			r.checkBuilt()
			return
		}
	case "recover a copy":
		fault.Hook = nil
		if _, err := Recover(r.copied); err != nil {
			r.errorf("recover the copy again: %v", err)
			return
		}
		r.check(r.copied, len(r.ops), len(r.ops))
		if err := r.f.Close(); err != nil && r.quiet {
			r.errorf("%v", err)
		}
	case "Close", "Open":
	default:
		r.checkFailed()
	}
	fault.Hook = nil
	r.check(r.path, r.acked, len(r.ops))
}

func (r *ioRun) checkBuilt() {
	r.t.Helper()
	fault.Hook = nil
	f, err := OpenReadOnly(r.path, nil)
	if err != nil {
		r.errorf("%v", err)
		return
	}
	defer f.Close()
	if found, asked := countFound(f, numbers(0, builtKeys)); found != asked || f.Len() != builtKeys {
		r.errorf("%d of %d keys of the new file are found", found, asked)
	}
	if _, err := Verify(context.Background(), r.path); err != nil {
		r.errorf("%v", err)
	}
}

// TestFailEveryCall covers W8: it makes the n-th writing call fail, for every n up to the number of
// calls; either only this call fails, or all later ones, too. It does so with and without work in the
// background.
func TestFailEveryCall(t *testing.T) {
	by := 1
	if testing.Short() {
		by = 9
	}
	for name, c := range map[string]struct {
		sticky, quiet bool
		errs          []syscall.Errno // used in turn
	}{
		"EIO":                             {false, true, []syscall.Errno{syscall.EIO}},
		"ENOSPC":                          {false, true, []syscall.Errno{syscall.ENOSPC}},
		"from then on":                    {true, true, []syscall.Errno{syscall.EIO, syscall.ENOSPC}},
		"from then on, in the background": {true, false, []syscall.Errno{syscall.ENOSPC, syscall.EIO}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := memoryDir(t)
			calls := make(map[string]int)
			for n := 1; calls[""] == 0 && n < 2000; n += by {
				r := &ioRun{
					t: t, path: filepath.Join(dir, "f"), rng: rand.New(rand.NewPCG(1, 1)),
					failure: failure{n, c.sticky, c.errs[n%len(c.errs)]}, quiet: c.quiet,
				}
				calls[r.run()]++
				list, _ := filepath.Glob(filepath.Join(dir, "*"))
				for _, name := range list {
					os.Remove(name)
				}
			}
			t.Logf("calls that failed: %v", calls)
			for _, kind := range []string{"", "write", "fsync", "fdatasync", "msync", "fallocate", "rename", "remove", "syncdir"} {
				if by == 1 && c.quiet && calls[kind] == 0 {
					t.Errorf("no call %q", kind)
				}
			}
		})
	}
}

// spilling returns options with which Build writes hashes to a temporary file if there are more
// than about 40,000 keys.
func spilling() *Options { return &Options{Workers: 1, MemoryBudget: minMemoryBudget} }
