package mmapfilter

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestSnapshotWithHashes: a snapshot that keeps the hashes has the multiset of the filter, and grows by
// itself. At one position, the writer and readers make equal snapshots.
func TestSnapshotWithHashes(t *testing.T) {
	f, path := mustCreate(t, &Options{Capacity: 3000, FalsePositiveRate: 0.2, AutoGrow: true})
	keys := mustLean(t, f)
	must(t, f.SyncAt(99))
	at, copied := mustSnapshotWithHashes(t, f)
	if at != f.Position() || at.Number == 0 {
		t.Errorf("the copy is at %v, the filter at %v", at, f.Position())
	}
	must(t, f.Checkpoint(context.Background()))
	again, second := mustSnapshotWithHashes(t, mustOpenReadOnly(t, path, nil))
	for _, suffix := range []string{"", ".hashes"} {
		if again != at || !bytes.Equal(readFile(t, copied+suffix), readFile(t, second+suffix)) {
			t.Errorf("a second copy at %v differs in %q, or is at %v", at, suffix, again)
		}
	}
	must(t, f.Insert([]byte("of the filter")))
	if next, third := mustSnapshotWithHashes(t, f); next.Number != at.Number+1 || bytes.Equal(readFile(t, copied+".hashes"), readFile(t, third+".hashes")) {
		t.Errorf("after an insert, the copy is at %v, after %v", next, at)
	}
	r := mustOpen(t, copied, nil)
	left := keys - ((keys-1)/20 + 1)
	if s := r.Stats(); !s.KeepsHashes || !s.Grows || r.Position() != at || r.Len() != left || r.DurableSeq() != 99 {
		t.Errorf("%d keys, not %d, at %v with sequence %d: %+v", r.Len(), left, r.Position(), r.DurableSeq(), s)
	}
	const more = 3000
	mustInsert(t, r, keys, keys+more) // it grows
	must(t, r.Rebuild(context.Background(), nil))
	for i := range keys + more {
		if gone := i < keys && i%20 == 0; !gone && r.Count(numberKey(i)) == 0 {
			t.Fatalf("key %d is missing", i)
		}
	}
	if r.Len() != left+more || r.Stats().Capacity == f.Stats().Capacity {
		t.Errorf("%d keys, not %d, in a file for %d", r.Len(), left+more, r.Stats().Capacity)
	}
	if uuidOf(t, copied) == uuidOf(t, path) {
		t.Error("the copy has the UUID of the filter")
	}
}

// TestSnapshotOfAges: in a copy that keeps the hashes, items have the same ages as in the filter, and
// expire at the same times.
func TestSnapshotOfAges(t *testing.T) {
	clock := setFakeClock(t)
	f, _ := mustCreate(t, expiring(time.Hour))
	mustInsert(t, f, 0, 100)
	must(t, f.Sync())
	clock.add(30 * time.Minute)
	mustInsert(t, f, 100, 150)
	must(t, f.Sync())
	_, path := mustSnapshotWithHashes(t, f)
	clock.add(20 * time.Minute)
	r := mustOpen(t, path, &OpenOptions{CommitInterval: -1})
	mustExpireNow(t, r, 0)
	clock.add(15 * time.Minute)
	mustExpireNow(t, r, 100)
	mustHave(t, r, 100, 150)
	clock.add(30 * time.Minute)
	mustExpireNow(t, r, 50)
}

// TestSnapshotWithHashesReplaces: a snapshot replaces another filter and its hashes, whether or not
// either keeps hashes.
func TestSnapshotWithHashesReplaces(t *testing.T) {
	ctx := context.Background()
	f, _ := mustCreate(t, &Options{Capacity: 1000, KeepHashes: true})
	mustInsert(t, f, 0, 10)
	path := filepath.Join(t.TempDir(), "copy")
	for i, snapshot := range []func(context.Context, string) (Position, error){f.Snapshot, f.SnapshotWithHashes, f.SnapshotWithHashes, f.Snapshot} {
		must(t, f.Insert(numberKey(uint64(10+i))))
		_, err := snapshot(ctx, path)
		must(t, err)
		r := mustOpenReadOnly(t, path, nil)
		mustHave(t, r, 0, uint64(11+i))
		mustVerify(t, path, uint64(11+i))
		_, err = os.Stat(path + ".hashes")
		if keeps := i == 1 || i == 2; keeps != (err == nil) || r.Stats().KeepsHashes != keeps {
			t.Errorf("copy %d: %v, %+v", i, err, r.Stats())
		}
	}
}
