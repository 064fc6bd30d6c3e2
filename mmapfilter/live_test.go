package mmapfilter

import (
	"testing"
	"time"
)

// TestCommitInterval: with a CommitInterval, operations become durable without a Sync.
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
