//go:build unix

package main

import (
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
)

// holds checks that f.mmf holds the given number of copies of each key, and nothing else.
func holds(t *testing.T, keys []string, copies int) {
	t.Helper()
	want := contents{}
	for range copies {
		want = want.with(addRun, keys)
	}
	if got := contentsHere(t, keys); !maps.Equal(got, want) {
		t.Fatalf("f.mmf does not hold %d copies of each key, but %.200s", copies, fmt.Sprint(got))
	}
}

// numberedKeys returns n keys, and writes them to a file as lines.
func numberedKeys(t *testing.T, n int, path string) (keys []string) {
	t.Helper()
	for i := range n {
		keys = append(keys, fmt.Sprintf("key %d", i))
	}
	noError(t, os.WriteFile(path, []byte(strings.Join(keys, "\n")+"\n"), 0o666))
	return keys
}

// TestKilledAndResumed checks that runs of add and del that are killed and resumed many times
// process every key exactly once.
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
	// finish runs a command, and resumes it after each kill, until it ends by itself. The first run
	// resumes an empty run, whose marker the filter still has if the first run is killed early.
	finish := func(command string, more ...string) {
		must(t, "", command, "f.mmf")
		args := append([]string{command, "--resume", "f.mmf", "keys"}, more...)
		// The delay grows, in case the machine starts processes slowly.
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

// visible reports whether other processes find a key in f.mmf.
func visible(t *testing.T, key string) bool {
	filter, err := mmapfilter.OpenReadOnly("f.mmf", nil)
	noError(t, err)
	defer filter.Close()
	return filter.ContainsString(key)
}

// TestInterruptedAdd checks that an add that is interrupted while it waits for keys keeps the keys so
// far, says so, and leaves only the filter file.
func TestInterruptedAdd(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	createHere(t, "1k")
	cmd, stdin, stderr := startProgram(t, dir, "add", "f.mmf")
	io.WriteString(stdin, "a\nb\nc\n")
	eventually(t, "the keys are seen", func() bool { return visible(t, "c") })
	cmd.Process.Signal(syscall.SIGTERM)
	cmd.Wait()
	const want = "mmapfilter: f.mmf: 3 keys added, and durable; --resume continues after them\nmmapfilter: interrupted\n"
	if !endedBy(cmd, syscall.SIGTERM) || stderr.String() != want {
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

// TestAddLosesItsFile checks that an add whose file disappears does not claim that its keys are kept.
func TestAddLosesItsFile(t *testing.T) {
	t.Chdir(t.TempDir())
	createHere(t, "1k")
	f := typeTo(t, "add", "-v", "--sync-every", "1", "f.mmf")
	f.ask("a\n", "")
	eventually(t, "the key is seen", func() bool { return visible(t, "a") })
	noError(t, os.Remove("f.mmf"))
	if told := f.end("b\n", "", exitError); !strings.Contains(told, "removed or replaced") || strings.Contains(told, "added") {
		t.Error(told)
	}
}

// TestAddToRenamedFile checks that an add whose file is renamed says what to do, and that this advice
// helps.
func TestAddToRenamedFile(t *testing.T) {
	t.Chdir(t.TempDir())
	createHere(t, "1k")
	f := typeTo(t, "add", "--sync-every", "1", "f.mmf")
	f.ask("a\n", "")
	eventually(t, "the key is seen", func() bool { return visible(t, "a") })
	noError(t, os.Rename("f.mmf", "g.mmf"))
	if told := f.end("b\n", "", exitError); !strings.Contains(told, "rename it back: f.mmf.stash has") {
		t.Error(told)
	}
	if exit, _, told := runHere(nil, "check", "-e", "a", "g.mmf"); exit != exitError || !strings.Contains(told, "g.mmf.stash is missing (if") {
		t.Errorf("under its new name: exit %d, %s", exit, told)
	}
	noError(t, os.Rename("g.mmf", "f.mmf"))
	must(t, "", "recover", "f.mmf")
	if !visible(t, "a") {
		t.Error("a is lost")
	}
}

// TestRecoverDeadWriter checks that other processes can query a filter while a writer has it open, but
// not write to it. After the writer dies, recover must restore all keys that it added, durable or not.
func TestRecoverDeadWriter(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	must(t, "", "create", "-n", "1k", "-p", "1e-8", "--keep-hashes", "f.mmf")
	cmd, stdin, _ := startProgram(t, dir, "add", "--sync-every", "3", "f.mmf")
	io.WriteString(stdin, "a\nb\nc\n")
	eventually(t, "the keys are seen", func() bool { return visible(t, "c") })
	var check recordCheck
	for _, key := range []string{"a", "b", "c"} {
		check.add([]byte(key))
	}
	marked := check.marker(addRun, false, 3)
	for _, c := range []struct {
		args   string
		exit   int
		output string // a part of the output
	}{
		{"check f.mmf", exitYes, "c\n"},
		{"info f.mmf", exitYes, "state           live, its writer is running, generation 2\n"},
		{"dump --log f.mmf", exitYes, fmt.Sprintf("3 records, sequence %d and 0 operations", marked.encode())},
		{"verify f.mmf", exitError, "a writer has it open"},
		{"check --residency heap f.mmf", exitError, "a writer has it open"},
		{"merge -o m.mmf f.mmf", exitError, "f.mmf: a writer has it open; try again when the writer has finished"},
		{"add f.mmf", exitError, " has it open for writing"},
		{"del f.mmf", exitError, " has it open for writing"},
		{"uniq --filter f.mmf", exitError, " has it open for writing"},
		{"checkpoint f.mmf", exitError, " has it open for writing"},
		{"build -o f.mmf", exitError, " has it open for writing"},
		{"recover f.mmf", recoverFailed, " has it open for writing"},
	} {
		exit, stdout, stderr := runHere(strings.NewReader("c\nx\n"), strings.Fields(c.args)...)
		if exit != c.exit || !strings.Contains(stdout+stderr, c.output) {
			t.Errorf("%s: exit %d, %s%s", c.args, exit, stdout, stderr)
		}
	}
	io.WriteString(stdin, "d\ne\n")
	eventually(t, "the log has the keys", func() bool {
		_, stdout, _ := runHere(nil, "dump", "f.mmf")
		return strings.Contains(stdout, " and 5 records: ")
	})
	cmd.Process.Kill()
	cmd.Wait()
	exit, stdout, stderr := runHere(nil, "recover", "f.mmf")
	if exit != exitYes || !strings.Contains(stdout, "its writer had died in generation 2\n") || !strings.Contains(stdout, "keys       5\ninput      add, 3 records and 2 more, not ended\n") {
		t.Errorf("exit %d, %s%s", exit, stdout, stderr)
	}
	if exit, stdout, stderr = runHere(nil, "recover", "f.mmf"); exit != exitYes {
		t.Errorf("a second recover: exit %d, %s%s", exit, stdout, stderr)
	}
	holds(t, []string{"a", "b", "c", "d", "e"}, 1)
	onlyFiles(t, dir, "f.mmf", "f.mmf.hashes")
}

// TestUniqLeavesNothing checks that uniq leaves no temporary files if it is interrupted, or if its
// output is closed.
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
	for i := 0; ; i++ { // until uniq stops reading
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
