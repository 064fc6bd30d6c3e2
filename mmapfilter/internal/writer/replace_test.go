package writer

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/wal"
	"github.com/mmapfilter/mmapfilter/recovery"
)

// A takeover is a Replace of a tiny filter by another one.
type takeover struct {
	testing.TB
	old, next *stage
	tap       *Tap
	there     []uint64
	used      []*Writer      // the writers that use was called with, in order
	atMost    map[int]func() // by the argument of catchUp; each is called once, at the end of such a call
}

// newTakeover creates two filters with the same keys, and then does operations in the old one.
func newTakeover(t testing.TB, old, next *stage) *takeover {
	x := &takeover{TB: t, old: old, next: next, tap: newTap(t), atMost: map[int]func(){}}
	for range 20 {
		x.insert()
	}
	for _, h := range x.there {
		next.do(change{h, 1})
	}
	must(t, old.w.SyncAt(func(uint64) uint64 { return 7 }))
	must(t, old.w.Quiet(x.tap, func() error { return nil }))
	next.w.CountFrom(x.tap)
	next.volume.place = func() (bool, error) { return true, nil }
	x.each()
	return x
}

func (x *takeover) insert() {
	h := x.old.rng.Uint64()
	x.old.do(change{h, 1})
	x.there = append(x.there, h)
}

// each does operations of every kind.
func (x *takeover) each() {
	x.insert()
	x.old.do(change{x.there[3], -1})
	x.there = append(x.there[:3], x.there[4:]...)
	if done, err := x.old.w.Delete(x.old.rng.Uint64()); done || err != nil {
		x.Error(done, err)
	}
	more, done := []uint64{x.old.rng.Uint64(), x.old.rng.Uint64()}, 0
	if err := x.old.w.DoAll(layout.Insert, more, false, &done, nil); err != nil || done != len(more) {
		x.Error(done, err)
	}
	x.there = append(x.there, more...)
	if added, err := x.old.w.InsertUnique(x.there[0]); added || err != nil {
		x.Error(added, err)
	}
}

func (x *takeover) catchUp(most int) error {
	for x.tap.Len() > 0 {
		hashes, ops, err := x.tap.Take(nil, nil, 100)
		if err == nil {
			_, err = x.next.w.Replay(hashes, ops)
		}
		if err != nil {
			return err
		}
	}
	if then := x.atMost[most]; then != nil {
		delete(x.atMost, most)
		then()
	}
	return nil
}

func (x *takeover) replace() error {
	return x.old.w.Replace(x.next.w, true, x.catchUp, func(w *Writer) {
		x.used = append(x.used, w)
		if x.next.w.handover.TryLock() {
			x.Error("other calls can see what is durable in the new file, which may not take over")
			x.next.w.handover.Unlock()
		}
	})
}

// has checks that a writer has all keys.
func (x *takeover) has(w *Writer) {
	x.Helper()
	for _, h := range x.there {
		if !layout.Lookup(w.table, w.newest, h) {
			x.Errorf("%x is lost", h)
		}
	}
}

// bothKinds calls do with filters that keep their hashes, and with filters that do not.
func bothKinds(t *testing.T, do func(t *testing.T, x *takeover)) {
	t.Run("without a history", func(t *testing.T) {
		do(t, newTakeover(t, newStage(t, 3, 1), newStage(t, 4, 1)))
	})
	t.Run("with a history", func(t *testing.T) {
		do(t, newTakeover(t, newStageOn(t, stageShape.Keeping(t, 3), 3, 1), newStageOn(t, stageShape.Keeping(t, 4), 4, 1)))
	})
}

