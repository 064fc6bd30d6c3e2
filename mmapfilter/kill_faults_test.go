//go:build faults && unix

package mmapfilter

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/mmapfilter/mmapfilter/recovery/fault"
)

func init() { killRoles["phase"] = (*killTest).phase }

// A killPhase is a part of the life of a file in which its process is killed.
type killPhase struct {
	dead bool // starts with a file whose writer died
	new  bool // starts with no file
	do   func(k *killTest) error
}

var killPhases = map[string]killPhase{
	"create": {new: true, do: func(k *killTest) error {
		f, err := Create(k.path, &Options{Capacity: 1200, KeepHashes: true})
		if err != nil {
			return err
		}
		return f.Close()
	}},
	"files with hashes": {new: true, do: (*killTest).replaceHashes},
	"first operation":   {do: func(k *killTest) error { return k.operate(1, (*Filter).Sync) }},
	"recovery": {dead: true, do: func(k *killTest) error {
		_, _, err := k.open()
		return err
	}},
	"checkpoint": {do: func(k *killTest) error {
		checkpoint := func(f *Filter) error { return f.Checkpoint(context.Background()) }
		return k.operate(40, checkpoint, (*Filter).Sync, checkpoint)
	}},
	"checkpoint with a larger log": {do: func(k *killTest) error {
		grow := func(f *Filter) error {
			w := f.open.Load().work.Writer
			w.LimitLog(80 << 10)
			return w.CheckpointFor(4096)
		}
		return k.operate(40, grow, (*Filter).Sync)
	}},
	"close": {do: func(k *killTest) error { return k.operate(20, (*Filter).Close) }},
	"seal": {do: func(k *killTest) error {
		seal := func(f *Filter) error { return f.Seal(context.Background()) }
		return k.operate(20, seal, seal, (*Filter).Close)
	}},
	"build": {do: func(k *killTest) error {
		f, err := Build(context.Background(), k.path, spilling(), numbers(0, builtKeys))
		if err != nil {
			return err
		}
		return f.Close()
	}},
	"install": {do: func(k *killTest) error {
		f, err := Build(context.Background(), k.path+".made", spilling(), numbers(0, builtKeys))
		if err != nil {
			return err
		}
		return errors.Join(f.Close(), install(k.path+".made", k.path))
	}},
}

// replaceHashes makes filters that keep their hashes, and then one that does not, in place of one
// another.
func (k *killTest) replaceHashes() error {
	other := k.path + ".other"
	for _, path := range []string{k.path, k.path, other} {
		f, err := Build(context.Background(), path, &Options{KeepHashes: true}, numbers(0, 100))
		if err != nil {
			return err
		}
		if err := f.Close(); err != nil {
			return err
		}
	}
	return Merge(context.Background(), k.path, nil, other)
}

// operate continues the stream. After every n operations it makes one of the calls, each of which
// acknowledges all operations so far.
func (k *killTest) operate(n int, calls ...func(f *Filter) error) error {
	f, at, err := k.open()
	if err != nil {
		return err
	}
	for _, call := range calls {
		k.each(at, func(i int, op streamOp) bool {
			err = k.do(f, i, op)
			return err == nil && i+1 < at+n
		})
		if err != nil {
			return err
		}
		at += n
		if err := call(f); err != nil {
			return err
		}
		k.page.set(pageAcked, at)
	}
	return nil
}

// phase is the process to be killed: some microseconds after a writing call has begun or,
// without a delay, just before it.
func (k *killTest) phase() error {
	var name string
	var call, delay int64
	if _, err := fmt.Sscanf(k.arg, "%d,%d,%q", &call, &delay, &name); err != nil {
		return err
	}
	var calls atomic.Int64
	fault.Hook = func(string) error {
		switch {
		case calls.Add(1) != call:
		case delay == 0:
			syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		default:
			go func() {
				for begun := time.Now(); time.Since(begun) < time.Duration(delay)*time.Microsecond; {
				}
				syscall.Kill(os.Getpid(), syscall.SIGKILL)
			}()
		}
		return nil
	}
	return killPhases[name].do(k)
}

// A template holds the files that a test starts from again and again.
type template struct {
	files map[string][]byte
	page  []uint64
}

func (k *killTest) template(t *testing.T) template {
	t.Helper()
	m := template{make(map[string][]byte), make([]uint64, pageWords)}
	for _, suffix := range []string{"", ".stash"} {
		data, err := os.ReadFile(k.path + suffix)
		if err == nil {
			m.files[suffix] = data
		} else if !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
	}
	copy(m.page, k.page.words)
	return m
}

