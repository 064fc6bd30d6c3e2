//go:build unix

package main

import (
	"bytes"
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

// TestTasksSurviveKills does the tasks of a set in processes of their own, each task twice at the same
// time and beside the others of its stage, and kills one of the two at a random instant. Then the tasks
// are done again: the set is that of build, and nothing is left over. Package sets kills its tasks at
// every call of the system.
func TestTasksSurviveKills(t *testing.T) {
	t.Chdir(t.TempDir())
	const keys, shards = 60_000, 3
	var stages [3][]string // of commands
	all := ""
	for i := range 3 {
		part := manyLines(i*keys/3, keys/3+100) // some keys are in two parts
		all += part
		noError(t, os.WriteFile(fmt.Sprint("part", i), []byte(part), 0o666))
		stages[0] = append(stages[0], fmt.Sprintf("set partition -q --plan p --task t%d --spool spool part%d", i, i))
	}
	for i := range shards { // with so little memory, hashes go to files
		stages[1] = append(stages[1], fmt.Sprintf("set build -q --plan p --shard %d --spool spool --out out -m 1MiB", i))
	}
	stages[2] = []string{"set assemble -q --tasks 3 --plan p --spool spool --out out -o out/x.set"}
	noError(t, os.Mkdir("ref", 0o777))
	must(t, all, "build", "-q", "-n", "61k", "--shards", fmt.Sprint(shards), "-o", "ref/x.set")
	must(t, "", "set", "plan", "-q", "-n", "61k", "--shards", fmt.Sprint(shards), "-o", "p")

	for _, stage := range stages {
		var group sync.WaitGroup
		for _, task := range stage {
			for _, killed := range []bool{false, true} {
				cmd, _, stderr := startProgram(t, ".", strings.Fields(task)...)
				group.Add(1)
				go func() {
					defer group.Done()
					if killed {
						time.Sleep(rand.N(200 * time.Millisecond))
						cmd.Process.Kill()
					}
					if err := cmd.Wait(); err != nil && !(killed && endedBy(cmd, syscall.SIGKILL)) {
						t.Errorf("%s: %v, %s", task, err, stderr)
					}
				}()
			}
		}
		group.Wait()
		for _, task := range stage {
			must(t, "", strings.Fields(task)...)
		}
	}
	ref := fileNames(t, "ref")
	for _, name := range ref {
		want, err := os.ReadFile(filepath.Join("ref", name))
		noError(t, err)
		if got, err := os.ReadFile(filepath.Join("out", name)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("another %s, %v", name, err)
		}
	}
	built := func(name string) bool { return strings.HasSuffix(name, ".built") }
	out, spool := slices.DeleteFunc(fileNames(t, "out"), built), fileNames(t, "spool")
	if !slices.Equal(out, ref) || len(spool) != 2*3 {
		t.Errorf("left %v, %v", out, spool)
	}
}
