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
	"time"

	"github.com/mmapfilter/mmapfilter/layout/wal"
	"github.com/mmapfilter/mmapfilter/recovery/fault"
)

// A failure says which writing calls fail: the n-th of a kind, counted from 1, and if sticky all
// later ones, of any kind.
type failure struct {
	kind   string // "" is any
	n      int
	sticky bool
	err    syscall.Errno
}

func (p failure) String() string {
	return fmt.Sprintf("call %d of kind %q, sticky=%t: %v", p.n, p.kind, p.sticky, p.err)
}

// start makes calls fail from now on. call returns the name of the first that failed, or "".
func (p failure) start() (call func() string) {
	var mu sync.Mutex
	seen, first := 0, ""
	fault.Hook = func(call string) error {
		mu.Lock()
		defer mu.Unlock()
		if first != "" && p.sticky {
			return p.err
		}
		if p.kind != "" && p.kind != call {
			return nil
		}
		if seen++; seen != p.n {
			return nil
		}
		first = call
		return p.err
	}
	return func() string {
		mu.Lock()
		defer mu.Unlock()
		return first
	}
}

// An ioRun runs through the life of a file while calls fail.
type ioRun struct {
	t       *testing.T
	failure failure
	path    string
	copied  string // by abandon
	f       *Filter
	rng     *rand.Rand
	quiet   bool // no work in the background

	ops   []ioOp
	live  []uint64 // keys in the filter
	acked int      // operations that must survive whatever fails
	built bool     // the file is the one that Build made
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

// An ioStep is one call of the library and what its success means.
type ioStep struct {
	name string
	do   func(r *ioRun) error
}

// builtKeys is how many keys Build puts into the file. With spilling, some of their hashes go to
// a temporary file.
const builtKeys = 45_000

var ioSteps = []ioStep{
	{"Create", func(r *ioRun) (err error) {
		r.f, err = Create(r.path, &Options{Capacity: 2500, CommitInterval: -1, Seed: 1})
		r.opened()
		return err
	}},
	{"insert", func(r *ioRun) error { return r.operate(200, 0) }},
	{"Sync", (*ioRun).sync},
	{"insert and delete", func(r *ioRun) error { return r.operate(100, 70) }},
	{"Sync", (*ioRun).sync},
	{"delete", func(r *ioRun) error { return r.operate(0, 30) }},
	{"Checkpoint", func(r *ioRun) error {
		if err := r.f.Checkpoint(context.Background()); err != nil {
			return err
		}
		r.acked = len(r.ops)
		return nil
	}},
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
	}},
	{"recover a copy", func(r *ioRun) error {
		r.copied = abandon(r.t, r.f, r.path)
		if _, err := Recover(r.copied); err != nil {
			return err
		}
		r.check(r.copied, len(r.ops), len(r.ops))
		return nil
	}},
	{"Close", func(r *ioRun) error {
		if err := r.f.Close(); err != nil {
			return err
		}
		r.acked = len(r.ops)
		return nil
	}},
	{"Open", func(r *ioRun) (err error) {
		r.f, err = Open(r.path, &OpenOptions{CommitInterval: -1})
		r.opened()
		return err
	}},
	{"insert and delete", func(r *ioRun) error { return r.operate(50, 60) }},
	{"Seal", func(r *ioRun) error {
		if err := r.f.Seal(context.Background()); err != nil {
			return err
		}
		r.acked = len(r.ops)
		return nil
	}},
	{"unseal", func(r *ioRun) error { return r.operate(10, 10) }},
	{"Sync", (*ioRun).sync},
	{"Seal", func(r *ioRun) error { return r.f.Seal(context.Background()) }},
	{"Close", func(r *ioRun) error { return r.f.Close() }},
	{"Build", func(r *ioRun) error {
		f, err := Build(context.Background(), r.path, spilling(), numbers(0, builtKeys))
		if err != nil {
			return err
		}
		r.built = true
		return f.Close()
	}},
}

// opened sets up a writer after opening: its log starts small, and grows when a step wants it
// to.
func (r *ioRun) opened() {
	if r.f == nil {
		return
	}
	l := r.f.open.Load().work
	l.Writer.LimitLog(wal.MinBytes)
	if r.quiet {
		l.Writer.Behind = nil
	}
}

func (r *ioRun) sync() error {
	if err := r.f.SyncAt(uint64(len(r.ops))); err != nil {
		return err
	}
	r.acked = len(r.ops)
	return nil
}

// operate runs operations in random order, up to the first that fails.
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
			r.errorf("a key that was inserted cannot be deleted")
		}
		r.ops = append(r.ops, ioOp{r.live[i], false})
		r.live[i] = r.live[len(r.live)-1]
		r.live = r.live[:len(r.live)-1]
	}
	return nil
}

