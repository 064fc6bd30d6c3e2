package mmapfilter

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/mmapfilter/mmapfilter/layout/wal"
)

// TestLive runs once through the life of a filter that is written to: a reader finds what was committed,
// and one writer excludes another.
func TestLive(t *testing.T) {
	f, path := mustCreate(t, &Options{Capacity: 100_000})
	if _, err := Create(path, &Options{Capacity: 10}); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a second Create: %v", err)
	}
	locked := new(LockedError)
	if _, err := Open(path, nil); !errors.Is(err, ErrLocked) || !errors.As(err, &locked) || runtime.GOOS == "linux" && locked.PID != os.Getpid() {
		t.Errorf("a second writer: %v", err)
	}
	mustLeave(t, path, 1)
	keys := hashes(1, 100_000)
	for n := range 10 {
		batch := keys[n*10_000 : (n+1)*10_000]
		insertAll(t, f, batch)
		mustContain(t, f, batch)
		if n%3 == 1 {
			must(t, f.SyncAt(uint64(n)))
			r := mustOpenReadOnly(t, path, nil)
			mustContain(t, r, keys[:(n+1)*10_000])
			must(t, r.Close())
		}
	}
	must(t, f.Checkpoint(context.Background()))
	mustContain(t, f, keys)
	for _, h := range keys[:50_000] {
		if ok, err := f.DeleteHash(h); !ok || err != nil {
			t.Fatal(ok, err)
		}
	}
	if f.Len() != 50_000 || f.DurableSeq() != 7 {
		t.Errorf("%d keys, durable up to %d", f.Len(), f.DurableSeq())
	}
	must(t, f.Close())
	mustLeave(t, path, 1)
	f = mustOpen(t, path, nil)
	mustContain(t, f, keys[50_000:])
	found := make([]bool, 50_000)
	f.ContainsHashes(keys[:50_000], found)
	found = slices.DeleteFunc(found, func(is bool) bool { return !is })
	if f.Len() != 50_000 || len(found) > 500 {
		t.Errorf("%d keys, %d of those deleted are found", f.Len(), len(found))
	}
	must(t, f.Seal(context.Background()))
	must(t, f.Close())
	if r := mustVerify(t, path, 50_000); !r.Sealed {
		t.Errorf("%+v", r)
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
