//go:build faults && unix

package sets

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/mmapfilter/mmapfilter/recovery/fault"
)

// A faultyTask is a task that a failing system call ends.
type faultyTask struct {
	name string
	do   func(p *Plan, dir string) error
}

const (
	faultyKeys = 3000
	buildTask  = "build a set"
)

func faultyPlan(seed uint64) (*Plan, error) {
	return NewPlan(&mmapfilter.Options{Capacity: faultyKeys, Distinct: true, Seed: seed}, 2)
}

var faultyTasks = []faultyTask{
	{"plan", func(p *Plan, dir string) error { return p.Write(filepath.Join(dir, "plan")) }},
	{"partition", func(p *Plan, dir string) error {
		_, err := Partition(background, p, dir, "a", numbers(0, faultyKeys), nil)
		return err
	}},
	{"build", func(p *Plan, dir string) error {
		_, err := BuildShard(background, p, 0, dir, dir, Work{MemoryBudget: 1 << 20})
		return err
	}},
	{"build again", func(p *Plan, dir string) error {
		_, err := BuildShard(background, p, 0, dir, dir, Work{})
		return err
	}},
	{"build the next", func(p *Plan, dir string) error {
		_, err := BuildShard(background, p, 1, dir, dir, Work{})
		return err
	}},
	{"assemble", func(p *Plan, dir string) error {
		_, err := Assemble(background, p, dir, dir, filepath.Join(dir, "x.set"), true, Work{})
		return err
	}},
	{buildTask, func(_ *Plan, dir string) error {
		p, err := faultyPlan(7) // other shards
		if err == nil {
			_, err = Build(background, filepath.Join(dir, "y.set"), p, Work{}, numbers(0, faultyKeys))
		}
		return err
	}},
}

// allFiles returns the files in a directory.
func allFiles(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	files := make(map[string]string)
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		must(t, err)
		files[e.Name()] = string(data)
	}
	return files
}

// eachTask calls f for each task, with a directory in which all earlier tasks have been done, and with
// the files that the directory has once this task has been done, too.
func eachTask(t *testing.T, f func(t *testing.T, task faultyTask, p *Plan, before, after map[string]string)) {
	p, err := faultyPlan(0)
	must(t, err)
	dir := t.TempDir()
	for _, task := range faultyTasks {
		before := allFiles(t, dir)
		must(t, task.do(p, dir))
		after := allFiles(t, dir)
		t.Run(task.name, func(t *testing.T) { f(t, task, p, before, after) })
	}
}

func restore(t *testing.T, files map[string]string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, data := range files {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(data), 0o666))
	}
	return dir
}

// onlyWhole checks that a directory has the files of before, and some of the files that a task creates,
// all whole. Other files that a killed process leaves have temporary names.
func onlyWhole(t *testing.T, dir string, before, after map[string]string, killed bool) {
	t.Helper()
	now := allFiles(t, dir)
	for name, data := range before {
		if now[name] != data {
			t.Errorf("changed or lost: %s", name)
		}
	}
	for name, data := range now {
		if want, ok := after[name]; !(ok && data == want || killed && strings.Contains(name, ".tmp-")) {
			t.Errorf("left: %s", name)
		}
	}
}

// TestFailEveryCallOfTasks makes the system calls with which a task writes fail, one after the other.
// The task fails, leaves no part of a file, and writes the same bytes when it is done again. The same
// holds if its process is killed at the call.
func TestFailEveryCallOfTasks(t *testing.T) {
	defer func() { fault.Hook = nil }()
	eachTask(t, func(t *testing.T, task faultyTask, p *Plan, before, after map[string]string) {
		for call := int64(1); ; call++ {
			dir := restore(t, before)
			var calls atomic.Int64
			var failed, killed string // the call, and a copy of the directory as a kill at the call leaves it
			fault.Hook = func(name string) error {
				if calls.Add(1) != call {
					return nil
				}
				failed, killed = name, restore(t, allFiles(t, dir))
				return syscall.ENOSPC
			}
			err := task.do(p, dir)
			fault.Hook = nil
			if calls.Load() < call {
				t.Logf("%d calls", call-1)
				break
			}
			if err == nil && failed != "remove" { // a file that could not be removed does no harm
				t.Errorf("call %d, %s: no error", call, failed)
			}
			switch complete := err != nil && errors.As(err, new(*mmapfilter.CompleteError)); {
			case failed == "remove":
			case task.name == buildTask && !complete:
				mustEqual(t, allFiles(t, dir), before)
			default:
				onlyWhole(t, dir, before, after, false)
			}
			onlyWhole(t, killed, before, after, true)
			for _, dir := range []string{dir, killed} {
				if err := task.do(p, dir); err != nil {
					t.Errorf("call %d, %s: done again: %v", call, failed, err)
				}
				mustEqual(t, allFiles(t, dir), after)
			}
		}
	})
}

