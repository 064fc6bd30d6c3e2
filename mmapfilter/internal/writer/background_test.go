package writer

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/mmapfilter/mmapfilter/layout/wal"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/tabletest"
	"github.com/mmapfilter/mmapfilter/recovery"
	"github.com/mmapfilter/mmapfilter/recovery/osfile"
)

var shape = tabletest.Compact(41, 7)

// mustWork opens an empty filter for writing, with a log of the least size, and starts its Work.
func mustWork(t *testing.T, interval time.Duration) *Work {
	t.Helper()
	path := filepath.Join(t.TempDir(), "f.mmf")
	shape.Create(t, path, 100)
	return mustBegin(t, path, interval)
}

func mustBegin(t *testing.T, path string, interval time.Duration) *Work {
	t.Helper()
	files, err := osfile.OpenFiles(path)
	must(t, err)
	files.RequireHashes = true // if the filter keeps hashes
	w, _, err := Open(files, LogSize{First: wal.MinBytes, Most: 2 * wal.MinBytes})
	must(t, err)
	k := NewWork(files, w, interval)
	t.Cleanup(func() {
		if !k.mu.closed {
			k.Retire()
		}
	})
	w.Work = k
	return k
}

// insert inserts an item, and waits until no work goes on in the background.
func (k *Work) insert(t *testing.T) {
	t.Helper()
	must(t, k.Writer.Insert(rand.Uint64()))
	k.group.Wait()
}

// TestCommitAfterInterval checks that all operations are committed without a Sync, each after an
// interval, and that none is committed if there is no interval.
func TestCommitAfterInterval(t *testing.T) {
	k := mustWork(t, time.Nanosecond)
	for i := range uint64(3) {
		k.insert(t)
		if commits, _ := k.Writer.Protocol().Counts(); commits != i+1 || k.Writer.State().Pending != 0 {
			t.Errorf("%d commits of %d, %d operations pending", commits, i+1, k.Writer.State().Pending)
		}
	}
	k = mustWork(t, -1)
	k.insert(t)
	if commits, _ := k.Writer.Protocol().Counts(); commits != 0 {
		t.Errorf("%d commits without an interval", commits)
	}
}

// TestOperationsDuringTheCommit checks that operations that come during the commit after an interval are
// committed after another interval.
func TestOperationsDuringTheCommit(t *testing.T) {
	k := mustWork(t, time.Hour)
	must(t, k.Writer.Insert(1<<60))
	k.mu.timer.Stop()
	unlock, ended := k.Writer.LockAll(), make(chan bool)
	go func() {
		k.commitLate()
		close(ended)
	}()
	for !waitsForLock("writer.(*Work).commitLate") {
		runtime.Gosched()
	}
	k.ask(due{}) // as an operation does
	unlock()
	<-ended
	if k.mu.timer == nil {
		t.Error("no commit of the operations is due")
	}
}

// TestAsk checks that work that operations ask for is done, not only the first time: a commit at once,
// without an interval, and a checkpoint if the log has less room than asked for. A larger log is created
// once, and the next checkpoint moves to it.
func TestAsk(t *testing.T) {
	k := mustWork(t, -1)
	k.insert(t)
	before := k.Writer.State().LogBytes
	for i := range uint64(3) {
		for _, c := range []struct {
			due
			checkpoints uint64
		}{{due{commit: true}, i}, {due{largerLog: true, commit: true}, i}, {due{room: wal.MinBytes}, i + 1}} { // more room than there is
			k.insert(t)
			k.ask(c.due)
			k.group.Wait()
			if s := k.Writer.State(); s.Pending != 0 || s.Checkpoints != c.checkpoints {
				t.Fatalf("round %d, after %+v: %d operations pending, %d checkpoints", i, c.due, s.Pending, s.Checkpoints)
			}
		}
		if n := k.Writer.State().LogBytes; n != 2*before {
			t.Errorf("round %d: the log has %d bytes, and had %d", i, n, before)
		}
	}
}

// TestDueWhileCheckpointing checks that, if a checkpoint becomes due while another one is under way, it
// is made afterwards, for the most room that was asked for.
func TestDueWhileCheckpointing(t *testing.T) {
	k := mustWork(t, -1)
	k.mu.checkpointing = true
	for _, d := range []due{{room: 1}, {room: 5}, {room: 3}, {commit: true}, {}} {
		k.ask(d)
	}
	k.group.Wait()
	if room := k.nextRoom(); room != 5 {
		t.Errorf("room for %d is due", room)
	}
	if room := k.nextRoom(); room != 0 || k.mu.checkpointing {
		t.Errorf("then room for %d is due, and a checkpoint under way: %t", room, k.mu.checkpointing)
	}
}

// TestNothingIsAllocated checks that asking for work that is under way already does not allocate,
// because each operation may do so.
func TestNothingIsAllocated(t *testing.T) {
	k := mustWork(t, -1)
	k.mu.committing, k.mu.growing, k.mu.checkpointing = true, true, true
	for _, d := range []due{{}, {room: 1}, {commit: true}, {largerLog: true}} {
		if n := testing.AllocsPerRun(100, func() { k.ask(d) }); n != 0 {
			t.Errorf("%+v: %v allocations", d, n)
		}
	}
}

// TestNothingBeginsAfterTheEnd checks that no work begins after Retire or Close, whether asked for or
// due after an interval. Retire must leave the log, and Close must not.
func TestNothingBeginsAfterTheEnd(t *testing.T) {
	for name, end := range map[string]func(*Work) error{"Retire": (*Work).Retire, "Close": (*Work).Close} {
		k := mustWork(t, time.Hour)
		must(t, k.Writer.Insert(1<<60))
		if k.mu.timer == nil {
			t.Fatalf("%s: no commit is due", name)
		}
		if err := end(k); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		k.ask(due{commit: true})
		k.ask(due{room: 1})
		k.readAgain()
		if k.mu.committing || k.mu.checkpointing {
			t.Errorf("%s: something has begun afterwards", name)
		}
		k.group.Wait()
		_, err := os.Stat(k.Files.Path() + ".stash")
		if there := err == nil; there != (name == "Retire") {
			t.Errorf("%s: there is a log: %t", name, there)
		}
	}
}

// TestPanicPoisons checks that the writer has failed (W8) after a panic in an operation, since the
// operation may be half done. No work may be done then, and the failure must be reported.
func TestPanicPoisons(t *testing.T) {
	k := mustWork(t, -1)
	var reported error
	k.OnError = func(err error) { reported = err }
	k.insert(t)
	func() {
		defer func() { recover() }()
		k.Catch(func() error { panic("in an operation") })
	}()
	if k.Writer.Err() == nil {
		t.Error("the writer has not failed")
	}
	k.ask(due{room: wal.MinBytes})
	k.group.Wait()
	if !k.mu.checkpointing || k.Writer.State().Pending != 1 {
		t.Error("a checkpoint was made, or another one may begin")
	}
	if !errors.Is(reported, recovery.ErrFailed) || k.Writer.Protocol().Stuck() != nil {
		t.Errorf("reported %v, stuck %v", reported, k.Writer.Protocol().Stuck())
	}
}

// TestMappingIsKept checks that lookups that go on after Close still have their mapping, as long as the
// Work is reachable.
func TestMappingIsKept(t *testing.T) {
	k := mustWork(t, -1)
	k.KeepMapping()
	m := k.Files.Mapping()
	must(t, k.Close())
	for range 10 { // cleanups run after the collection that finds them due
		runtime.GC()
	}
	if m.Data == nil {
		t.Error("the mapping is gone")
	}
	runtime.KeepAlive(k)
}
