package mmapfilter

import (
	"context"
	"errors"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
)

// TestSnapshotBesideGrowth makes snapshots of a filter that grows by itself, by its writer and by a
// reader whose file is replaced meanwhile. Snapshots of the writer must have all keys inserted before.
func TestSnapshotBesideGrowth(t *testing.T) {
	const keys = 20_000
	f, path := mustCreate(t, &Options{Capacity: 500, AutoGrow: true})
	reader := mustOpenReadOnly(t, path, nil)
	inserted := make(chan uint64, 1)
	inserted <- 0
	var wait sync.WaitGroup
	wait.Add(1)
	go func() {
		defer wait.Done()
		for i := range uint64(keys) {
			if err := f.Insert(numberKey(i)); err != nil {
				t.Error(err)
				return
			}
			<-inserted
			inserted <- i + 1
		}
	}()
	before := Position{}
	for n := uint64(0); n < keys && !t.Failed(); {
		n = <-inserted
		inserted <- n
		copied, at, _ := mustSnapshot(t, f)
		if copied.Len() < n || at.Number != copied.Len() || at.Number < before.Number || before.Descent != 0 && at.Descent != before.Descent {
			t.Fatalf("the copy is at %v and has %d keys; %d were inserted before; the previous copy was at %v", at, copied.Len(), n, before)
		}
		mustHave(t, copied, 0, n)
		// The snapshot of a reader may be as old as the last checkpoint.
		if copied, again, _ := mustSnapshot(t, reader); again.Number != copied.Len() || again.Descent != at.Descent {
			t.Fatalf("the copy of a reader has %d keys at %v", copied.Len(), again)
		}
		before = at
	}
	wait.Wait()
}

// TestSnapshotBesideFirstWrite makes a snapshot of a sealed file by a reader. While the file is compared
// with its checksums, a writer begins to write to it, which is no damage.
func TestSnapshotBesideFirstWrite(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // so that some of the file is read after the write
	f, path := mustBuild(t, &Options{Capacity: 2_000_000}, numbers(0, 1000))
	w, begun := mustOpen(t, path, nil), false
	defer func(was func(done, total int64)) { verifying = was }(verifying)
	verifying = func(done, total int64) {
		if begun {
			return
		}
		begun = true
		for i := range uint64(100) {
			if err := w.Insert(numberKey(1000 + i)); err != nil {
				t.Error(err)
			}
		}
		if err := w.Sync(); err != nil {
			t.Error(err)
		}
	}
	copied, _, _ := mustSnapshot(t, f)
	mustHave(t, copied, 0, 1100)
	if !begun {
		t.Error("the file was not verified")
	}
}

// TestSnapshotBesideRebuild makes snapshots of a filter without hashes while rebuilds replace its file.
func TestSnapshotBesideRebuild(t *testing.T) {
	const keys = 3000
	f, path := mustCreate(t, &Options{Capacity: 4000})
	mustInsert(t, f, 0, keys)
	must(t, f.Sync())
	reader := mustOpenReadOnly(t, path, nil)
	var wait sync.WaitGroup
	wait.Add(1)
	go func() {
		defer wait.Done()
		for range 6 {
			err := f.Rebuild(context.Background(), &RebuildOptions{Keys: func() (iter.Seq2[[]byte, error], error) { return numbers(0, keys), nil }})
			if err != nil {
				t.Error(err)
			}
		}
	}()
	for range 12 {
		for _, from := range []*Filter{f, reader} {
			copied, _, _ := mustSnapshot(t, from)
			if mustHave(t, copied, 0, keys); copied.Len() != keys {
				t.Errorf("%d keys", copied.Len())
			}
		}
	}
	wait.Wait()
}

// TestSnapshotBesideClose closes a filter while a goroutine makes snapshots: a snapshot is complete, or
// there is none.
func TestSnapshotBesideClose(t *testing.T) {
	for _, keep := range []bool{false, true} {
		f, path := mustCreate(t, &Options{Capacity: 60_000, KeepHashes: keep})
		mustInsert(t, f, 0, 50_000)
		errs := make(chan error)
		copied := path + "-copy"
		go func() {
			var err error
			for err == nil {
				_, err = f.Snapshot(context.Background(), copied)
			}
			errs <- err
		}()
		for {
			if _, err := os.Stat(copied); err == nil {
				break
			}
		}
		must(t, f.Close())
		if err := <-errs; !errors.Is(err, ErrClosed) {
			t.Errorf("keeps hashes: %t: %v", keep, err)
		}
		mustHave(t, mustOpenReadOnly(t, copied, nil), 0, 50_000)
		mustVerify(t, copied, 50_000)
		mustHave(t, mustOpen(t, path, nil), 0, 50_000)
		if left, err := filepath.Glob(copied + "?*"); err != nil || len(left) > 0 {
			t.Errorf("%q are left, %v", left, err)
		}
	}
}

