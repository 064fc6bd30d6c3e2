package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestMain lets the test binary run as a child.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == childCommand {
		os.Exit(runChild(tasks(), os.Stdin, os.Stdout))
	}
	os.Exit(m.Run())
}

// TestChild makes another process build a filter and look up keys, and report a task that fails.
func TestChild(t *testing.T) {
	s := &session{ctx: t.Context()}
	c, err := s.start()
	must(t, err)
	path := filepath.Join(t.TempDir(), "f.mmf")
	var b built
	if err := c.ask("build", buildArgs{path, 1000}, &b); err != nil || b.Took <= 0 {
		t.Errorf("%+v, %v", b, err)
	}
	if err := c.ask("open", openArgs{File: path}, nil); err != nil {
		t.Error(err)
	}
	n := 0
	if err := c.ask("look", time.Millisecond, &n); err != nil || n == 0 {
		t.Errorf("%d lookups, %v", n, err)
	}
	if err := c.ask("open", openArgs{File: path + "-not-there"}, nil); err == nil || !strings.Contains(err.Error(), "not-there") {
		t.Errorf("a file that is not there: %v", err)
	}
	if err := c.end(); err != nil {
		t.Error(err)
	}
	if err := c.ask("nothing", nil, nil); err == nil {
		t.Error("a child that has ended answers")
	}
	if _, err := tasks()["shard"](new(worker), json.RawMessage(`{"Kind": "none", "Dir": "/nonexistent"}`)); err == nil {
		t.Error("a task of a set without a plan succeeds")
	}
}
