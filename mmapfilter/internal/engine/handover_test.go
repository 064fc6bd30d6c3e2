package engine

import (
	"context"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/wal"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/tabletest"
	"github.com/mmapfilter/mmapfilter/recovery/osfile"
)

// TestReplay covers K3: what is put into a tap comes out in its order, whether it has been in a file
// or not, and a replay of it leads to the same items.
func TestReplay(t *testing.T) {
	s := tabletest.Compact(38, 10)
	old, next := mustWriter(t, s.Volume(t, 400), 1<<20), mustWriter(t, s.Volume(t, 500), 1<<20)
	rng := rand.New(rand.NewPCG(3, 4))
	var there []uint64
	insert := func() {
		h := rng.Uint64()
		if err := old.Insert(h); err != nil {
			t.Fatal(err)
		}
		there = append(there, h)
	}
	for range 5000 {
		insert()
	}
	for _, h := range there {
		if err := next.Insert(h); err != nil {
			t.Fatal(err)
		}
	}
	tap := NewTap(func() (*osfile.Scratch, error) {
		return osfile.ScratchBeside(filepath.Join(t.TempDir(), "f"))
	})
	defer tap.Close()
	if err := old.Quiet(tap, func() error { return nil }); err != nil {
		t.Fatal(err)
	}
	ops := tapOps * (tapChunks + 3)
	if testing.Short() {
		ops = tapOps + 100
	}
	for i := range ops {
		if len(there) < 4000 || len(there) < 6000 && rng.IntN(2) == 0 {
			insert()
			continue
		}
		j := rng.IntN(len(there))
		if i%3 == 0 {
			j = len(there) - 1 // the one that came last
		}
		if ok, err := old.Delete(there[j]); err != nil || !ok {
			t.Fatal(ok, err)
		}
		there[j] = there[len(there)-1]
		there = there[:len(there)-1]
	}
	if tap.Len() != ops || !testing.Short() && tap.file == nil {
		t.Errorf("%d operations, file %v", tap.Len(), tap.file)
	}
	for tap.Len() > 0 {
		hashes, kinds, err := tap.Take(nil, nil, 1000)
		if err == nil {
			_, err = next.Replay(hashes, kinds)
		}
		if err != nil {
			t.Fatalf("the replay: %v", err)
		}
	}
	if next.Len() != uint64(len(there)) || next.Len() != old.Len() {
		t.Errorf("the replay: %d items, not %d", next.Len(), len(there))
	}
	for _, h := range there {
		if !next.Contains(h) {
			t.Fatalf("the replay: %x is lost", h)
		}
	}
}

// TestOperationsBesideHandover covers K3: while the new file gets the name, operations of every kind
// are done in both files, with equal counters, and the new one recovers them from its log. None waits:
// what finds no room in one of the files is put off.
func TestOperationsBesideHandover(t *testing.T) {
	const lines = 3
	t.Run("without a history", func(t *testing.T) {
		operationsBesideHandover(t, newStage(t, lines, 1), newStage(t, lines+1, 1))
	})
	t.Run("with a history", func(t *testing.T) {
		operationsBesideHandover(t, newStageOn(t, stageShape.Keeping(t, lines), lines, 1), newStageOn(t, stageShape.Keeping(t, lines+1), lines+1, 1))
	})
}

