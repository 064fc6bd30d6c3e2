package main

import (
	"testing"
	"time"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/mmapfilter/mmapfilter/mmapfilter/replica"
)

// TestReplicasRows checks that the primary and each replica have figures. The command itself checks that
// the replicas have the items of the primary in the end; how fast they follow depends on the machine.
func TestReplicasRows(t *testing.T) {
	rows := short(t, "replicas")
	want(t, rows, "primary, no replica")
	want(t, rows, "primary, 2 replicas")
	for _, name := range []string{"replica 1", "replica 2"} {
		if got := want(t, rows, name); len(got) != 9 {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// TestBehind checks how far a replica is behind, as computed from the moments of primary and replica.
func TestBehind(t *testing.T) {
	at := func(seconds int) time.Time { return time.Unix(int64(seconds), 0) }
	primary := []moment{{at(10), 100}, {at(11), 110}, {at(12), 120}, {at(13), 130}}
	position := func(n uint64) replica.Stats { return replica.Stats{Position: mmapfilter.Position{Number: n}} }
	r := Tracked{
		Before: position(90), After: replica.Stats{Position: mmapfilter.Position{Number: 110}, Sets: 1, ChangeBytes: 50},
		Moments: []moment{{at(9), 90}, {time.Unix(12, 5e8), 100}, {at(20), 110}}, // the primary changes only at the second
	}
	want := []string{"1", "2.50", "20", "20", "20", "1.50", "1.50", "1.50"}
	for i, cell := range r.cells(primary) {
		if cell != want[i] {
			t.Errorf("cell %d is %q, not %q", i, cell, want[i])
		}
	}
	r.Moments = []moment{{time.Unix(12, 5e8), 120}}
	if got := r.cells(primary); got[4] != "0" || got[7] != "0" {
		t.Errorf("up to date: %q", got)
	}
}
