package mmapfilter

import (
	"context"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/mmapfilter/mmapfilter/layout/wal"
)

// TestLive runs once through the life of a filter that is written to.
func TestLive(t *testing.T) {
	f, path := mustCreate(t, &Options{Capacity: 100_000})
	if _, err := Create(path, &Options{Capacity: 10}); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a second Create: %v", err)
	}
	locked := new(LockedError)
	if _, err := Open(path, nil); !errors.Is(err, ErrLocked) || !errors.As(err, &locked) || runtime.GOOS == "linux" && locked.PID != os.Getpid() {
		t.Errorf("a second writer: %v", err)
	}
	if _, err := os.Stat(path + ".stash"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("opening made a log: %v", err)
	}
	rng := rand.New(rand.NewPCG(1, 1))
	hashes := make([]uint64, 100_000)
	for i := range hashes {
		hashes[i] = rng.Uint64()
		if err := f.InsertHash(hashes[i]); err != nil {
			t.Fatalf("insert %d: %v", i, err)
		}
		if !f.ContainsHash(hashes[i]) {
			t.Fatalf("key %d is not found by its writer", i)
		}
		if i%30_000 == 10_000 {
			must(t, f.SyncAt(uint64(i+1)))
			r, err := OpenReadOnly(path, nil)
			must(t, err)
			for j, h := range hashes[:i+1] {
				if !r.ContainsHash(h) {
					t.Fatalf("key %d of %d is not found by a reader", j, i)
				}
			}
			r.Close()
		}
	}
	must(t, f.Checkpoint(context.Background()))
	for i, h := range hashes {
		if !f.ContainsHash(h) {
			t.Fatalf("key %d is lost", i)
		}
		if i%2 == 0 {
			if ok, err := f.DeleteHash(h); !ok || err != nil {
				t.Fatalf("delete %d: %t, %v", i, ok, err)
			}
		}
	}
	if f.Len() != 50_000 || f.DurableSeq() != 70_001 && f.DurableSeq() != 100_001 {
		t.Errorf("%d keys, durable up to %d", f.Len(), f.DurableSeq())
	}
	must(t, f.Close())
	mustLeave(t, path, 1)
	f = mustOpen(t, path, nil)
	found := 0
	for i, h := range hashes {
		if ok := f.ContainsHash(h); !ok && i%2 == 1 {
			t.Fatalf("key %d is lost", i)
		} else if ok && i%2 == 0 {
			found++
		}
	}
	if f.Len() != 50_000 || found > 500 {
		t.Errorf("%d keys, %d of those deleted are found", f.Len(), found)
	}
	must(t, f.Seal(context.Background()))
	must(t, f.Close())
	if r, err := Verify(context.Background(), path); err != nil || !r.Sealed || r.Items != 50_000 {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestCommitInterval: operations become durable without a Sync.
func TestCommitInterval(t *testing.T) {
	f, _ := mustCreate(t, &Options{Capacity: 1000, CommitInterval: time.Millisecond})
	until := func(operations uint64) {
		for f.DurableOps() != operations {
			time.Sleep(time.Millisecond)
		}
	}
	must(t, f.InsertHash(1<<60))
	until(1)
	if _, err := f.InsertBatch([][]byte{{1}, {2}, {3}}); err != nil {
		t.Fatal(err)
	}
	until(4)
}

// TestOpenThatFailsLetsGo: a failed attempt to open a file for writing does not leave it locked.
func TestOpenThatFailsLetsGo(t *testing.T) {
	path := deadWriter(t, 500, 300)
	must(t, flipByte(path+".stash", wal.FirstWord*8+3))
	for range 2 {
		if _, err := Open(path, nil); !errors.Is(err, ErrCorrupt) {
			t.Fatal(err)
		}
		if _, err := Recover(path); !errors.Is(err, ErrCorrupt) {
			t.Fatal(err)
		}
	}
}
