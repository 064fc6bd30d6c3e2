package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestMain lets the test binary run as a child.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == childCommand {
		runChild()
		return
	}
	os.Exit(m.Run())
}

// TestChild has another process build a filter, look up keys, and report a task that fails.
func TestChild(t *testing.T) {
	s := &session{ctx: t.Context()}
	c, err := s.start()
	must(t, err)
	path := filepath.Join(t.TempDir(), "f.mmf")
	var b Built
	if err := c.ask("Build", BuildArgs{path, 1000}, &b); err != nil || b.Took <= 0 {
		t.Errorf("%+v, %v", b, err)
	}
	if err := c.ask("Open", OpenArgs{File: path}, nil); err != nil {
		t.Error(err)
	}
	n := 0
	if err := c.ask("Look", time.Millisecond, &n); err != nil || n == 0 {
		t.Errorf("%d lookups, %v", n, err)
	}
	if err := c.ask("Open", OpenArgs{File: path + "-not-there"}, nil); err == nil || !strings.Contains(err.Error(), "not-there") {
		t.Errorf("opening a file that does not exist: %v", err)
	}
	if err := c.end(); err != nil {
		t.Error(err)
	}
	if err := c.ask("Nothing", struct{}{}, nil); err == nil {
		t.Error("a child that has ended answers")
	}
	if err := new(worker).Shard(ShardArgs{Kind: "none", Dir: "/nonexistent", Tasks: 1}, new(int64)); err == nil {
		t.Error("a task of a set without a plan succeeds")
	}
}
