//go:build unix

package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
)

// createHere makes an empty filter f.mmf in the working directory, whose
// fingerprints are so long that keys are told apart.
func createHere(t *testing.T, capacity string) {
	t.Helper()
	if exit, _, stderr := runHere(nil, "create", "-n", capacity, "-f", "30", "--seed", "1", "f.mmf"); exit != 0 {
		t.Fatal(stderr)
	}
}

// holds checks that f.mmf holds so many copies of each key, and nothing else.
func holds(t *testing.T, keys []string, copies int) {
	t.Helper()
	filter, err := mmapfilter.OpenReadOnly("f.mmf", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer filter.Close()
	if n, want := filter.Len(), uint64(len(keys)*copies); n != want {
		t.Errorf("%d keys, want %d", n, want)
	}
	for _, key := range keys {
		if n := filter.Count([]byte(key)); n != uint64(copies) {
			t.Fatalf("%d of key %s, want %d", n, key, copies)
		}
	}
}

func onlyFiles(t *testing.T, dir string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if got, want := strings.Join(names, " "), strings.Join(want, " "); err != nil || got != want {
		t.Errorf("files %s, %v, want %s", got, err, want)
	}
}

// numberedKeys gives keys, and writes them to a file as lines.
func numberedKeys(t *testing.T, n int, path string) (keys []string) {
	t.Helper()
	for i := range n {
		keys = append(keys, fmt.Sprintf("key %d", i))
	}
	if err := os.WriteFile(path, []byte(strings.Join(keys, "\n")+"\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	return keys
}

// Runs of add and of del that are killed, again and again, and resumed do to
// every key what one run does: no key is left out, none is done twice.
func TestKilledAndResumed(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	n := 200_000
	if testing.Short() {
		n = 20_000
	}
	keys := numberedKeys(t, n, "keys")
	createHere(t, "500k")
	kills := 0
	// finish runs a command until it is not killed before its end. Every run is
	// one that is resumed, the first of them after one that had nothing to do:
	// if it is killed before it begins, the filter speaks of that.
	finish := func(command string, more ...string) {
		if exit, _, stderr := runHere(strings.NewReader(""), command, "f.mmf"); exit != 0 {
			t.Fatal(stderr)
		}
		args := append([]string{command, "--resume", "f.mmf", "keys"}, more...)
		// The time grows, for a machine on which nothing begins as fast.
		for longest := 100 * time.Millisecond; ; longest += longest / 5 {
			cmd, _, stderr := startProgram(t, dir, args...)
			timer := time.AfterFunc(20*time.Millisecond+rand.N(longest), func() { cmd.Process.Kill() })
			err := cmd.Wait()
			timer.Stop()
			if err == nil {
				return
			}
			if !endedBy(cmd, syscall.SIGKILL) {
				t.Fatalf("%v: %v, %s", args, err, stderr)
			}
			kills++
		}
	}
	finish("add", "--sync-every", "5000")
	holds(t, keys, 1)
	finish("add")
	holds(t, keys, 2)
	finish("del", "--sync-every", "5000")
	holds(t, keys, 1)
	finish("del")
	holds(t, keys, 0)
	onlyFiles(t, dir, "f.mmf", "keys")
	t.Log(kills, "kills")
}

// visible reports whether other processes see a key in f.mmf.
func visible(t *testing.T, key string) bool {
	filter, err := mmapfilter.OpenReadOnly("f.mmf", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer filter.Close()
	return filter.ContainsString(key)
}

// An add that is interrupted while it waits for keys keeps what it has, says so,
// and leaves one file.
func TestInterruptedAdd(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	createHere(t, "1k")
	cmd, stdin, stderr := startProgram(t, dir, "add", "f.mmf")
	io.WriteString(stdin, "a\nb\nc\n")
	eventually(t, "the keys are seen", func() bool { return visible(t, "c") })
	cmd.Process.Signal(syscall.SIGINT)
	cmd.Wait()
	const want = "mmapfilter: f.mmf: 3 keys added, and that is durable; --resume goes on after them\nmmapfilter: interrupted\n"
	if !endedBy(cmd, syscall.SIGINT) || stderr.String() != want {
		t.Errorf("%v: %s", cmd.ProcessState, stderr)
	}
	holds(t, []string{"a", "b", "c"}, 1)
	onlyFiles(t, dir, "f.mmf")
	exit, _, message := runHere(strings.NewReader("a\nb\nc\nd\n"), "add", "-v", "--resume", "f.mmf")
	if exit != 0 || message != "mmapfilter: f.mmf: 1 key added\n" {
		t.Errorf("exit %d, %s", exit, message)
	}
	holds(t, []string{"a", "b", "c", "d"}, 1)
}

// An add whose file is taken away from under it does not say that its keys are
// kept.
func TestAddLosesItsFile(t *testing.T) {
	t.Chdir(t.TempDir())
	createHere(t, "1k")
	stdin, typed := io.Pipe()
	var stderr bytes.Buffer
	exit := make(chan int)
	go func() {
		exit <- run(context.Background(), []string{"add", "-v", "--sync-every", "1", "f.mmf"}, stdin, io.Discard, &stderr)
	}()
	io.WriteString(typed, "a\n")
	eventually(t, "the key is seen", func() bool { return visible(t, "a") })
	if err := os.Remove("f.mmf"); err != nil {
		t.Fatal(err)
	}
	io.WriteString(typed, "b\n")
	typed.Close()
	if e := <-exit; e != exitError || !strings.Contains(stderr.String(), "removed or replaced") || strings.Contains(stderr.String(), "added") {
		t.Errorf("exit %d, %s", e, &stderr)
	}
}

// While a writer is alive others can ask its filter, and not write to it. When it
// has died, recover puts in what it had added, durable or not.
func TestRecoverDeadWriter(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	createHere(t, "1k")
	cmd, stdin, _ := startProgram(t, dir, "add", "--sync-every", "3", "f.mmf")
	io.WriteString(stdin, "a\nb\nc\n")
	eventually(t, "the keys are seen", func() bool { return visible(t, "c") })
	for _, c := range []struct {
		args   string
		exit   int
		output string // a part of it
	}{
		{"check f.mmf", exitYes, "c\n"},
		{"info f.mmf", exitYes, "state           live, its writer is running, generation 2\n"},
		{"dump --log f.mmf", exitYes, "committed with LSN 4, 3 records, sequence 3 and 0 operations"},
		{"verify f.mmf", exitError, "a writer is changing it"},
		{"check --residency heap f.mmf", exitError, "a writer is changing it"},
		{"add f.mmf", exitError, " is writing to it"},
		{"del f.mmf", exitError, " is writing to it"},
		{"uniq --filter f.mmf", exitError, " is writing to it"},
		{"checkpoint f.mmf", exitError, " is writing to it"},
		{"build -o f.mmf", exitError, " is writing to it"},
		{"recover f.mmf", recoverFailed, " is writing to it"},
	} {
		exit, stdout, stderr := runHere(strings.NewReader("c\nx\n"), strings.Fields(c.args)...)
		if exit != c.exit || !strings.Contains(stdout+stderr, c.output) {
			t.Errorf("%s: exit %d, %s%s", c.args, exit, stdout, stderr)
		}
	}
	io.WriteString(stdin, "d\ne\n")
	eventually(t, "the log has them", func() bool {
		_, stdout, _ := runHere(nil, "dump", "f.mmf")
		return strings.Contains(stdout, " and 5 records: ")
	})
	cmd.Process.Kill()
	cmd.Wait()
	exit, stdout, stderr := runHere(nil, "recover", "f.mmf")
	if exit != exitYes || !strings.Contains(stdout, "whose writer had died in generation 2\n") || !strings.Contains(stdout, "keys       5\nsequence   3, and 2 operations after it\n") {
		t.Errorf("exit %d, %s%s", exit, stdout, stderr)
	}
	if exit, stdout, stderr = runHere(nil, "recover", "f.mmf"); exit != exitYes {
		t.Errorf("again: exit %d, %s%s", exit, stdout, stderr)
	}
	holds(t, []string{"a", "b", "c", "d", "e"}, 1)
	onlyFiles(t, dir, "f.mmf")
}

// A uniq that is interrupted, and one whose output nobody reads any more, leave
// nothing in the directory for temporary files.
func TestUniqLeavesNothing(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	cmd, stdin, stderr := startProgram(t, t.TempDir(), "uniq", "-n", "1k")
	io.WriteString(stdin, "a\n")
	eventually(t, "there is a log", func() bool {
		logs, _ := filepath.Glob(filepath.Join(temp, "*", "*.stash"))
		return logs != nil
	})
	cmd.Process.Signal(syscall.SIGTERM)
	cmd.Wait()
	if !endedBy(cmd, syscall.SIGTERM) {
		t.Errorf("%v: %s", cmd.ProcessState, stderr)
	}
	onlyFiles(t, temp)

	cmd, stdin, stderr = startCommand(t, t.TempDir(), "sh", "-c", `{ "$0" uniq -n 100k; echo $? >status; } | head -n 1 >first`, os.Args[0])
	for i := 0; ; i++ { // until it reads no more
		if _, err := fmt.Fprintln(stdin, i); err != nil {
			break
		}
		time.Sleep(time.Millisecond)
	}
	cmd.Wait()
	status, _ := os.ReadFile(filepath.Join(cmd.Dir, "status"))
	first, _ := os.ReadFile(filepath.Join(cmd.Dir, "first"))
	if string(status) != "141\n" || string(first) != "0\n" || stderr.Len() > 0 {
		t.Errorf("status %s, %s, %s", status, first, stderr)
	}
	onlyFiles(t, temp)
}
