//go:build unix

package main

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

var (
	setKills = flag.Int("setkills", 3, "how often TestTasksSurviveKills kills each task")
	setKeys  = flag.Int("setkeys", 60_000, "keys of the set whose tasks are killed")
)

// A job is a set in the making, in the working directory: a plan, p; files of keys, in parts; and
// the set that build makes of them, ref/x.set.
type job struct {
	t      *testing.T
	parts  []string
	shards int
}

func newJob(t *testing.T, keys int) *job {
	t.Chdir(t.TempDir())
	j := &job{t: t, shards: 5}
	var all strings.Builder
	for i := range 3 {
		// Some keys are in two parts.
		part := manyLines(i*keys/3, keys/3+100)
		all.WriteString(part)
		j.parts = append(j.parts, fmt.Sprintf("part%d", i))
		j.write(j.parts[i], part)
	}
	j.write("all", all.String())
	if err := os.Mkdir("ref", 0o777); err != nil {
		t.Fatal(err)
	}
	must(t, "", "build", "-q", "-n", fmt.Sprint(keys+100), "--shards", fmt.Sprint(j.shards), "-o", "ref/x.set", "all")
	must(t, "", "set", "plan", "-q", "-n", fmt.Sprint(keys+100), "--shards", fmt.Sprint(j.shards), "-o", "p")
	return j
}

func (j *job) write(path, text string) {
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		j.t.Fatal(err)
	}
}

func (j *job) partition(i int) []string {
	return []string{"set", "partition", "-q", "--plan", "p", "--task", fmt.Sprint("t", i), "--spool", "spool", j.parts[i]}
}

// build returns the command for a shard. With so little memory, hashes go to files.
func (j *job) build(shard int) []string {
	return []string{"set", "build", "-q", "--plan", "p", "--shard", fmt.Sprint(shard), "--spool", "spool", "--out", "out", "-m", "1MiB"}
}

func (j *job) assemble() []string {
	return []string{"set", "assemble", "-q", "--tasks", fmt.Sprint(len(j.parts)), "--plan", "p", "--spool", "spool", "--out", "out", "-o", "out/x.set"}
}

// stages returns the commands of all tasks, in stages that come one after the other.
func (j *job) stages() (stages [3][][]string) {
	for i := range j.parts {
		stages[0] = append(stages[0], j.partition(i))
	}
	for i := range j.shards {
		stages[1] = append(stages[1], j.build(i))
	}
	stages[2] = append(stages[2], j.assemble())
	return stages
}

// check compares the set with that of build, and looks for files that are left over.
func (j *job) check() {
	j.t.Helper()
	for _, name := range names(j.t, "ref") {
		want, err := os.ReadFile(filepath.Join("ref", name))
		if err != nil {
			j.t.Fatal(err)
		}
		if got, err := os.ReadFile(filepath.Join("out", name)); err != nil || !bytes.Equal(got, want) {
			j.t.Errorf("another %s, %v", name, err)
		}
	}
	want := len(names(j.t, "ref"))
	out := slices.DeleteFunc(names(j.t, "out"), func(name string) bool { return strings.HasSuffix(name, ".built") })
	if spool := names(j.t, "spool"); len(out) != want || len(spool) != 2*len(j.parts) {
		j.t.Errorf("left %v, %v", out, spool)
	}
}

func names(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// TestTasksSurviveKills kills each task at random instants, also while the same task runs beside it.
// The set is that of build, and nothing is left over.
func TestTasksSurviveKills(t *testing.T) {
	j := newJob(t, *setKeys)
	killed := 0
	for _, stage := range j.stages() {
		var longest time.Duration // for a task of the stage
		for i, args := range stage {
			if begun := time.Now(); i == 0 {
				program(t, args...)
				longest = max(time.Since(begun), 30*time.Millisecond)
			}
			for range *setKills {
				cmd, _, stderr := startProgram(t, ".", args...)
				other, _, _ := startProgram(t, ".", args...)
				time.Sleep(rand.N(longest))
				cmd.Process.Kill()
				time.Sleep(rand.N(longest))
				other.Process.Kill()
				cmd.Wait()
				other.Wait()
				if endedBy(cmd, syscall.SIGKILL) {
					killed++
				} else if !cmd.ProcessState.Success() {
					t.Errorf("%v: %s", args, stderr)
				}
			}
			program(t, args...)
		}
	}
	j.check()
	t.Log(killed, "kills")
}

// program runs the program in a process of its own.
func program(t *testing.T, args ...string) {
	t.Helper()
	cmd, _, stderr := startProgram(t, ".", args...)
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v: %v, %s", args, err, stderr)
	}
}

// TestTasksTwiceAtOnce runs every task in three processes at the same time, all tasks of a stage
// beside each other.
func TestTasksTwiceAtOnce(t *testing.T) {
	j := newJob(t, *setKeys)
	for _, stage := range j.stages() {
		var group sync.WaitGroup
		for _, args := range stage {
			for range 3 {
				cmd, _, stderr := startProgram(t, ".", args...)
				group.Add(1)
				go func() {
					defer group.Done()
					if err := cmd.Wait(); err != nil {
						t.Errorf("%v: %v, %s", args, err, stderr)
					}
				}()
			}
		}
		group.Wait()
	}
	j.check()
}

// TestBuildOfSetSurvivesKills kills build --shards at random instants, twice at the same time: the old
// set or the new one is whole, and the next build leaves nothing but it.
func TestBuildOfSetSurvivesKills(t *testing.T) {
	j := newJob(t, *setKeys)
	if err := os.Mkdir("out", 0o777); err != nil {
		t.Fatal(err)
	}
	must(t, "pear\n", "build", "-q", "--shards", "2", "-o", "out/x.set")
	args := []string{"build", "-q", "-n", fmt.Sprint(*setKeys + 100), "--shards", fmt.Sprint(j.shards), "-m", "1MiB", "-o", "out/x.set", "all"}
	killed := 0
	for range 4 * *setKills {
		var both sync.WaitGroup
		for range 2 {
			cmd, _, stderr := startProgram(t, ".", args...)
			both.Add(1)
			go func() {
				defer both.Done()
				time.Sleep(20*time.Millisecond + rand.N(300*time.Millisecond))
				cmd.Process.Kill()
				cmd.Wait()
				if !endedBy(cmd, syscall.SIGKILL) && !cmd.ProcessState.Success() {
					t.Errorf("%s", stderr)
				}
			}()
		}
		both.Wait()
		killed += 2
		must(t, "", "verify", "out/x.set")
	}
	must(t, "", args...)
	must(t, "", "set", "gc", "-q", "out")
	for _, name := range names(t, "ref") {
		want, _ := os.ReadFile(filepath.Join("ref", name))
		if got, err := os.ReadFile(filepath.Join("out", name)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("another %s, %v", name, err)
		}
	}
	if out, ref := names(t, "out"), names(t, "ref"); !slices.Equal(out, ref) {
		t.Errorf("left %v, not %v", out, ref)
	}
	t.Log(killed, "kills")
}
