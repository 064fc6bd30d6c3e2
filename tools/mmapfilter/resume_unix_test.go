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
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
)

// holds checks that f.mmf holds this many copies of each key, and nothing else.
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

// numberedKeys returns n keys, and writes them to a file as lines.
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
	// finish runs a command until it ends without being killed. Every run resumes one; the first
	// resumes an empty run, whose marker the filter still has if the first is killed early.
	finish := func(command string, more ...string) {
		if exit, _, stderr := runHere(strings.NewReader(""), command, "f.mmf"); exit != 0 {
			t.Fatal(stderr)
		}
		args := append([]string{command, "--resume", "f.mmf", "keys"}, more...)
		// The delay grows, in case the machine is slow to start a process.
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

// TestKilledAndResumedOtherwise kills runs at random instants. It resumes what they leave with
// other inputs, after other changes, and finally with the same growing input, from a file or a
// pipe. Only that last kind may add anything.
func TestKilledAndResumedOtherwise(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	n := 100_000
	if testing.Short() {
		n = 20_000
	}
	createHere(t, "500k")
	keys := numberedKeys(t, n, "keys")
	all := keys
	if exit, _, stderr := runHere(strings.NewReader(""), "add", "f.mmf"); exit != 0 {
		t.Fatal(stderr)
	}
	kills, between, wait := 0, 0, 60*time.Millisecond
	for ended := false; !ended || kills < 4; {
		piped := rand.N(2) == 0
		args := []string{"add", "--resume", "--sync-every", "1000", "f.mmf", "keys"}
		if piped {
			args[len(args)-1] = "-"
		}
		if rand.N(2) == 0 { // the input grows while it is read
			more := len(all)
			for i := range 1000 {
				all = append(all, fmt.Sprintf("key %d", more+i))
			}
		}
		input := lines(all)
		if err := os.WriteFile("keys", []byte(input), 0o666); err != nil {
			t.Fatal(err)
		}
		cmd, stdin, stderr := startProgram(t, dir, args...)
		go func() {
			if piped {
				io.WriteString(stdin, input) // until the process is killed
			}
			stdin.Close()
		}()
		timer := time.AfterFunc(10*time.Millisecond+rand.N(wait), func() { cmd.Process.Kill() })
		err := cmd.Wait()
		timer.Stop()
		if ended = err == nil; !ended {
			if !endedBy(cmd, syscall.SIGKILL) {
				t.Fatalf("%v: %v, %s", args, err, stderr)
			}
			kills++
			wait += wait / 5
		}
		if between += resumeCopies(t, all); t.Failed() {
			return
		}
	}
	holds(t, all, 1)
	t.Log(kills, "kills,", between, "with something in between")
}

// resumeCopies resumes copies of f.mmf, as a run has left it, with other inputs or after other
// changes. Each is an error and adds nothing. The original input is keys. resumeCopies returns
// the number of copies.
func resumeCopies(t *testing.T, keys []string) (copies int) {
	t.Helper()
	files := make(map[string][]byte)
	for _, suffix := range []string{"", ".stash", ".stash.new"} {
		if data, err := os.ReadFile("f.mmf" + suffix); err == nil {
			files[suffix] = data
		}
	}
	if err := os.Mkdir("copy", 0o777); err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll("copy")
	restore := func() {
		os.Remove("copy/f.mmf.stash")
		os.Remove("copy/f.mmf.stash.new")
		for suffix, data := range files {
			if err := os.WriteFile("copy/f.mmf"+suffix, data, 0o666); err != nil {
				t.Fatal(err)
			}
		}
	}
	open := func() *mmapfilter.Filter {
		filter, err := mmapfilter.Open("copy/f.mmf", nil)
		if err != nil {
			t.Fatal(err)
		}
		return filter
	}
	// dealt returns how many of the first keys are in the filter.
	dealt := func() int {
		filter := open()
		defer filter.Close()
		n := 0
		for n < len(keys) && filter.ContainsString(keys[n]) {
			n++
		}
		return n
	}
	restore()
	n := dealt()
	if n == 0 {
		return 0
	}
	i := rand.N(n)
	other := slices.Clone(keys)
	other[i] = "other"
	for _, c := range []struct {
		name   string
		input  []string
		change func(*mmapfilter.Filter) error
	}{
		{"other record", other, nil},
		{"short", keys[:i], nil},
		{"delete", keys, func(f *mmapfilter.Filter) error { _, err := f.Delete([]byte(keys[n-1])); return err }},
		{"insert", keys, func(f *mmapfilter.Filter) error { return f.Insert([]byte("other")) }},
		{"sequence", keys, func(f *mmapfilter.Filter) error { return f.SyncAt(uint64(n)) }},
	} {
		restore()
		filter := open()
		last, _ := decodeMarker(filter.DurableSeq())
		if c.change != nil {
			if err := c.change(filter); err != nil {
				t.Fatal(err)
			}
		}
		length := filter.Len()
		if err := filter.Close(); err != nil {
			t.Fatal(err)
		}
		if last.ended && c.name == "other record" && i == 0 {
			continue // after a run that has ended, this is another input
		}
		exit, _, stderr := runHere(strings.NewReader(lines(c.input)), "add", "--resume", "copy/f.mmf")
		filter = open()
		if exit != exitError || !strings.Contains(stderr, "omit --resume") || filter.Len() != length {
			t.Errorf("%s, %d of %d keys there, the marker is %+v: exit %d, %d keys, want %d, %s", c.name, n, len(keys), last, exit, filter.Len(), length, stderr)
		}
		if err := filter.Close(); err != nil {
			t.Fatal(err)
		}
		copies++
	}
	return copies
}

// visible reports whether other processes find a key in f.mmf.
func visible(t *testing.T, key string) bool {
	filter, err := mmapfilter.OpenReadOnly("f.mmf", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer filter.Close()
	return filter.ContainsString(key)
}

// TestInterruptedAdd checks that an add interrupted while it waits for keys keeps the keys so
// far, says so, and leaves one file.
func TestInterruptedAdd(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	createHere(t, "1k")
	cmd, stdin, stderr := startProgram(t, dir, "add", "f.mmf")
	io.WriteString(stdin, "a\nb\nc\n")
	eventually(t, "the keys are seen", func() bool { return visible(t, "c") })
	cmd.Process.Signal(syscall.SIGINT)
	cmd.Wait()
	const want = "mmapfilter: f.mmf: 3 keys added, and durable; --resume continues after them\nmmapfilter: interrupted\n"
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

// TestAddLosesItsFile checks that an add whose file disappears does not claim that its keys are
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

// TestRecoverDeadWriter checks that other processes can query the filter of a live writer, but
// not write to it. After the writer dies, recover restores what it added, durable or not.
func TestRecoverDeadWriter(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	createHere(t, "1k")
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
	eventually(t, "the log has them", func() bool {
		_, stdout, _ := runHere(nil, "dump", "f.mmf")
		return strings.Contains(stdout, " and 5 records: ")
	})
	cmd.Process.Kill()
	cmd.Wait()
	exit, stdout, stderr := runHere(nil, "recover", "f.mmf")
	if exit != exitYes || !strings.Contains(stdout, "its writer had died in generation 2\n") || !strings.Contains(stdout, "keys       5\ninput      add, 3 records and 2 after it, not ended\n") {
		t.Errorf("exit %d, %s%s", exit, stdout, stderr)
	}
	if exit, stdout, stderr = runHere(nil, "recover", "f.mmf"); exit != exitYes {
		t.Errorf("again: exit %d, %s%s", exit, stdout, stderr)
	}
	holds(t, []string{"a", "b", "c", "d", "e"}, 1)
	onlyFiles(t, dir, "f.mmf")
}

// TestUniqLeavesNothing checks that uniq leaves no temporary files if it is interrupted or its
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

// TestResumedDelKnowsItsFirstRecord kills a del before its first sync. The filter must already
// have the check of its first record, so that another input is rejected.
func TestResumedDelKnowsItsFirstRecord(t *testing.T) {
	keys := []string{"a", "b", "c", "d", "e"}
	for _, c := range []struct {
		input []string
		exit  int
		left  []string
	}{
		{[]string{"c", "d", "e"}, exitError, []string{"c", "d", "e"}},
		{[]string{"a", "b", "c"}, exitYes, []string{"d", "e"}},
	} {
		t.Chdir(t.TempDir())
		createHere(t, "1k")
		if exit, _, stderr := runHere(strings.NewReader(strings.Join(keys, "\n")), "add", "f.mmf"); exit != exitYes {
			t.Fatal(stderr)
		}
		stdin, typed := io.Pipe()
		ended := make(chan int)
		go func() {
			ended <- run(context.Background(), []string{"del", "f.mmf"}, stdin, io.Discard, io.Discard)
		}()
		io.WriteString(typed, "a\nb\n")
		// Before del reads more, it has deleted these two keys, but not synced.
		eventually(t, "two keys are deleted", func() bool {
			_, stdout, _ := runHere(nil, "dump", "f.mmf")
			return strings.Contains(stdout, " and 2 records: ")
		})
		for _, suffix := range []string{"", ".stash"} { // as kill -9 leaves them
			data, err := os.ReadFile("f.mmf" + suffix)
			if err == nil {
				err = os.WriteFile("killed.mmf"+suffix, data, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		typed.Close()
		<-ended
		for _, suffix := range []string{"", ".stash"} {
			if err := os.Rename("killed.mmf"+suffix, "f.mmf"+suffix); err != nil {
				t.Fatal(err)
			}
		}
		exit, _, stderr := runHere(strings.NewReader(strings.Join(c.input, "\n")), "del", "--resume", "f.mmf")
		if exit != c.exit || exit == exitError && !strings.Contains(stderr, "not the first record of the last del") {
			t.Errorf("%v: exit %d, %s", c.input, exit, stderr)
		}
		holds(t, c.left, 1)
	}
}
