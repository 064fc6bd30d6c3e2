package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
)

func runHere(stdin io.Reader, args ...string) (exit int, stdout, stderr string) {
	var out, err bytes.Buffer
	exit = run(context.Background(), args, stdin, &out, &err)
	return exit, out.String(), err.String()
}

// TestAnswersAtOnce checks that a typed key or line is answered before the next one is typed, and that
// check -q ends as soon as one key is found.
func TestAnswersAtOnce(t *testing.T) {
	t.Chdir(t.TempDir())
	buildHere(t, "a\nb\n")
	f := typeTo(t, "check", "f.mmf")
	f.ask("b\n", "b\n")
	f.ask("a\n", "a\n")
	f.endWith("", "", exitYes, "")
	f = typeTo(t, "uniq", "-n", "1k")
	f.ask("b\n", "b\n")
	f.ask("b\na\n", "a\n")
	f.endWith("b\n", "", exitYes, "")
	f = typeTo(t, "check", "-q", "f.mmf")
	f.ask("b\n", "")
	if e := <-f.exit; e != exitYes {
		t.Error(e)
	}
}

// TestCheckManyKeys checks that check prints the keys of many blocks in order and with their numbers,
// even if the keys of a block go to many shards, and that it does not allocate for each key.
func TestCheckManyKeys(t *testing.T) {
	t.Chdir(t.TempDir())
	const n = 100_000
	all := manyLines(1, n)
	var want strings.Builder
	for i := range n {
		fmt.Fprintf(&want, "%d:%d\n", i+1, i+1)
	}
	must(t, all, "build", "-q", "-p", "1e-8", "-o", "f.mmf")
	must(t, all, "build", "-q", "-p", "1e-8", "--shards", "100", "-o", "f.set")
	for _, name := range []string{"f.mmf", "f.set"} {
		if must(t, all, "check", "-n", name) != want.String() {
			t.Error(name, "the output differs")
		}
		if exit, stdout, stderr := runHere(strings.NewReader(manyLines(n+1, n)), "check", name); exit != exitNo || stdout != "" {
			t.Errorf("%s: exit %d, %.80s, %s", name, exit, stdout, stderr)
		}
	}
	allocs := testing.AllocsPerRun(1, func() { runHere(strings.NewReader(all), "check", "-c", "f.mmf") })
	if allocs > n/10 {
		t.Errorf("%.0f allocations for %d keys", allocs, n)
	}
	long := strings.Repeat("x", 3*blockBytes)
	if stdout := must(t, long+"\n7\n", "check", "f.mmf"); stdout != "7\n" {
		t.Errorf("%.80s", stdout)
	}
}

// TestCheckForeignNote checks that commands refuse a filter with the note of another program, unless
// flags say how to read keys.
func TestCheckForeignNote(t *testing.T) {
	t.Chdir(t.TempDir())
	opts := mmapfilter.Options{Normalisation: "lower case", FalsePositiveRate: 1e-6}
	filter, err := mmapfilter.Build(context.Background(), "f.mmf", &opts, func(yield func([]byte, error) bool) { yield([]byte("a"), nil) })
	noError(t, err)
	filter.Close()
	for _, args := range [][]string{{"check", "f.mmf"}, {"check", "-0", "f.mmf"}, {"add", "f.mmf"}, {"add", "--resume", "f.mmf"}, {"del", "f.mmf"}, {"uniq", "--filter", "f.mmf"}} {
		exit, _, stderr := runHere(strings.NewReader("a\n"), args...)
		if exit != exitError || !strings.Contains(stderr, "lower case") || !strings.Contains(stderr, "--plain") {
			t.Errorf("%v: exit %d, %s", args, exit, stderr)
		}
	}
	if exit, stdout, stderr := runHere(strings.NewReader("61\n"), "check", "--plain", "--hex", "f.mmf"); exit != exitYes || stdout != "61\n" {
		t.Errorf("exit %d, %s%s", exit, stdout, stderr)
	}
}