// TestReplace covers K3: before the new file gets the name, it must durably have all operations that
// came before the pause, and the counters of the old file. In the pause, no operation, commit or
// checkpoint can run in either file, and lookups use the new one. From then on, the old writer must do
// nothing. The new writer must take over the longest stall of the old one. The superblock of the new
// file must count the operations that the file has at that time, because other processes use it until
// the next checkpoint.
func TestReplace(t *testing.T) {
	bothKinds(t, func(t *testing.T, x *takeover) {
		old, next := x.old.w, x.next.w
		must(t, old.SyncAt(func(uint64) uint64 { return 8 }))
		x.each()
		must(t, x.catchUp(0))
		caught := old.protocol.Count()
		var each func()
		between := false
		each = func() { // also in the last call before the pause, so that operations are left for the pause
			x.each()
			x.atMost[fewLeft] = each
			if old.checkpoints.TryLock() {
				old.checkpoints.Unlock()
			} else if old.commits.TryLock() {
				between = true
				old.commits.Unlock()
			}
		}
		placed := false
		each()
		x.next.volume.place = func() (bool, error) {
			placed = true
			for name, lock := range map[string]*sync.Mutex{
				"an operation": &old.mu.Mutex, "a commit": &old.commits, "a checkpoint": &old.checkpoints,
				"an operation of the new file": &next.mu.Mutex, "a commit of it": &next.commits, "a checkpoint of it": &next.checkpoints,
				"a look at what is durable in it": &next.handover,
			} {
				if lock.TryLock() {
					t.Errorf("%s can run in the pause", name)
					lock.Unlock()
				}
			}
			a, b := old.protocol, next.protocol
			if a.Length() != b.Length() || a.Operations() != b.Operations() || a.History().At != b.History().At {
				t.Errorf("%d and %d items after %d and %d operations; %+v, %+v", a.Length(), b.Length(), a.Operations(), b.Operations(), a.History(), b.History())
			}
			if sb := b.Superblock(); (recovery.Count{Seq: sb.UserSeq(), Operations: sb.Operation()}) != caught {
				t.Errorf("the superblock counts %d operations after user sequence %d; the file has those up to %+v", sb.Operation(), sb.UserSeq(), caught)
			}
			if seq, operations, lsn := b.Durable(); seq != 8 || operations != b.Operations() || lsn != b.LSN() {
				t.Errorf("%d + %d are durable, up to %d of %d", seq, operations, lsn, b.LSN())
			}
			if !slices.Equal(x.used, []*Writer{next}) {
				t.Error("lookups do not look in the new file")
			}
			x.has(next)
			return true, nil
		}
		old.longestStall.Store(int64(time.Hour))
		if err := x.replace(); err != nil || !placed {
			t.Fatal(placed, err)
		}
		if !between {
			t.Error("commits wait until operations that came during the checkpoints are replayed")
		}
		if err := old.Insert(1); err != ErrMoved {
			t.Errorf("an insert afterwards: %v", err)
		}
		if err := old.CountFull(); err != ErrMoved { // the new file would not count it
			t.Errorf("afterwards, an operation that found no room: %v", err)
		}
		if err := old.Sync(); err != ErrMoved {
			t.Errorf("afterwards, a sync: %v", err)
		}
		if s := next.State(); s.RebuildStall == 0 || s.LongestStall < time.Hour {
			t.Errorf("operations waited for %v, and %v at most", s.RebuildStall, s.LongestStall)
		}
		length, operations := next.protocol.Length(), next.protocol.Operations()
		again := mustWriter(t, x.next.volume.crashed(next.words, nil), wal.MinBytes)
		if again.protocol.Length() != length || again.protocol.Operations() != operations {
			t.Errorf("after a kill, the new file has %d items, not %d, after %d operations, not %d", again.protocol.Length(), length, again.protocol.Operations(), operations)
		}
		x.has(again)
		x.old = x.next
		x.each()
		x.has(next)
	})
}

