package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/spf13/pflag"
)

// Help is written by hand. It must name every flag, and fit a page.
func TestHelp(t *testing.T) {
	root := newRootCommand()
	for _, cmd := range append(root.Commands(), root) {
		help := cmd.Long
		lines := strings.Split(help, "\n")
		if len(lines) > 24 {
			t.Errorf("%s: %d lines", cmd.Name(), len(lines))
		}
		for _, line := range lines {
			if len(line) > 80 {
				t.Errorf("%s: %d characters: %s", cmd.Name(), len(line), line)
			}
		}
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if !strings.Contains(help, "--"+f.Name) {
				t.Errorf("%s: nothing about --%s", cmd.Name(), f.Name)
			}
			if f.Shorthand != "" && !strings.Contains(help, "-"+f.Shorthand+", --"+f.Name) {
				t.Errorf("%s: nothing about -%s", cmd.Name(), f.Shorthand)
			}
		})
	}
}

func runHere(stdin io.Reader, args ...string) (exit int, stdout, stderr string) {
	var out, err bytes.Buffer
	exit = run(context.Background(), args, stdin, &out, &err)
	return exit, out.String(), err.String()
}

// A build that is interrupted while it waits for keys ends at once and leaves
// nothing behind.
func TestInterruptedBuild(t *testing.T) {
	for _, residue := range []string{"", "a\nb\n"} {
		t.Chdir(t.TempDir())
		stdin, typed := io.Pipe()
		ctx, cancel := context.WithCancel(context.Background())
		var stderr bytes.Buffer
		exit := make(chan int)
		go func() { exit <- run(ctx, []string{"build", "-o", "f.mmf"}, stdin, io.Discard, &stderr) }()
		io.WriteString(typed, residue)
		cancel()
		if e := <-exit; e != exitError || stderr.String() != "mmapfilter: interrupted\n" {
			t.Errorf("exit %d: %s", e, &stderr)
		}
		typed.Close()
		if entries, err := os.ReadDir("."); err != nil || len(entries) > 0 {
			t.Errorf("%v, %v is left", err, entries)
		}
	}
}

// What is typed is answered before more is typed, and -q does not wait for
// more than it needs.
func TestCheckAnswersAtOnce(t *testing.T) {
	t.Chdir(t.TempDir())
	if exit, _, stderr := runHere(strings.NewReader("a\nb\n"), "build", "-q", "-f", "20", "-o", "f.mmf"); exit != 0 {
		t.Fatal(stderr)
	}
	stdin, typed := io.Pipe()
	answers, stdout := io.Pipe()
	exit := make(chan int)
	go func() {
		exit <- run(context.Background(), []string{"check", "f.mmf"}, stdin, stdout, io.Discard)
	}()
	for _, key := range []string{"b\n", "a\n"} {
		io.WriteString(typed, key)
		answer := make([]byte, 2)
		if _, err := io.ReadFull(answers, answer); err != nil || string(answer) != key {
			t.Fatalf("%q, %v", answer, err)
		}
	}
	typed.Close()
	if e := <-exit; e != exitYes {
		t.Error(e)
	}

	stdin, typed = io.Pipe()
	go func() {
		exit <- run(context.Background(), []string{"check", "-q", "f.mmf"}, stdin, io.Discard, io.Discard)
	}()
	io.WriteString(typed, "b\n")
	if e := <-exit; e != exitYes {
		t.Error(e)
	}
	typed.Close()
}