// TestSizeJSON checks that the information bound is computed from the rate that the flags ask for, or
// from the rate of the fingerprint that they ask for.
func TestSizeJSON(t *testing.T) {
	for _, args := range [][]string{{}, {"-p", "0.001"}, {"--layout", "packed", "-f", "12"}} {
		_, stdout, stderr := runHere(nil, append([]string{"size", "--json", "-n", "1M"}, args...)...)
		var plan planJSON
		if err := json.Unmarshal([]byte(stdout), &plan); err != nil {
			t.Fatal(err, stderr)
		}
		rate := map[string]float64{"": 0.01, "-p 0.001": 0.001, "--layout packed -f 12": plan.PredictedRate}[strings.Join(args, " ")]
		if plan.InformationBound != -math.Log2(rate) || plan.BuildMemoryBytes != 256<<20 || plan.BuildDiskBytes != 8e6 {
			t.Errorf("%v: %+v", args, plan)
		}
	}
}

// aTerminal returns a terminal that can show progress.
func aTerminal(t *testing.T) *os.File {
	terminal, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip("NOT TESTED: progress on a terminal: ", err)
	}
	t.Cleanup(func() { terminal.Close() })
	t.Setenv("TERM", "xterm")
	return terminal
}

// TestProgressOfCheck checks that check shows no bar on a terminal where keys are printed or typed.
func TestProgressOfCheck(t *testing.T) {
	terminal := aTerminal(t)
	files, typed := &sources{bytes: 1}, &sources{}
	for _, c := range []struct {
		check  checkCommand
		s      *sources
		stdout io.Writer
		want   bool
	}{
		{checkCommand{}, files, io.Discard, true},
		{checkCommand{}, files, terminal, false},
		{checkCommand{count: true}, files, terminal, true},
		{checkCommand{quiet: true}, files, io.Discard, false},
		{checkCommand{}, typed, io.Discard, false},
	} {
		if bar := c.check.progress(c.s, c.stdout, terminal); (bar.terminal != nil) != c.want {
			t.Errorf("%+v with sources of %d bytes: want a bar: %v", c.check, c.s.bytes, c.want)
		}
	}
}

// TestProgressOnTerminal checks that a progress bar is shown on a terminal, and that commands with a bar
// succeed.
func TestProgressOnTerminal(t *testing.T) {
	terminal := aTerminal(t)
	dir := t.TempDir()
	keys := filepath.Join(dir, "keys")
	noError(t, os.WriteFile(keys, []byte("a\nb\n"), 0o666))
	bar := newProgress(terminal)
	if bar.terminal == nil {
		t.Fatal("the terminal is not taken as a terminal")
	}
	bar.show("counting", 1, 2, nil)
	if bar.out != nil {
		t.Error("short work draws something")
	}
	bar.start = bar.start.Add(-progressDelay)
	for done := range int64(4) {
		bar.show("counting", done, 0, formatCount)
		bar.show("writing", done, 3, formatCount)
		if bar.out == nil || bar.bar == nil {
			t.Error("long work draws nothing")
		}
		bar.hide()
	}
	bar.show("writing", 3, 3, nil)
	bar.close()
	bar.close()
	if bar.show("writing", 0, 3, nil); bar.out != nil {
		t.Error("a bar after close")
	}
	filter, set, plan := filepath.Join(dir, "f.mmf"), filepath.Join(dir, "s.set"), filepath.Join(dir, "s.plan")
	for _, args := range [][]string{
		{"build", "-o", filter, keys}, {"build", "-q", "-o", filter, keys}, {"verify", filter}, {"check", filter, keys},
		{"add", filter, keys}, {"del", filter, keys}, {"uniq", "-n", "1", "-p", "1e-8", keys},
		{"build", "--shards", "2", "-o", set, keys}, {"verify", set}, {"check", set, keys}, {"add", set, keys}, {"del", set, keys}, {"info", set},
		{"set", "plan", "--shards", "2", "-o", plan}, {"set", "partition", "--plan", plan, "--task", "a", "--spool", dir, keys},
		{"set", "build", "--plan", plan, "--shard", "0-1", "--spool", dir, "--out", dir + "/out"},
		{"set", "assemble", "--plan", plan, "--spool", dir, "--out", dir + "/out", "-o", set}, {"set", "gc", dir},
		{"build", "--keep-hashes", "-o", filter, keys}, {"grow", filter}, {"merge", "-o", filter, filter}, {"repair", filter},
	} {
		if exit := run(context.Background(), args, nil, io.Discard, terminal); exit != 0 {
			t.Error(args, exit)
		}
	}
	t.Setenv("TERM", "dumb")
	if newProgress(terminal).terminal != nil {
		t.Error("a bar on a terminal that cannot show one")
	}
}
