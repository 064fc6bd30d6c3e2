package main

import (
	"os/exec"
	"testing"
)

// TestServeRows: each command has a rate, in each row.
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
