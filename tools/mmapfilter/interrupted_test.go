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

	"github.com/mmapfilter/mmapfilter/mmapfilter"
)

// TestInterrupted interrupts commands while they make a new file. Either it has taken its place
// already, or nothing has changed and the user is told.
func TestInterrupted(t *testing.T) {
	for _, c := range []struct{ args, left string }{
		{"grow f.mmf", "f.mmf is as it was before"},
		{"merge -q -o f.mmf f.mmf f.mmf", "f.mmf is as it was before"},
		{"merge -q -o m.mmf f.mmf", "there is no m.mmf"},
		{"repair f.mmf", "f.mmf is as it was before"},
	} {
		t.Chdir(t.TempDir())
		if exit, _, stderr := runHere(strings.NewReader(manyLines(0, 200_000)), "build", "-q", "--keep-hashes", "-o", "f.mmf"); exit != 0 {
			t.Fatal(stderr)
		}
		args := strings.Fields(c.args)
		if args[0] == "repair" {
			damageByte(t, "f.mmf", 40_000)
		}
		before, err := os.ReadFile("f.mmf")
		if err != nil {
			t.Fatal(err)
		}
		names := fileNames(t)
		ctx, cancel := context.WithCancel(context.Background())
		go func() {
			defer cancel()
			for ctx.Err() == nil {
				if drafts, _ := filepath.Glob("*.tmp-*"); drafts != nil {
					return
				}
				time.Sleep(time.Millisecond)
			}
		}()
		var stderr bytes.Buffer
		exit := run(ctx, args, nil, io.Discard, &stderr)
		cancel()
		if exit == exitYes {
			t.Logf("%s: not interrupted in time", c.args)
			continue
		}
		if want := "mmapfilter: interrupted; " + c.left + "\n"; exit != exitError || stderr.String() != want {
			t.Errorf("%s: exit %d, %s", c.args, exit, &stderr)
		}
		if after := fileNames(t); !slices.Equal(after, names) {
			t.Errorf("%s: left %v", c.args, after)
		}
		after, err := os.ReadFile("f.mmf")
		if err != nil || !bytes.Equal(after, before) {
			t.Errorf("%s: another file, %v", c.args, err)
		}
	}
}

// damageByte inverts a byte of a file.
func damageByte(t *testing.T, path string, offset int64) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var b [1]byte
	if _, err := f.ReadAt(b[:], offset); err != nil {
		t.Fatal(err)
	}
	b[0] ^= 0xff
	if _, err := f.WriteAt(b[:], offset); err != nil {
		t.Fatal(err)
	}
}

func fileNames(t *testing.T) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// TestMergeOfWriter checks that a filter that is being written to is not merged, and that the error
// names it.
func TestMergeOfWriter(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, name := range []string{"a.mmf", "b.mmf"} {
		if exit, _, stderr := runHere(nil, "create", "-n", "10", "--keep-hashes", "--seed", "1", name); exit != 0 {
			t.Fatal(stderr)
		}
	}
	exit, stderr := 0, ""
	whileWritten(t, "b.mmf", func() { exit, _, stderr = runHere(nil, "merge", "-o", "m.mmf", "a.mmf", "b.mmf") })
	if want := "mmapfilter: b.mmf: a writer has it open; try again when the writer has finished\n"; exit != exitError || stderr != want {
		t.Errorf("exit %d, %s", exit, stderr)
	}
}

// whileWritten calls do while a filter is being written to.
func whileWritten(t *testing.T, path string, do func()) {
	t.Helper()
	filter, err := mmapfilter.Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := filter.Insert([]byte("a")); err != nil {
		t.Fatal(err)
	}
	do()
	if err := filter.Close(); err != nil {
		t.Fatal(err)
	}
}
