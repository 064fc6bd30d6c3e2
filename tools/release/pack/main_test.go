package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCaught checks that only a failure becomes an error.
func TestCaught(t *testing.T) {
	ends := func(f func()) (err error) {
		defer caught(&err)
		f()
		return nil
	}
	if err := ends(func() {}); err != nil {
		t.Error(err)
	}
	if err := ends(func() { check(io.EOF) }); !errors.Is(err, io.EOF) {
		t.Errorf("a failure ends with %v", err)
	}
	defer func() {
		if recover() == nil {
			t.Error("a panic was taken for a failure, or for success")
		}
	}()
	t.Error(ends(func() { panic("another") }))
}

// TestFlags checks that wrong flags are refused before anything is read.
func TestFlags(t *testing.T) {
	for args, says := range map[string]string{
		"-tag -api":            "not -api -tag",
		"-proxy a -systems b":  "not -proxy -systems",
		"-o a -proxy b":        "not -o -proxy",
		"-systems linux/amd64": "not -systems",
		"-tag now":             "not -tag now",
		"-proxy=":              "-proxy has no value",
	} {
		if err := release(strings.Fields(args)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, not %q", args, err, says)
		}
	}
}

// TestGate checks that a release requires a gate that has run all its steps, whatever variables are set.
func TestGate(t *testing.T) {
	t.Setenv("SKIP", "race")
	t.Setenv("FUZZRUNS", "1")
	for script, says := range map[string]string{
		`echo "SKIPPED: before"; echo "== passed in 1s$SKIP$FUZZRUNS"`: "<nil>",
		`echo "== passed in 1s; SKIPPED: race"`:                        "the gate did not run all its steps",
		"true":                                                         "the gate did not run all its steps",
		"exit 3":                                                       "exit status 3",
	} {
		dir := t.TempDir()
		check(os.Mkdir(filepath.Join(dir, ".ci"), 0o777))
		check(os.WriteFile(filepath.Join(dir, ".ci/run"), []byte("#!/usr/bin/env bash\n"+script+"\n"), 0o777))
		run := func() (err error) {
			defer caught(&err)
			(&tree{root: dir}).gate()
			return nil
		}
		if got := fmt.Sprint(run()); got != says {
			t.Errorf("%s: %q, not %q", script, got, says)
		}
	}
}

// TestCommitted checks which trees and directories are refused, and that all tags are made or none.
func TestCommitted(t *testing.T) {
	dir := clone(t, map[string]string{
		"CHANGELOG.md": "## v0.2.0 (2026-02-30)\n", "go.mod": "module x.org/m\n",
		"guard/go.mod": "module x.org/m/guard\n\nrequire x.org/m v0.2.0\n\nreplace x.org/m => ../\n",
	})
	git(dir, "config", "user.name", "tester")
	git(dir, "config", "user.email", "tester@example.com")
	git(dir, "config", "status.showUntrackedFiles", "no")
	tree := readTree(dir)
	refused := func(says string, f func()) {
		t.Helper()
		err := func() (err error) {
			defer caught(&err)
			f()
			return nil
		}()
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, not %q", err, says)
		}
	}
	refused("CHANGELOG.md", tree.committed) // as configured, git status would not list this file
	git(dir, "add", ".")
	git(dir, "commit", "-q", "-m", "first")
	tree.committed()
	refused("no date for v0.2.0", tree.ready)
	refused("is inside the tree", func() { tree.newFolder(filepath.Join(dir, "out")) })
	out := filepath.Join(t.TempDir(), "link")
	check(os.Symlink(dir, out))
	refused("is inside the tree", func() { tree.newFolder(filepath.Join(out, "out")) })
	refused("is not empty", func() { tree.newFolder(filepath.Dir(out)) })
	tree.newFolder(t.TempDir())
	git(dir, "tag", "guard/v0.2.0")
	refused("already exists", tree.makeTags)
	if tags := git(dir, "tag"); tags != "guard/v0.2.0\n" {
		t.Errorf("the tags are %q", tags)
	}
}