// Many blocks of keys keep their order and their numbers, and looking them up
// takes no memory for each.
func TestCheckManyKeys(t *testing.T) {
	t.Chdir(t.TempDir())
	const n = 100_000
	var all, want strings.Builder
	for i := range n {
		fmt.Fprintf(&all, "key %d\n", i)
		fmt.Fprintf(&want, "%d:key %d\n", i+1, i)
	}
	if exit, _, stderr := runHere(strings.NewReader(all.String()), "build", "-q", "-o", "f.mmf"); exit != 0 {
		t.Fatal(stderr)
	}
	if exit, stdout, stderr := runHere(strings.NewReader(all.String()), "check", "-n", "f.mmf"); exit != 0 || stdout != want.String() {
		t.Fatal("the output differs", stderr)
	}
	allocs := testing.AllocsPerRun(1, func() { runHere(strings.NewReader(all.String()), "check", "-c", "f.mmf") })
	if allocs > n/10 {
		t.Errorf("%.0f allocations for %d keys", allocs, n)
	}
	long := strings.Repeat("x", 3*blockBytes)
	exit, stdout, stderr := runHere(strings.NewReader(long+"\nkey 7\n"), "check", "f.mmf")
	if exit != 0 || stdout != "key 7\n" {
		t.Errorf("exit %d, %.80s, %s", exit, stdout, stderr)
	}
}

// A filter whose keys were made in a way of someone else's is not asked until
// someone says how to read keys.
func TestCheckForeignNote(t *testing.T) {
	t.Chdir(t.TempDir())
	opts := mmapfilter.Options{Normalisation: "lower case", FingerprintBits: 20}
	filter, err := mmapfilter.Build(context.Background(), "f.mmf", &opts, func(yield func([]byte, error) bool) { yield([]byte("a"), nil) })
	if err != nil {
		t.Fatal(err)
	}
	filter.Close()
	for _, args := range [][]string{{"check", "f.mmf"}, {"check", "-0", "f.mmf"}} {
		exit, _, stderr := runHere(strings.NewReader("a\n"), args...)
		if exit != exitError || !strings.Contains(stderr, "lower case") || !strings.Contains(stderr, "--plain") {
			t.Errorf("%v: exit %d, %s", args, exit, stderr)
		}
	}
	if exit, stdout, stderr := runHere(strings.NewReader("61\n"), "check", "--plain", "--hex", "f.mmf"); exit != exitYes || stdout != "61\n" {
		t.Errorf("exit %d, %s%s", exit, stdout, stderr)
	}
}

// failingWriter is a disk that is full.
type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, io.ErrShortWrite }

func TestOutputErrors(t *testing.T) {
	t.Chdir(t.TempDir())
	runHere(strings.NewReader("a\n"), "build", "-q", "-o", "f.mmf")
	for _, args := range [][]string{
		{"check", "f.mmf"}, {"check", "-c", "f.mmf"}, {"check", "--json", "f.mmf"},
		{"info", "f.mmf"}, {"info", "--json", "f.mmf"},
		{"verify", "f.mmf"}, {"verify", "--json", "f.mmf"},
		{"size", "-n", "1"}, {"size", "--json", "-n", "1"},
		{"build", "-o", "g.mmf"},
	} {
		if exit := run(context.Background(), args, strings.NewReader("a\n"), failingWriter{}, io.Discard); exit != exitError {
			t.Errorf("%v: exit %d", args, exit)
		}
	}
}

// With a terminal there is a progress bar, and still an end.
func TestProgressOnTerminal(t *testing.T) {
	terminal, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip(err)
	}
	defer terminal.Close()
	dir := t.TempDir()
	keys := filepath.Join(dir, "keys")
	if err := os.WriteFile(keys, []byte("a\nb\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TERM", "xterm")
	bar := newProgress(terminal)
	if bar.out == nil {
		t.Fatal("not seen as a terminal")
	}
	for done := range int64(4) {
		bar.show("counting", done, 0, formatCount)
		bar.show("writing", done, 3, formatCount)
	}
	bar.close()
	bar.close()
	args := []string{"build", "-q", "-o", filepath.Join(dir, "f.mmf"), keys}
	if exit := run(context.Background(), args, nil, io.Discard, terminal); exit != 0 {
		t.Error(exit)
	}
	t.Setenv("TERM", "dumb")
	if newProgress(terminal).out != nil {
		t.Error("a bar on a terminal that cannot show one")
	}
}