func operationsBesideHandover(t *testing.T, old, next *stage) {
	var there []uint64
	insert := func() uint64 {
		h := old.rng.Uint64()
		old.do(change{h, 1})
		there = append(there, h)
		return h
	}
	for range 20 {
		insert()
	}
	for _, h := range there {
		next.do(change{h, 1})
	}
	if err := old.w.Sync(true, 7); err != nil {
		t.Fatal(err)
	}
	has := func(w *Writer, hash uint64) bool { return layout.Lookup(w.table, w.newest, hash) }
	check := func(what string) {
		t.Helper()
		a, b := old.w.protocol, next.w.protocol
		if a.Length() != b.Length() || a.Operations() != b.Operations() {
			t.Errorf("%s: %d and %d items after %d and %d operations", what, a.Length(), b.Length(), a.Operations(), b.Operations())
		}
		if a.History() != b.History() {
			t.Errorf("%s: the histories are at %+v and %+v", what, a.History(), b.History())
		}
		for _, h := range there {
			if !has(old.w, h) || !has(next.w, h) {
				t.Errorf("%s: %x is not in both", what, h)
			}
		}
	}
	next.volume.place = func() (bool, error) {
		insert()
		check("an insert")
		old.do(change{there[3], -1})
		there = append(there[:3], there[4:]...)
		check("a delete")
		if done, err := old.w.Delete(old.rng.Uint64()); done || err != nil {
			t.Error(done, err)
		}
		check("a delete of nothing")
		more := []uint64{old.rng.Uint64(), old.rng.Uint64(), old.rng.Uint64()}
		done := 0
		if err := old.w.InsertAll(more, nil, &done); err != nil || done != 3 {
			t.Error(done, err)
		}
		there = append(there, more...)
		check("a batch")
		for _, h := range []uint64{there[0], old.rng.Uint64()} {
			if added, err := old.w.InsertUnique(h); err != nil {
				t.Error(err)
			} else if added {
				there = append(there, h)
			}
			check("a unique insert")
		}
		// The new file has no room for what follows.
		next.w.Limit = next.w.protocol.Length()
		before := old.w.protocol.Operations()
		if err := old.w.Insert(old.rng.Uint64()); err != ErrAgain {
			t.Errorf("no room: %v", err)
		}
		done = 0
		if err := old.w.InsertAll([]uint64{old.rng.Uint64()}, nil, &done); err != ErrAgain || done != 0 {
			t.Errorf("no room for a batch: %d, %v", done, err)
		}
		if added, err := old.w.InsertUnique(old.rng.Uint64()); err != ErrAgain || added {
			t.Errorf("no room for a unique one: %t, %v", added, err)
		}
		if n := old.w.protocol.Operations(); n != before {
			t.Errorf("no room: %d operations", n-before)
		}
		check("no room")
		// One of the logs has none.
		for next.w.Limit = 1 << 40; old.w.Idle(); {
			old.do(change{there[0], -1})
			if there = there[1:]; old.w.Idle() {
				insert()
			}
		}
		if _, err := old.w.Delete(there[0]); err != ErrAgain {
			t.Errorf("no room in the log: %v", err)
		}
		check("no room in the log")
		return true, nil
	}
	if err := old.w.Handover(next.w, true, true, func(int) error { return nil }, func(bool) {}, func() {}); err != nil {
		t.Fatal(err)
	}
	if err := old.w.Insert(1); err != ErrMoved {
		t.Errorf("afterwards: %v", err)
	}
	if err := old.w.SkipFull(); err != ErrMoved { // nobody would count it
		t.Errorf("afterwards, an operation that found no room: %v", err)
	}
	if seq, _ := next.w.Durable(); seq != 7 {
		t.Errorf("the sequence is %d", seq)
	}
	length, operations := next.w.protocol.Length(), next.w.protocol.Operations()
	again := mustWriter(t, next.volume.crashed(next.w.words, nil), wal.MinBytes)
	if again.protocol.Length() != length || again.protocol.Operations() != operations {
		t.Errorf("after a kill the new file has %d items of %d, after %d operations of %d", again.protocol.Length(), length, again.protocol.Operations(), operations)
	}
	for _, h := range there {
		if !has(again, h) {
			t.Errorf("after a kill %x is lost", h)
		}
	}
}

