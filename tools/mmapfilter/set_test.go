package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/mmapfilter/mmapfilter/mmapfilter/sets"
)

// must runs the program, which must succeed, and returns its output.
func must(t *testing.T, input string, args ...string) string {
	t.Helper()
	exit, stdout, stderr := runHere(strings.NewReader(input), args...)
	if exit != exitYes {
		t.Fatalf("%v: exit %d, %s", args, exit, stderr)
	}
	return stdout
}

// oneFile returns the file that matches a pattern.
func oneFile(t *testing.T, pattern string) string {
	t.Helper()
	found, err := filepath.Glob(pattern)
	if err != nil || len(found) != 1 {
		t.Fatalf("%s: %v, %v", pattern, found, err)
	}
	return found[0]
}

// TestCheckFollowsSet checks that a check with --follow looks keys up in the current set: in one that
// appears, in the next, which is read otherwise, and without a shard that goes and comes back.
func TestCheckFollowsSet(t *testing.T) {
	t.Chdir(t.TempDir())
	stdin, typed := io.Pipe()
	printed, stdout := io.Pipe()
	var stderr bytes.Buffer
	exit := make(chan int)
	go func() {
		status := run(context.Background(), []string{"check", "--follow", "--wait-for-file", "-v", "f.set"}, stdin, stdout, &stderr)
		stdout.Close()
		exit <- status
	}()
	answers := make(chan string)
	go func() {
		var line []byte
		b := make([]byte, 1)
		for {
			if _, err := printed.Read(b); err != nil {
				close(answers)
				return
			}
			if line = append(line, b[0]); b[0] == '\n' {
				answers <- string(line)
				line = nil
			}
		}
	}()
	ask := func(key string) { io.WriteString(typed, key+"\n") }
	absent := func(key string) {
		t.Helper()
		ask(key)
		if got := <-answers; got != key+"\n" {
			t.Fatalf("%q, want %s", got, key)
		}
	}
	ask("apple") // may be in a set that is not there
	must(t, "apple\npear\n", "build", "-q", "-p", "1e-8", "--shards", "3", "-o", "f.set")
	absent("plum")
	ask("apple")
	ask("pear")
	must(t, "plum\n", "build", "-q", "-p", "1e-8", "--shards", "4", "-o", "f.set")
	absent("apple")
	must(t, "PLUM\n", "build", "-q", "-p", "1e-8", "--trim-cr", "--shards", "4", "-o", "f.set")
	ask("PLUM\r")
	absent("plum")
	must(t, "", "set", "gc", "-q", ".")
	for _, shard := range []string{"0", "1", "2", "3"} {
		if err := os.Rename(oneFile(t, "shard-0000"+shard+"-*"), "away"+shard); err != nil {
			t.Fatal(err)
		}
	}
	absent("apple") // in a file that is open still
	must(t, "PLUM\n", "build", "-q", "-p", "1e-8", "--trim-cr", "--shards", "4", "-o", "f.set")
	absent("apple")
	typed.Close()
	if e, more := <-exit, <-answers; e != exitError || more != "" {
		t.Errorf("exit %d, %s", e, more)
	}
	if text := stderr.String(); !strings.HasPrefix(text, "mmapfilter: f.set: no such file yet: any key may be in it\n") || !strings.Contains(text, "f.set: shard ") || strings.Count(text, "\n") > 5 {
		t.Error(text)
	}
}