// TestSnapshotAfterDeath: if the writer of a filter died, Snapshot fails until the filter is recovered.
func TestSnapshotAfterDeath(t *testing.T) {
	f, alive := mustCreate(t, &Options{Capacity: 10_000})
	insertAll(t, f, spreads(0, 100))
	must(t, f.Sync())
	reader := mustOpenReadOnly(t, alive, nil)
	if _, at, _ := mustSnapshot(t, reader); !at.IsZero() {
		t.Errorf("at %v", at)
	}
	path := deadWriterOf(t, &Options{Capacity: 10_000}, 500, 300)
	unrecovered := mustOpenReadOnly(t, path, &OpenOptions{NoRecover: true, ServeUnrecovered: true})
	copied := filepath.Join(t.TempDir(), "copy")
	if _, err := unrecovered.Snapshot(context.Background(), copied); !errors.Is(err, ErrNeedsRecovery) {
		t.Errorf("unrecovered: %v", err)
	}
	if _, err := trySnapshot(context.Background(), path, copied, 0, false); !errors.Is(err, ErrNeedsRecovery) {
		t.Errorf("a file whose writer has died: %v", err)
	}
	kept := deadWriterOf(t, &Options{Capacity: 10_000, KeepHashes: true}, 500, 300)
	if _, err := trySnapshot(context.Background(), kept, copied, 0, false); !errors.Is(err, ErrNeedsRecovery) {
		t.Errorf("a file with hashes whose writer has died: %v", err)
	}
	if left, err := filepath.Glob(copied + "*"); err != nil || len(left) > 0 {
		t.Errorf("%q are left, %v", left, err)
	}
	_, err := Recover(path)
	must(t, err)
	if recovered, _, _ := mustSnapshot(t, mustOpenReadOnly(t, path, nil)); recovered.Len() != 500 {
		t.Errorf("%d keys", recovered.Len())
	}
}

// TestSnapshotWithoutHashes: if the kept hashes of a filter are lost or damaged, Snapshot makes no copy.
// In a copy of only the lines, a delete of one key could remove the item that answers for another (K7).
func TestSnapshotWithoutHashes(t *testing.T) {
	f, path := mustCreate(t, &Options{Capacity: 10_000, KeepHashes: true})
	mustInsert(t, f, 0, 5000)
	must(t, f.Checkpoint(context.Background()))
	data := readFile(t, path+".hashes")
	data[len(data)/2] ^= 1
	must(t, os.WriteFile(path+".hashes", data, 0o600))
	reader := mustOpenReadOnly(t, path, nil)
	to := filepath.Join(t.TempDir(), "copy")
	if _, err := reader.Snapshot(context.Background(), to); !errors.Is(err, ErrCorrupt) {
		t.Errorf("damaged hashes: %v", err)
	}
	must(t, os.Remove(path+".hashes"))
	if _, err := reader.Snapshot(context.Background(), to); !errors.Is(err, ErrNoHashes) {
		t.Errorf("without hashes: %v", err)
	}
	if _, err := os.Stat(to); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a copy was made: %v", err)
	}
}

// TestSnapshotOfDamage checks that Snapshot does not copy damaged lines, which would get new checksums.
func TestSnapshotOfDamage(t *testing.T) {
	f, path := mustBuild(t, &Options{Layout: layout.Packed}, numbers(0, 900))
	to := filepath.Join(t.TempDir(), "copy")
	_, err := f.Snapshot(t.Context(), to)
	must(t, err)
	data := readFile(t, path)
	data[layout.OffRegion+5] ^= 1
	must(t, os.WriteFile(path, data, 0o600))
	if _, err := mustOpenReadOnly(t, path, nil).Snapshot(t.Context(), to); !errors.Is(err, ErrCorrupt) {
		t.Errorf("damaged: %v", err)
	}
	_, err = Verify(t.Context(), to)
	must(t, err)
}

// TestSnapshotOfAnother checks that Snapshot does not copy another file that now has the writer's path.
func TestSnapshotOfAnother(t *testing.T) {
	for _, keeps := range []bool{false, true} {
		f, path := mustCreate(t, &Options{Capacity: 1000, KeepHashes: keeps})
		mustInsert(t, f, 0, 10)
		must(t, f.Sync())
		g, other := mustCreate(t, &Options{Capacity: 1000, KeepHashes: keeps})
		must(t, g.Close())
		must(t, os.Rename(other, path))
		if _, err := f.Snapshot(t.Context(), filepath.Join(t.TempDir(), "copy")); !errors.Is(err, ErrReplaced) {
			t.Errorf("keeps hashes %t: %v", keeps, err)
		}
	}
}

// TestSnapshotDuringCommits checks that a snapshot succeeds even if commits go on during its checkpoint.
func TestSnapshotDuringCommits(t *testing.T) {
	f, _ := mustCreate(t, &Options{Capacity: 100_000, KeepHashes: true})
	mustInsert(t, f, 0, 1000)
	stop := make(chan struct{})
	var committing sync.WaitGroup
	committing.Add(1)
	go func() {
		defer committing.Done()
		for n := uint64(1000); ; n++ {
			select {
			case <-stop:
				return
			default:
			}
			if err := errors.Join(f.Insert(numberKey(n)), f.Sync()); err != nil {
				t.Error(err)
				return
			}
		}
	}()
	for range 5 {
		if copied, _, _ := mustSnapshot(t, f); copied.Len() < 1000 {
			t.Errorf("%d keys", copied.Len())
		}
	}
	close(stop)
	committing.Wait()
}

// TestSnapshotHasTheSequence checks that a reader's snapshot after a rebuild has the user sequence that
// belongs to its keys, because a program goes on from there.
func TestSnapshotHasTheSequence(t *testing.T) {
	f, path := mustCreate(t, &Options{Capacity: 1000, KeepHashes: true})
	mustInsert(t, f, 0, 100)
	must(t, f.SyncAt(99))
	must(t, f.Rebuild(t.Context(), nil))
	copied, _, _ := mustSnapshot(t, mustOpenReadOnly(t, path, nil))
	if mustHave(t, copied, 0, 100); copied.DurableSeq() != 99 {
		t.Errorf("the sequence is %d", copied.DurableSeq())
	}
}
