package mmapfilter

import (
	"errors"
	"testing"
	"time"

	"github.com/mmapfilter/mmapfilter/layout/wal"
)

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