// TestSetOfDeadWriter recovers a shard whose writer has died, and a set that has such a shard.
func TestSetOfDeadWriter(t *testing.T) {
	t.Chdir(t.TempDir())
	die := func() {
		t.Helper()
		must(t, manyLines(0, 1000), "build", "-q", "-n", "2k", "-p", "1e-8", "--shards", "3", "-o", "f.set")
		shard := oneFile(t, "shard-00001-*.mmf")
		of, err := mmapfilter.OpenReadOnly(shard, nil)
		if err != nil {
			t.Fatal(err)
		}
		key := "0"
		for n := 0; sets.ShardOf(of.Hash([]byte(key)), 3) != 1; n++ {
			key = strconv.Itoa(n)
		}
		of.Close()
		if err := leaveDead(shard, "dead.mmf", key); err != nil {
			t.Fatal(err)
		}
		for _, suffix := range []string{".stash", ""} {
			if err := os.Rename("dead.mmf"+suffix, shard+suffix); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, args := range [][]string{{"verify", "f.set"}, {"info", "f.set"}, {"check", "-c", "f.set", "keys"}, {"add", "f.set", "keys"}} {
		die()
		if err := os.WriteFile("keys", []byte(manyLines(0, 1000)), 0o666); err != nil {
			t.Fatal(err)
		}
		if args[0] != "add" {
			exit, _, stderr := runHere(nil, args...)
			if exit != exitError || !strings.Contains(stderr, "its writer has died") {
				t.Errorf("%v: exit %d, %s", args, exit, stderr)
			}
			args = append(args, "--recover")
		}
		must(t, "", args...)
		must(t, "", "verify", "f.set")
		files, _ := filepath.Glob("*.stash")
		shards, _ := filepath.Glob("shard-*")
		if len(files) > 0 || len(shards) != 3 {
			t.Errorf("%v: %v, %v", args, files, shards)
		}
		for _, shard := range shards {
			os.Remove(shard)
		}
	}
}

// TestInterruptedSet interrupts commands that make a set: they leave nothing behind.
func TestInterruptedSet(t *testing.T) {
	for _, c := range []struct{ args, until string }{
		{"build -q --shards 9 -o f.set keys", "f.set.spool.tmp-*"},
		{"build -q --shards 9 -o f.set keys", "shard-00004-*.mmf"},
		{"set partition -q --plan p --task b --spool . keys", "b.spool.tmp-*"},
		{"set build -q --plan p --shard 2 --spool . --out .", "shard-00002-of-*.tmp-*"},
	} {
		t.Chdir(t.TempDir())
		must(t, "", "set", "plan", "-q", "--shards", "9", "-o", "p")
		if err := os.WriteFile("keys", []byte(manyLines(0, 300_000)), 0o666); err != nil {
			t.Fatal(err)
		}
		must(t, "", "set", "partition", "-q", "--plan", "p", "--task", "a", "--spool", ".", "keys")
		names := fileNames(t)
		ctx, cancel := context.WithCancel(context.Background())
		go func() {
			defer cancel()
			for ctx.Err() == nil {
				if begun, _ := filepath.Glob(c.until); begun != nil {
					return
				}
				time.Sleep(100 * time.Microsecond)
			}
		}()
		var stderr bytes.Buffer
		exit := run(ctx, strings.Fields(c.args), nil, io.Discard, &stderr)
		cancel()
		if exit == exitYes {
			t.Logf("%s: not interrupted in time", c.args)
			continue
		}
		if exit != exitError || stderr.String() != "mmapfilter: interrupted\n" {
			t.Errorf("%s: exit %d, %s", c.args, exit, &stderr)
		}
		if after := fileNames(t); !slices.Equal(after, names) {
			t.Errorf("%s: left %v", c.args, after)
		}
	}
}

// TestManyShards checks that the blocks of a check, whose keys go to many shards, keep their order.
func TestManyShards(t *testing.T) {
	t.Chdir(t.TempDir())
	lines := manyLines(0, 20_000)
	must(t, lines, "build", "-q", "-p", "1e-8", "--shards", "100", "-o", "f.set")
	if got := must(t, lines, "check", "f.set"); got != lines {
		t.Error("other lines")
	}
	if exit, got, _ := runHere(strings.NewReader(manyLines(20_000, 40_000)), "check", "f.set"); exit != exitNo || got != "" {
		t.Errorf("exit %d, %s", exit, got)
	}
	set, err := sets.Open("f.set", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer set.Close()
	if set.Shards() != 100 || set.Len() != 20_000 {
		t.Error(set.Shards(), set.Len())
	}
}

func TestParseShards(t *testing.T) {
	for text, want := range map[string][]int{
		"0": {0}, "7": {7}, "0-3": {0, 1, 2, 3}, "5,1-2": {5, 1, 2}, "1/4": {1, 5, 9}, "9/10": {9}, "10/11": nil, "0/1": {0, 1, 2, 3, 4, 5, 6, 7, 8, 9},
	} {
		if got, err := parseShards(text, 10); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "10", "3-10", "3-2", "-1", "1,1", "0-2,2", "1,", "a", "4/4", "1/0", "1/2/3", "18446744073709551615", "0-18446744073709551615", "+1"} {
		if got, err := parseShards(text, 10); err == nil {
			t.Errorf("%s: %v", text, got)
		}
	}
}
