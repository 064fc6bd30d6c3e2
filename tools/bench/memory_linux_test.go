package main

import (
	"math"
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
	if strings.Contains(parts, "residency") {
		want(t, rows, "default")
	}
	for _, name := range []string{"**lookup**", "one line (control)", "two buckets anywhere"} {
		want(t, rows, name)
	}
}

func TestDistinct(t *testing.T) {
	for _, c := range []struct{ pages, touches, want float64 }{{100, 1, 1}, {100, 2, 1.99}, {100, 1e6, 100}, {1e6, 1000, 999.5}} {
		if got := distinct(c.pages, c.touches); math.Abs(got-c.want) > 0.01 {
			t.Errorf("%v touches of %v pages: %v, want %v", c.touches, c.pages, got, c.want)
		}
	}
}