// check opens a file, without failures, and compares it with the first operations, between
// atLeast and atMost of them.
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
			r.errorf("a key is missing, of %d", len(count))
			break
		}
	}
	// A leftover log goes with the next one.
	if err := errors.Join(f.Insert([]byte("one more")), f.Close()); err != nil {
		r.errorf("close again: %v", err)
	}
	if _, err := Verify(context.Background(), path); err != nil {
		r.errorf("%v", err)
	}
	r.checkAlone(path)
}

// checkAlone checks that a closed filter is one file.
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

// checkAnswers checks that, whatever has failed, a filter reports its state at once, and no
// panic leaves a lock held.
func (r *ioRun) checkAnswers(closed bool) {
	r.t.Helper()
	if r.f == nil {
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		s := r.f.Stats()
		if err := r.f.Err(); closed != errors.Is(err, ErrClosed) {
			r.errorf("Err is %v", err)
		}
		if closed != (s.State == "closed") || s.Len != r.f.Len() || s.WriterAlive && r.f.Err() != nil {
			r.errorf("Stats are %+v, and Len is %d", s, r.f.Len())
		}
		r.f.DurableSeq()
	}()
	select {
	case <-done:
	case <-time.After(time.Minute):
		panic(fmt.Sprintf("%v: Stats, Var, Err or Len hangs", r.failure))
	}
}

// checkFailed checks that a filter whose writer has failed refuses every change and says
// "maybe".
func (r *ioRun) checkFailed() {
	r.t.Helper()
	r.checkAnswers(false)
	for name, mutate := range changes(r.f) {
		if err := mutate(); !errors.Is(err, ErrFailed) || !errors.Is(err, r.failure.err) {
			r.errorf("%s after it: %v", name, err)
		}
	}
	mustSayMaybe(r.t, r.f)
	closed := make(chan error)
	go func() { closed <- r.f.Close() }()
	select {
	case err := <-closed:
		if !errors.Is(err, ErrFailed) || !errors.Is(err, r.failure.err) {
			r.errorf("Close after it: %v", err)
		}
	case <-time.After(time.Minute):
		panic(fmt.Sprintf("%v: Close hangs", r.failure))
	}
	r.checkAnswers(true)
	mustSayMaybe(r.t, r.f)
}

// run runs the steps up to the first that fails. It returns the name of the call that failed, or
// "".
func (r *ioRun) run() (call string) {
	defer func() { fault.Hook = nil }()
	failed := r.failure.start()
	before := "" // the call that failed before the step
	for _, step := range ioSteps {
		err := step.do(r)
		switch call := failed(); {
		case err == nil && (call == before || !r.quiet):
		case err == nil && call == "remove" && (step.name == "Create" || step.name == "Build"):
			// A log that cannot be removed belongs to no file.
			before = call
		case err == nil && r.cramped() && (call == "fallocate" || call == "write"):
			before = call // the log keeps its size; see the step
		case err == nil:
			r.errorf("%s: nothing says that a %s failed", step.name, call)
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
			r.errorf("after Build failed on a %s, the new file is there: %t", call, isNew)
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

// TestFailEveryCall makes the n-th writing call fail, for every n up to the first for which
// there is none, for each kind of call and for all of them, once and permanently (W8).
func TestFailEveryCall(t *testing.T) {
	by := 1
	if testing.Short() {
		by = 9
	}
	for _, kind := range []string{"", "write", "fsync", "fdatasync", "msync", "fallocate", "rename", "remove", "syncdir"} {
		for _, sticky := range []bool{false, true} {
			name := kind
			if kind == "" {
				name = "any"
			}
			if sticky {
				name += ", from then on"
			}
			t.Run(name, func(t *testing.T) {
				dir := t.TempDir()
				runs := 0
				calls := make(map[string]int)
				for n := 1; runs < 2000; n += by {
					runs++
					// Use each kind of error at every call: both for a single call, and alternately
					// otherwise.
					errs := []syscall.Errno{syscall.EIO, syscall.ENOSPC}
					if kind == "" || kind == "write" {
						errs = errs[n%2 : n%2+1]
					}
					fired := ""
					for _, errno := range errs {
						r := &ioRun{
							t: t, path: filepath.Join(dir, "f"), rng: rand.New(rand.NewPCG(1, 1)),
							failure: failure{kind, n, sticky, errno}, quiet: kind != "" || !sticky,
						}
						fired = r.run()
						calls[fired]++
						list, _ := filepath.Glob(filepath.Join(dir, "*"))
						for _, name := range list {
							os.Remove(name)
						}
					}
					if fired == "" {
						break
					}
				}
				t.Logf("%d runs: %v", runs, calls)
				if kind != "" && len(calls) < 2 {
					t.Errorf("no call of this kind")
				}
			})
		}
	}
}

// spilling returns options with which Build writes hashes to a temporary file if there are more
// than about 40,000 keys.
func spilling() *Options { return &Options{Workers: 1, MemoryBudget: minMemoryBudget} }
