package main

import (
	"os/exec"
	"strings"
	"testing"
)

func TestMemoryRows(t *testing.T) {
	parts := strings.Join(memoryParts, ",")
	if !onDisk(t.TempDir()) {
		t.Log("NOT TESTED: files that are not in memory, since all here are")
		parts = "share"
	}
	if g, err := newMemoryGroup(1 << 30); err != nil {
		t.Log("NOT TESTED: a limit of memory:", err)
		parts = strings.Replace(parts, "residency", "share", 1)
	} else if err := g.remove(); err != nil {
		t.Fatal(err)
	}
	rows := short(t, "memory", "-parts", parts)
	if got := want(t, rows, "**ratio**"); got[0] > "**1.05" {
		t.Errorf("%q", got)
	}
	if parts == "share" {
		return
	}
	want(t, rows, "default")
}

// TestServeRows checks that each command has a rate in each row.
func TestServeRows(t *testing.T) {
	for _, name := range []string{"redis-server", "redis-benchmark", "taskset"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skip("NOT TESTED:", err)
		}
	}
	rows := short(t, "serve")
	for _, cores := range []string{"1", "2"} {
		for _, depth := range []string{"1", "16", "64"} {
			for _, command := range []string{"CF.ADD", "CF.EXISTS", "CF.MEXISTS of 100"} {
				if got := want(t, rows, cores, depth, command); len(got) != 12 || got[0] == "0" || got[6] == "0" {
					t.Errorf("%s cores, -P %s, %s: %q", cores, depth, command, got)
				}
			}
		}
	}
	want(t, rows, "mmapfilter serve, CF.INSERT")
	want(t, rows, "until one about each")
}