// reset makes the files of a template the only ones.
func (k *killTest) reset(t *testing.T, m template) {
	t.Helper()
	list, _ := filepath.Glob(k.path + "[.]*")
	for _, name := range append(list, k.path) {
		os.Remove(name)
	}
	for suffix, data := range m.files {
		if err := os.WriteFile(k.path+suffix, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for i, v := range m.page {
		k.page.set(i, int(v))
	}
}

// runPhase starts a process that is killed in a phase.
func (k *killTest) runPhase(name string, call, delay int) (killed bool, err error) {
	c, err := k.start(fmt.Sprintf("phase:%d,%d,%q", call, delay, name))
	if err != nil {
		return false, err
	}
	return c.wait()
}

// TestKillAtCalls kills a process at every writing call, in each phase, and then at random times
// after such calls; it also kills the recovery.
func TestKillAtCalls(t *testing.T) {
	cycles := 200
	if testing.Short() {
		cycles = 10
	}
	seed := rand.Uint64()
	k := newKillTest(t, compact7, seed)
	clean := k.template(t)
	var dead template
	err := k.operate(150, (*Filter).Sync, func(f *Filter) error {
		dead = k.template(t)
		return f.Close()
	})
	if err != nil || len(dead.files) != 2 {
		t.Fatalf("%d files, %v", len(dead.files), err)
	}
	for name, phase := range killPhases {
		t.Run(name, func(t *testing.T) {
			t.Logf("seed %d", seed)
			begin := clean
			if phase.dead {
				begin = dead
			}
			if phase.new {
				begin = template{page: make([]uint64, pageWords)}
			}
			rng := rand.New(rand.NewPCG(seed, 3))
			calls, kills, nested := 0, 0, 0
			for cycle := 0; cycle < cycles || calls == 0 && !testing.Short(); cycle++ {
				k.reset(t, begin)
				call, delay := cycle+1, 0
				if calls > 0 {
					call, delay = 1+rng.IntN(calls), rng.IntN(400)
				}
				killed, err := k.runPhase(name, call, delay)
				if err != nil {
					t.Fatalf("call %d, %d µs: %v", call, delay, err)
				}
				if !killed && delay == 0 && calls == 0 {
					calls = cycle
				}
				for range 3 {
					if phase.new || name == "build" || name == "install" || rng.IntN(2) == 0 {
						break
					}
					killed, err := k.runPhase("recovery", 1+rng.IntN(12), rng.IntN(2)*rng.IntN(200))
					if err != nil {
						t.Fatalf("call %d, %d µs, recovery: %v", call, delay, err)
					}
					if killed {
						nested++
					}
				}
				if killed {
					kills++
				}
				if err := k.afterPhase(name, rng); err != nil {
					t.Fatalf("call %d, %d µs, killed: %t: %v", call, delay, killed, err)
				}
			}
			t.Logf("%d cycles: %d calls, killed %d times, and %d times in a recovery after that", cycles, calls, kills, nested)
		})
	}
}

// afterPhase checks what a killed process left behind.
func (k *killTest) afterPhase(name string, rng *rand.Rand) error {
	switch name {
	case "create":
		f, err := Open(k.path, nil)
		if errors.Is(err, fs.ErrNotExist) {
			f, err = Create(k.path, &Options{Capacity: 1200, KeepHashes: true})
		}
		if err != nil {
			return err
		}
		if n := f.Len(); n != 0 {
			return fmt.Errorf("%d items in a new filter", n)
		}
		if err := errors.Join(f.InsertString("key"), f.Close()); err != nil {
			return err
		}
		_, err = Verify(context.Background(), k.path)
		return err
	case "files with hashes": // what is left is none of another filter, and all of it goes
		if err := k.replaceHashes(); err != nil {
			return err
		}
		f, err := Build(context.Background(), k.path, &Options{KeepHashes: true}, numbers(0, 100))
		if err != nil {
			return err
		}
		left, err := filepath.Glob(k.path + "[.]*")
		if want := []string{k.path + ".hashes", k.path + ".other", k.path + ".other.hashes"}; !slices.Equal(left, want) {
			return fmt.Errorf("the files are %v, %v", left, err)
		}
		return f.Close()
	case "build", "install":
		f, err := OpenReadOnly(k.path, nil)
		if err != nil {
			return err
		}
		defer f.Close()
		if f.Len() != builtKeys {
			break
		}
		if found, _ := countFound(f, numbers(0, builtKeys)); found != builtKeys {
			return fmt.Errorf("%d of %d keys of the new file", found, builtKeys)
		}
		_, err = Verify(context.Background(), k.path)
		return err
	}
	return k.recover(rng)
}
