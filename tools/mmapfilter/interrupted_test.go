package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestInterrupted interrupts commands that write a new filter or set, once they have created a file. The
// command must then succeed, or change nothing and tell the user so.
func TestInterrupted(t *testing.T) {
	const draft = "f.mmf*.tmp-*"
	for _, c := range []struct{ args, until, said string }{
		{"grow f.mmf", draft, "; f.mmf is as it was before"},
		{"merge -q -o f.mmf f.mmf f.mmf", draft, "; f.mmf is as it was before"},
		{"merge -q -o m.mmf f.mmf", "m.mmf*.tmp-*", "; there is no m.mmf"},
		{"repair f.mmf", draft, "; f.mmf is as it was before"},
		{"build -q --shards 9 -o f.set keys", "f.set.spool.tmp-*", ""},
		{"build -q --shards 9 -o f.set keys", "shard-00004-*.mmf", ""},
		{"set partition -q --plan p --task b --spool . keys", "b.spool.tmp-*", ""},
		{"set build -q --plan p --shard 2 --spool . --out .", "shard-00002-of-*.tmp-*", ""},
	} {
		t.Chdir(t.TempDir())
		noError(t, os.WriteFile("keys", []byte(manyLines(0, 200_000)), 0o666))
		must(t, "", "build", "-q", "--keep-hashes", "-o", "f.mmf", "keys")
		must(t, "", "set", "plan", "-q", "--shards", "9", "-o", "p")
		must(t, "", "set", "partition", "-q", "--plan", "p", "--task", "a", "--spool", ".", "keys")
		args := strings.Fields(c.args)
		if args[0] == "repair" {
			mustDo(t, "flip f.mmf 40000")
		}
		before, err := os.ReadFile("f.mmf")
		noError(t, err)
		names := fileNames(t, ".")
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
		exit := run(ctx, args, nil, io.Discard, &stderr)
		cancel()
		if exit == exitYes {
			t.Logf("%s: not interrupted in time", c.args)
			continue
		}
		if want := "mmapfilter: interrupted" + c.said + "\n"; exit != exitError || stderr.String() != want {
			t.Errorf("%s: exit %d, %s", c.args, exit, &stderr)
		}
		onlyFiles(t, ".", names...)
		if after, err := os.ReadFile("f.mmf"); err != nil || !bytes.Equal(after, before) {
			t.Errorf("%s: f.mmf has changed, %v", c.args, err)
		}
	}
}

func onlyFiles(t *testing.T, dir string, want ...string) {
	t.Helper()
	if got := fileNames(t, dir); !slices.Equal(got, want) {
		t.Errorf("files %v, want %v", got, want)
	}
}

func fileNames(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	noError(t, err)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// TestInterruptedApply interrupts an apply that waits for changes. It must end at once, and leave the
// copy as it was.
func TestInterruptedApply(t *testing.T) {
	t.Chdir(t.TempDir())
	must(t, "a\n", "build", "-q", "--keep-hashes", "-o", "f.mmf")
	must(t, "", "snapshot", "-q", "f.mmf", "-o", "r.mmf")
	before, err := os.ReadFile("r.mmf")
	noError(t, err)
	stdin, typed := io.Pipe()
	defer typed.Close()
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		io.WriteString(typed, "MMAPFCHG")
		cancel()
	}()
	var stderr bytes.Buffer
	exit := run(ctx, []string{"apply", "r.mmf"}, stdin, io.Discard, &stderr)
	if after, err := os.ReadFile("r.mmf"); exit != exitError || err != nil || !bytes.Equal(before, after) {
		t.Errorf("exit %d, %v: %s", exit, err, &stderr)
	}
	if names := fileNames(t, "."); !slices.Equal(names, []string{"f.mmf", "f.mmf.hashes", "r.mmf"}) {
		t.Errorf("there are %q", names)
	}
}
