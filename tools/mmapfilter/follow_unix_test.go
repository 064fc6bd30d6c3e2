//go:build unix

package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"strings"
	"testing"
)

// TestCutFile cuts a file while keys are looked up in it. That ends the command with an error that
// names the file, not with a signal.
func TestCutFile(t *testing.T) {
	t.Chdir(t.TempDir())
	absent := strings.Repeat("pear\nplum\n", 1000)
	for _, c := range []struct {
		made []string
		cut  string // pattern
		args []string
	}{
		{[]string{"build", "-q", "-p", "1e-8", "-o", "f.mmf"}, "f.mmf", []string{"check", "f.mmf"}},
		{[]string{"build", "-q", "-p", "1e-8", "-o", "f.mmf"}, "f.mmf", []string{"check", "--follow", "f.mmf"}},
		{[]string{"build", "-q", "-p", "1e-8", "--shards", "1", "-o", "f.set"}, "shard-*.mmf", []string{"check", "f.set"}},
		{[]string{"build", "-q", "-p", "1e-8", "--shards", "1", "-o", "f.set"}, "shard-*.mmf", []string{"check", "--follow", "f.set"}},
	} {
		keys := manyLines(0, 1000)
		if exit, _, stderr := runHere(strings.NewReader(keys), c.made...); exit != 0 {
			t.Fatal(stderr)
		}
		stdin, typed := io.Pipe()
		answers, stdout := io.Pipe()
		var stderr bytes.Buffer
		exit := make(chan int)
		go func() {
			status := run(context.Background(), c.args, stdin, stdout, &stderr)
			stdout.Close()
			stdin.Close()
			exit <- status
		}()
		io.WriteString(typed, "1\n")
		if _, err := io.ReadFull(answers, make([]byte, 2)); err != nil {
			t.Fatal(err, &stderr)
		}
		name := oneFile(t, c.cut)
		if err := os.Truncate(name, 4096); err != nil {
			t.Fatal(err)
		}
		go io.Copy(io.Discard, answers)
		io.WriteString(typed, absent)
		typed.Close()
		if e := <-exit; e != exitError || !strings.Contains(stderr.String(), name+": damaged ") {
			t.Errorf("%v: exit %d, %s", c.args, e, &stderr)
		}
		os.Remove(name)
	}

	createHere(t, "1k")
	if exit, _, stderr := runHere(strings.NewReader("pear\nplum\nfig\n"), "add", "f.mmf"); exit != 0 {
		t.Fatal(stderr)
	}
	stdin, typed := io.Pipe()
	var stderr bytes.Buffer
	exit := make(chan int)
	go func() {
		exit <- run(context.Background(), []string{"add", "--resume", "f.mmf"}, stdin, io.Discard, &stderr)
	}()
	io.WriteString(typed, "pear\n")
	typed.Write(nil) // waits until the line has been compared
	if err := os.Truncate("f.mmf", 4096); err != nil {
		t.Fatal(err)
	}
	go func() {
		io.WriteString(typed, "plum\nfig\n")
		typed.Close()
	}()
	if e := <-exit; e != exitError || !strings.Contains(stderr.String(), "f.mmf: damaged ") {
		t.Errorf("add --resume: exit %d, %s", e, &stderr)
	}
}

// TestFollowTellsOfDeath checks that the death of a writer is reported once, and that its
// committed keys are still found.
func TestFollowTellsOfDeath(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	createHere(t, "1k")
	cmd, stdin, _ := startProgram(t, dir, "add", "--sync-every", "1", "f.mmf")
	io.WriteString(stdin, "a\n")
	eventually(t, "the key is seen", func() bool { return visible(t, "a") })
	f := followHere(t, "f.mmf")
	f.ask("b\na\n", "a\n")
	cmd.Process.Kill()
	cmd.Wait()
	f.ask("b\na\n", "a\n")
	f.end("b\na\n", "a\n", exitError, "mmapfilter: f.mmf: its writer has died; run: mmapfilter recover f.mmf, or give --recover\n")
}