// TestReplaceInVain covers K3 and K4: if the new file cannot get the name, the old one must go on with
// all operations, and lookups must use it again. The new file must refuse operations. The pause is a
// stall of the old file.
func TestReplaceInVain(t *testing.T) {
	bothKinds(t, func(t *testing.T, x *takeover) {
		old, next := x.old.w, x.next.w
		epoch := old.words[wordEpoch]
		for _, name := range []string{"an error", "a panic"} {
			x.used = nil
			x.next.volume.place = func() (bool, error) {
				if name == "a panic" {
					panic(errInVain)
				}
				return false, errInVain
			}
			next.mu.closed = nil
			old.longestStall.Store(0)
			func() {
				defer func() { recover() }()
				if err := x.replace(); err != errInVain {
					t.Errorf("%s: %v", name, err)
				}
			}()
			if !slices.Equal(x.used, []*Writer{next, old}) {
				t.Errorf("%s: lookups do not use the old file again", name)
			}
			if old.State().LongestStall == 0 {
				t.Errorf("%s: operations have not waited", name)
			}
			if err := next.Insert(1); err != ErrMoved {
				t.Errorf("%s: the new file: %v", name, err)
			}
			if err := next.Sync(); err != ErrMoved {
				t.Errorf("%s: a sync of the new file: %v", name, err)
			}
			if name == "an error" && old.words[wordEpoch] != epoch {
				t.Errorf("the epoch is %#x", old.words[wordEpoch])
			}
			x.each()
			x.has(old)
			if err := old.Checkpoint(); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

// TestReplaceFails covers K3: if anything fails before the new file has the name, the old file must go
// on. If the disk fails after that, the new file must have failed.
func TestReplaceFails(t *testing.T) {
	fails := errors.New("it fails")
	for name, c := range map[string]struct {
		arrange func(x *takeover)
		want    error
	}{
		"catching up": {func(x *takeover) { x.next.w.Limit = x.next.w.Len() }, ErrFull},
		"catching up in the pause": {func(x *takeover) {
			calls := 0
			var each func()
			each = func() {
				x.atMost[fewLeft] = each
				if calls++; calls == 4 { // the last call before the pause
					x.each()
					x.next.w.Limit = x.next.w.Len()
				}
			}
			x.atMost[fewLeft] = each
		}, ErrFull},
		"the new file":              {func(x *takeover) { x.next.w.Fail(fails) }, fails},
		"the new file in the pause": {func(x *takeover) { x.atMost[0] = func() { x.next.w.Fail(fails) } }, fails},
	} {
		t.Run(name, func(t *testing.T) {
			bothKinds(t, func(t *testing.T, x *takeover) {
				x.next.volume.place = func() (bool, error) {
					t.Error("the new file gets the name")
					return true, nil
				}
				c.arrange(x)
				if err := x.replace(); !errors.Is(err, c.want) || x.old.w.Err() != nil {
					t.Fatalf("%v; the old file: %v", err, x.old.w.Err())
				}
				x.old.w.Untap()
				x.each()
				x.old.sync()
				x.has(x.old.w)
			})
		})
	}
	x := newTakeover(t, newStage(t, 3, 1), newStage(t, 4, 1))
	x.next.volume.place = func() (bool, error) { return true, fails }
	if err := x.replace(); !errors.Is(err, fails) || !errors.Is(x.next.w.Err(), recovery.ErrFailed) || x.old.w.Insert(1) != ErrMoved {
		t.Errorf("after the name: %v; the new file: %v", err, x.next.w.Err())
	}
}

// A logFault is like the value of the runtime's panic after a fault in a mapped log.
type logFault struct{}

func (logFault) Error() string { return "a fault" }
func (logFault) RuntimeError() {}
func (logFault) Addr() uintptr { return 1 }

// TestFaultBeforeReplace covers W8: if a fault comes while Replace creates the log of the old file, the
// old file must fail, since its log may be incomplete, and not the new one. If a fault cuts off an
// operation in the old file before the pause, Replace must fail, even before the writer knows of the
// fault.
func TestFaultBeforeReplace(t *testing.T) {
	v := &storingVolume{Volume: small.Volume(t, 3), storing: func(recovery.File) { panic(logFault{}) }}
	old, next := mustWriter(t, v, wal.MinBytes), newStage(t, 4, 1)
	use := func(*Writer) { t.Error("the new file takes over") }
	err := old.Replace(next.w, true, func(int) error { return nil }, use)
	if !errors.Is(err, recovery.ErrFailed) || old.Err() == nil || next.w.Err() != nil {
		t.Errorf("%v; the old file: %v; the new file: %v", err, old.Err(), next.w.Err())
	}

	v = &storingVolume{Volume: small.Volume(t, 3)}
	old, next = mustWriter(t, v, wal.MinBytes), newStage(t, 4, 1)
	catchUp := func(most int) error {
		if most > 0 {
			v.storing = func(recovery.File) { panic(logFault{}) }
			defer func() {
				v.storing = nil
				recover()
			}()
			old.Insert(1)
		}
		return nil
	}
	if err := old.Replace(next.w, true, catchUp, use); !errors.Is(err, recovery.ErrFailed) || old.Err() == nil {
		t.Errorf("an operation is cut off: %v; the old file: %v", err, old.Err())
	}
}

// TestFaultInOldFile covers W8: after a fault in the old file, before the pause or in it, the old file
// must have failed and not the new one, although the caller of Replace catches faults for the new file.
func TestFaultInOldFile(t *testing.T) {
	for name, arrange := range map[string]func(x *takeover, fails func()){
		"a commit":                      func(x *takeover, fails func()) { fails() },
		"it says that it is superseded": func(x *takeover, fails func()) { x.atMost[0] = fails },
		"it no longer says that": func(x *takeover, fails func()) {
			x.next.volume.place = func() (bool, error) {
				fails()
				return false, errInVain
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			bothKinds(t, func(t *testing.T, x *takeover) {
				old, next := x.old.w, x.next.w
				faults := 0
				arrange(x, func() {
					x.old.volume.file.stored = func() {
						faults++
						panic(logFault{})
					}
				})
				err := next.protocol.Catch(x.replace)
				if err == nil || faults != 1 || !errors.Is(old.Err(), recovery.ErrFailed) || next.Err() != nil {
					t.Errorf("%v after %d faults; the old file: %v; the new one: %v", err, faults, old.Err(), next.Err())
				}
				if err := old.Insert(1); !errors.Is(err, recovery.ErrFailed) {
					t.Errorf("the old file goes on: %v", err)
				}
			})
		})
	}
}

// TestReplaceDropsFirst checks that, if the new file is sealed, its large pages are dropped before syncs
// of the old file have to wait.
func TestReplaceDropsFirst(t *testing.T) {
	old, next := newStage(t, 40, 1), newStage(t, 40, 1)
	next.volume.place = func() (bool, error) { return true, nil }
	must(t, next.w.Seal(context.Background()))
	calls := 0
	next.w.vol = pagedVolume{next.w.vol, func(from int64) int64 {
		if calls++; !old.w.commits.TryLock() {
			t.Error("syncs wait")
			return 0
		}
		old.w.commits.Unlock()
		return (from + 1) % 2
	}, 0}
	if err := old.w.Replace(next.w, false, func(int) error { return nil }, func(*Writer) {}); err != nil || calls != 2 {
		t.Errorf("%d parts dropped: %v", calls, err)
	}
}

// TestReplaceWithoutEnd checks that Replace makes checkpoints of both files before the pause. If
// operations fill half of a log meanwhile, it must repeat them, up to a limit. It must make no further
// checkpoint in the pause, even if a log is full then or a checkpoint is under way.
func TestReplaceWithoutEnd(t *testing.T) {
	fill := func(s *stage, full bool) {
		for s.do(change{s.rng.Uint64(), 1}); !s.w.halfFull() || full && s.w.Idle(); {
			s.do(change{s.rng.Uint64(), 1})
		}
	}
	for name, c := range map[string]struct {
		rounds uint64
		each   func(old, next *stage, call, most int)
	}{
		"few operations": {1, func(old, next *stage, call, most int) {}},
		"one round fills a log": {2, func(old, next *stage, call, most int) {
			if call == 0 {
				fill(old, false)
			}
		}},
		"each fills the old log": {3, func(old, next *stage, call, most int) {
			if most > 0 && !old.w.halfFull() {
				fill(old, false)
			}
		}},
		"each fills the new log": {3, func(old, next *stage, call, most int) {
			if most > 0 && !next.w.halfFull() {
				fill(next, false)
			}
		}},
		"the pause fills the log": {1, func(old, next *stage, call, most int) {
			if most == 0 {
				fill(next, true)
			}
		}},
		"a checkpoint is under way": {1, func(old, next *stage, call, most int) {
			if most == 0 {
				next.do(change{next.rng.Uint64(), 1})
				must(next, next.w.BeginCheckpoint())
			}
		}},
	} {
		old, next := newStage(t, 400, 1), newStage(t, 400, 1)
		placed := false
		next.volume.place = func() (bool, error) {
			if placed = true; next.w.protocol.Checkpointing() || old.w.protocol.Checkpointing() {
				t.Errorf("%s: a checkpoint is under way", name)
			}
			return true, nil
		}
		old.do(change{1, 1})
		calls, rounds := 0, uint64(0)
		catchUp := func(most int) error {
			if most > 0 && calls < mostRounds {
				rounds = old.w.State().Checkpoints
			}
			c.each(old, next, calls, most)
			calls++
			return nil
		}
		if err := old.w.Replace(next.w, false, catchUp, func(*Writer) {}); err != nil || !placed {
			t.Errorf("%s: %v", name, err)
		}
		if rounds != c.rounds {
			t.Errorf("%s: %d rounds", name, rounds)
		}
	}
}

// TestReplaceHoldsGrowth checks that no larger log is created during Replace, because the new file's log
// gets the name of a larger log. If the new file cannot get the name, logs can grow again afterwards.
func TestReplaceHoldsGrowth(t *testing.T) {
	open := func(lines uint64) *stage {
		s := newStage(t, lines, 1)
		s.w.mostLog, s.w.firstLog = 4*wal.MinBytes, wal.MinBytes
		s.do(change{1, 1})
		return s
	}
	old, next := open(40), open(40)
	grow := func() (before, after int64) {
		for _, w := range []*Writer{old.w, next.w} {
			b := w.State().LogBytes
			must(t, errors.Join(w.Grow(), w.Checkpoint()))
			before, after = before+b, after+w.State().LogBytes
		}
		return before, after
	}
	once := false
	next.volume.place = func() (bool, error) { return false, errInVain }
	catchUp := func(most int) error {
		if !once {
			once = true
			if before, after := grow(); before != after {
				t.Errorf("the logs grow from %d to %d bytes", before, after)
			}
		}
		return nil
	}
	if err := old.w.Replace(next.w, false, catchUp, func(*Writer) {}); err != errInVain || !once {
		t.Fatal(err)
	}
	next.w.mu.closed = nil
	if before, after := grow(); after != 4*before {
		t.Errorf("afterwards the logs grow from %d to %d bytes", before, after)
	}
}
