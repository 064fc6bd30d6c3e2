package writer

import (
	"sync/atomic"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/wal"
)

// TestNobodyWaitsForACheckpoint covers W5: while a checkpoint waits for the disk to store the region,
// operations and commits return, and commits make operations durable without the checkpoint.
func TestNobodyWaitsForACheckpoint(t *testing.T) {
	v := small.Volume(t, 100)
	syncing, goOn := make(chan struct{}), make(chan struct{})
	var block atomic.Bool
	v.File.Synced = func() {
		if block.CompareAndSwap(true, false) {
			syncing <- struct{}{}
			<-goOn
		}
	}
	w := mustWriter(t, v, 0)
	rng := seeded(t, 1)
	first, second := rng.Uint64(), rng.Uint64()
	must(t, w.Insert(first))
	block.Store(true)
	done := make(chan error)
	go func() { done <- w.Checkpoint() }()
	<-syncing

	must(t, w.Insert(second))
	if ok, err := w.Delete(first); !ok || err != nil {
		t.Fatalf("delete: %t, %v", ok, err)
	}
	must(t, w.SyncAt(func(uint64) uint64 { return 7 }))
	if seq, ops, _ := w.protocol.Durable(); seq != 7 || ops != 0 {
		t.Errorf("%d + %d are durable", seq, ops)
	}
	if view := viewOf(w); layout.Contains(w.table, view, first) || !layout.Contains(w.table, view, second) {
		t.Error("the mapping does not have what was synced")
	}
	if _, checkpoints := w.protocol.Counts(); checkpoints != 0 || !w.protocol.Checkpointing() {
		t.Errorf("%d checkpoints", checkpoints)
	}
	goOn <- struct{}{}
	must(t, <-done)
	if _, checkpoints := w.protocol.Counts(); checkpoints != 1 || w.protocol.Checkpointing() {
		t.Errorf("%d checkpoints", checkpoints)
	}
}

// TestNobodyWaitsForALargerLog checks that operations, commits and checkpoints go on in the present log
// while a larger one is being created. The next checkpoint must move to the larger log.
func TestNobodyWaitsForALargerLog(t *testing.T) {
	v := &storingVolume{Volume: small.Volume(t, 100)}
	w, _, err := Open(v, LogSize{First: wal.MinBytes, Most: 2 * wal.MinBytes})
	must(t, err)
	rng := seeded(t, 2)
	size := func() int64 { bytes, _ := w.protocol.LogBytes(); return bytes }
	step := func(want int64) {
		t.Helper()
		must(t, w.Insert(rng.Uint64()))
		must(t, w.Sync())
		if err := w.Checkpoint(); err != nil || size() != want {
			t.Fatalf("a log of %d bytes, %v", size(), err)
		}
	}
	step(wal.MinBytes)
	making, goOn := make(chan struct{}), make(chan struct{})
	v.made = func() {
		making <- struct{}{}
		<-goOn
	}
	grown := make(chan error)
	go func() { grown <- w.Grow() }()
	<-making
	step(wal.MinBytes)
	step(wal.MinBytes)
	goOn <- struct{}{}
	must(t, <-grown)
	step(2 * wal.MinBytes)
	if err := w.Grow(); err != nil { // the log has its full size already
		t.Fatal(err)
	}
	step(2 * wal.MinBytes)
}

// TestFullHalvesWait fills both halves of the log while no other goroutine ends a checkpoint. An
// operation must end it then, and nothing may be lost.
func TestFullHalvesWait(t *testing.T) {
	w := mustWriter(t, usual.Volume(t, 2000), wal.MinBytes)
	rng := seeded(t, 3)
	hashes := make([]uint64, 20_000)
	for i := range hashes {
		hashes[i] = rng.Uint64()
		must(t, w.Insert(hashes[i]))
	}
	if _, checkpoints := w.protocol.Counts(); checkpoints < 3 {
		t.Errorf("%d checkpoints", checkpoints)
	}
	for _, h := range hashes {
		if !w.Contains(h) {
			t.Fatal("a key is lost")
		}
	}
	for range 100 { // each takes a page of the log
		must(t, w.SyncAt(func(uint64) uint64 { return 1 }))
	}
	must(t, w.Clean())
}
