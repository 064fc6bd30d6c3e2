package main

import (
	"strings"
	"testing"

	"github.com/mmapfilter/mmapfilter/tools/internal/machine"
)

func TestMemoryRows(t *testing.T) {
	parts := strings.Join(memoryParts, ",")
	if kind := machine.FileSystem(t.TempDir()); kind == "tmpfs" || kind == "ramfs" {
		t.Log("NOT TESTED: files that are not in memory, since those here are on", kind)
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