// TestFailEveryCallOfSnapshot makes the system calls of a snapshot fail, one after the other. Then there
// is the manifest and all shards that it names, or nothing.
func TestFailEveryCallOfSnapshot(t *testing.T) {
	defer func() { fault.Hook = nil }()
	path := mustBuild(t, t.TempDir(), mustPlan(t, mmapfilter.Options{Capacity: 500}, 2), numbers(0, 300))
	s := mustOpen(t, path, nil)
	must(t, s.OpenShards(0, 1))
	complete := 0
	for call := int64(1); ; call++ {
		dir := t.TempDir()
		var calls atomic.Int64
		failed := ""
		fault.Hook = func(name string) error {
			if calls.Add(1) != call {
				return nil
			}
			failed = name
			return syscall.ENOSPC
		}
		err := s.Snapshot(t.Context(), filepath.Join(dir, "copy.set"))
		fault.Hook = nil
		if calls.Load() < call {
			t.Logf("%d calls, %d complete errors of the manifest", call-1, complete)
			break
		}
		switch files := allFiles(t, dir); {
		case failed == "remove":
		case files["copy.set"] != "":
			complete++
			mustHave(t, mustOpen(t, filepath.Join(dir, "copy.set"), nil), 0, 300)
		case err == nil || len(files) > 0:
			t.Errorf("call %d, %s: %v, and %d files are left", call, failed, err, len(files))
		}
	}
	if complete == 0 {
		t.Error("the manifest was never in place after an error")
	}
}

// meanwhile calls f at the first system call with a name, but not for calls within f.
func meanwhile(t *testing.T, call string, f func()) {
	var once sync.Once
	t.Cleanup(func() { fault.Hook = nil })
	fault.Hook = func(name string) error {
		if name == call {
			once.Do(func() {
				fault.Hook = nil
				f()
			})
		}
		return nil
	}
}

// TestNamesBeforeManifest: the names of the shards are durable before a manifest in another directory
// names them, since their builder may have died before it made them durable.
func TestNamesBeforeManifest(t *testing.T) {
	j := newJob(t, mustPlan(t, mmapfilter.Options{}, 2))
	must(t, j.partition("a", numbers(0, 1000)))
	must(t, j.buildAll())
	var calls []string
	t.Cleanup(func() { fault.Hook = nil })
	fault.Hook = func(name string) error {
		calls = append(calls, name)
		return nil
	}
	_, err := Assemble(background, j.plan, j.spool, j.out, filepath.Join(t.TempDir(), "keys.set"), false, Work{})
	must(t, err)
	if want := []string{"syncdir", "fsync", "rename", "syncdir"}; !slices.Equal(calls, want) {
		t.Errorf("%v, not %v", calls, want)
	}
}

// TestLateBuilder: a slow builder does not replace the file of another builder that is in use and has
// been written to.
func TestLateBuilder(t *testing.T) {
	p, err := faultyPlan(0)
	must(t, err)
	dir, added := t.TempDir(), 0
	_, err = Partition(background, p, dir, "a", numbers(0, 1000), nil)
	must(t, err)
	meanwhile(t, "fsync", func() { // when the builder makes the file durable
		b, err := BuildShard(background, p, 0, dir, dir, Work{})
		must(t, err)
		f, err := mmapfilter.Open(filepath.Join(dir, b.File), nil)
		must(t, err)
		for added = 1000; f.Insert(number(added)) == mmapfilter.ErrOtherShard; added++ {
		}
		must(t, f.Close())
	})
	b, err := BuildShard(background, p, 0, dir, dir, Work{})
	if added == 0 {
		t.Fatal("fsync was not called")
	}
	if err == nil {
		t.Errorf("%s has been replaced", b.File)
	}
	found, err := filepath.Glob(filepath.Join(dir, "shard-*.mmf"))
	must(t, err)
	f, err := mmapfilter.OpenReadOnly(found[0], nil)
	must(t, err)
	defer f.Close()
	if len(found) != 1 || !f.Contains(number(added)) {
		t.Errorf("a key is missing, in %v", found)
	}
}

// TestTwoTasksOfOneName: if two tasks with the same name and different keys are done at the same time,
// one fails. Otherwise its keys would be lost unnoticed.
func TestTwoTasksOfOneName(t *testing.T) {
	p, err := faultyPlan(0)
	must(t, err)
	for _, call := range []string{"fsync", "rename", "syncdir"} {
		for _, other := range []bool{false, true} {
			dir, first := t.TempDir(), 1000
			if other {
				first = 0
			}
			var beside error
			meanwhile(t, call, func() { _, beside = Partition(background, p, dir, "a", numbers(1000, 2000), nil) })
			_, err := Partition(background, p, dir, "a", numbers(first, first+1000), nil)
			if failed := err != nil || beside != nil; failed != other {
				t.Errorf("%s, other keys %t: %v, %v", call, other, err, beside)
			}
		}
	}
}