// TestHandoverUnsealsFirst: what comes before the first store to a sealed file comes before syncs of
// the old file wait.
func TestHandoverUnsealsFirst(t *testing.T) {
	old, next := newStage(t, 40, 1), newStage(t, 40, 1)
	next.volume.place = func() (bool, error) { return true, nil }
	if err := next.w.Seal(context.Background()); err != nil {
		t.Fatal(err)
	}
	calls := 0
	next.w.Unsealing = func() func(hold func(step func())) {
		return func(func(step func())) {
			if calls++; !old.w.commit.TryLock() {
				t.Error("syncs wait")
				return
			}
			old.w.commit.Unlock()
		}
	}
	if err := old.w.Handover(next.w, false, true, func(int) error { return nil }, func(bool) {}, func() {}); err != nil || calls != 1 {
		t.Errorf("unsealed %d times: %v", calls, err)
	}
}

// TestHandoverAsksForACheckpoint: a handover that is put off since the log is more than half full has
// the background make a checkpoint. Without operations, nothing else would, and it would be put off
// for ever.
func TestHandoverAsksForACheckpoint(t *testing.T) {
	s := tabletest.Compact(38, 10)
	old, next := mustWriter(t, s.Volume(t, 400), 1<<20), mustWriter(t, s.Volume(t, 400), 1<<20)
	needs := 0
	old.Behind = func(need int) {
		if need > 0 {
			needs = need
		}
	}
	rng := rand.New(rand.NewPCG(3, 4))
	for needs == 0 {
		if size, used := old.protocol.LogUse(); used > size/2 && size > 0 {
			break
		}
		if err := old.Insert(rng.Uint64()); err != nil {
			t.Fatal(err)
		}
	}
	needs = 0
	hand := func() error {
		return old.Handover(next, false, false, func(int) error { return nil }, func(bool) {}, func() {})
	}
	if err := hand(); err != ErrAgain || needs == 0 {
		t.Fatalf("%v, and a checkpoint for %d stores is asked for", err, needs)
	}
	if err := old.CheckpointFor(needs); err != nil {
		t.Fatal(err)
	}
	if err := hand(); err == ErrAgain {
		t.Error("it is put off again")
	}
}

// TestHandoverWithoutEnd: operations may come so fast that the log of the new file is more than half
// full again at each try. A handover makes a checkpoint of it, and goes on without one if it is to wait
// no longer, unless there is no room at all. It makes none if it ends one that is under way.
func TestHandoverWithoutEnd(t *testing.T) {
	old, next := newStage(t, 40, 1), newStage(t, 400, 1)
	next.volume.place = func() (bool, error) { return true, nil }
	replay := func(int) error { return nil }
	fill := func() {
		for next.do(change{next.rng.Uint64(), 1}); !next.w.halfFull(); {
			next.do(change{next.rng.Uint64(), 1})
		}
	}
	checkpoints := func() uint64 { return next.w.State().Checkpoints }
	for want := range uint64(3) {
		fill()
		if err := old.w.Handover(next.w, false, false, replay, func(bool) {}, func() {}); err != ErrAgain || checkpoints() != want+1 {
			t.Fatalf("%v after %d checkpoints", err, checkpoints())
		}
	}
	if err := next.w.BeginCheckpoint(); err != nil {
		t.Fatal(err)
	}
	if err := old.w.Handover(next.w, false, false, replay, func(bool) {}, func() {}); err != ErrAgain || checkpoints() != 4 {
		t.Fatalf("%v after %d checkpoints", err, checkpoints())
	}
	for next.w.Idle() {
		next.do(change{next.rng.Uint64(), 1})
	}
	if err := old.w.Handover(next.w, false, true, replay, func(bool) {}, func() {}); err != ErrAgain || checkpoints() != 5 {
		t.Fatalf("without any room: %v after %d checkpoints", err, checkpoints())
	}
	fill()
	if err := old.w.Handover(next.w, false, true, replay, func(bool) {}, func() {}); err != nil || checkpoints() != 5 {
		t.Fatalf("%v after %d checkpoints", err, checkpoints())
	}
}
