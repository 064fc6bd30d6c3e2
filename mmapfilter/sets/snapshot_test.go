package sets

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
)

// TestSnapshot takes snapshots of a set with some shards open for writing: in another directory, in its
// own, and over an earlier snapshot.
func TestSnapshot(t *testing.T) {
	const keys, more = 3000, 3500
	ctx := context.Background()
	path := mustBuild(t, t.TempDir(), mustPlan(t, mmapfilter.Options{Capacity: 5000}, 3), numbers(0, keys))
	s := mustOpen(t, path, nil)
	must(t, s.OpenShards(1, 2))
	there := 0
	for _, k := range batch(keys, more) {
		if s.Insert(k) == nil {
			there++
		}
	}
	elsewhere := filepath.Join(t.TempDir(), "copy.set")
	for _, to := range []string{elsewhere, elsewhere, filepath.Join(filepath.Dir(path), "copy.set")} {
		must(t, s.Snapshot(ctx, to))
		copied := mustOpen(t, to, nil)
		must(t, copied.OpenAll())
		mustHave(t, copied, 0, keys)
		if n := count(t, copied, keys, more); n < there || copied.Len() != s.Len() || copied.Len() != uint64(keys+there) {
			t.Errorf("%d of %d later keys, %d items of %d", n, there, copied.Len(), s.Len())
		}
		for _, sh := range copied.state.Load().shards {
			if _, err := mmapfilter.Verify(ctx, sh.path); err != nil {
				t.Error(err)
			}
		}
	}
	if left, err := Superseded(filepath.Dir(elsewhere)); err != nil || len(left) != 3 {
		t.Errorf("superseded: %q, %v", left, err)
	}
	mustHave(t, s, 0, keys)
}

// TestSnapshotRefusals covers what a snapshot of a set may not replace, and what it leaves if it fails.
func TestSnapshotRefusals(t *testing.T) {
	ctx := context.Background()
	path := mustBuild(t, t.TempDir(), mustPlan(t, mmapfilter.Options{Capacity: 2000}, 3), numbers(0, 1000))
	s := mustOpen(t, path, nil)
	if err := s.Snapshot(ctx, path); !errors.Is(err, fs.ErrExist) {
		t.Errorf("over itself: %v", err)
	}
	dir := t.TempDir()
	letter := filepath.Join(dir, "letter.set")
	must(t, os.WriteFile(letter, []byte("dear set"), 0o666))
	if err := s.Snapshot(ctx, letter); !errors.As(err, new(*mmapfilter.ForeignError)) {
		t.Errorf("over a letter: %v", err)
	}
	must(t, os.Truncate(shards(t, path)[2], 20_000))
	if err := s.Snapshot(ctx, filepath.Join(dir, "copy.set")); !errors.As(err, new(*ShardError)) || !errors.Is(err, mmapfilter.ErrCorrupt) {
		t.Errorf("with a shard that was cut short: %v", err)
	}
	if names, err := os.ReadDir(dir); err != nil || len(names) != 1 {
		t.Errorf("left: %v, %v", names, err)
	}
	must(t, s.Close())
	if err := s.Snapshot(ctx, filepath.Join(dir, "copy.set")); !errors.Is(err, mmapfilter.ErrClosed) {
		t.Errorf("closed: %v", err)
	}
}
