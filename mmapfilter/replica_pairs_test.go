package mmapfilter

import (
	"bytes"
	"context"
	"errors"
	"io"
	"iter"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/mmapfilter/mmapfilter/layout"
)

// A replicaRun has a replica, which is used in some way between two sets of changes.
type replicaRun struct {
	*testing.T
	f    *Filter
	path string
}

func (r *replicaRun) reopen(o *OpenOptions) error {
	r.f.Close()
	f, err := Open(r.path, o)
	if err == nil {
		r.f = f
	}
	return err
}

// replicaUses says for each feature (pairs.md) how to use it with a replica, and which error this must
// return.
var replicaUses = map[string]struct {
	do      func(r *replicaRun) error
	want    error
	departs bool // the replica then is a filter of its own
}{
	"KeepHashes":   {func(r *replicaRun) error { return r.reopen(&OpenOptions{RequireHashes: true}) }, ErrNoHashes, false},
	"ExpireBefore": {func(r *replicaRun) error { _, err := r.f.ExpireBefore(r.Context(), time.Unix(1, 0)); return err }, ErrNoHashes, false},
	"ExpireAfter":  {func(r *replicaRun) error { return r.reopen(&OpenOptions{ExpireAfter: time.Hour}) }, ErrNoHashes, false},
	"Merge": {func(r *replicaRun) error {
		return errors.Join(r.f.Close(), Merge(r.Context(), r.path, nil, r.path))
	}, ErrNoHashes, false},
	"Rebuild": {func(r *replicaRun) error { return r.f.Rebuild(r.Context(), nil) }, ErrNoHashes, false},
	"Keys": {func(r *replicaRun) error {
		keys := func() (iter.Seq2[[]byte, error], error) { return numbers(0, 100), nil }
		return r.f.Rebuild(r.Context(), &RebuildOptions{Keys: keys})
	}, nil, true},
	"Repair": {func(r *replicaRun) error {
		err := errors.Join(r.f.Close(), flipByte(r.path, layout.OffRegion+9))
		_, repaired := Repair(r.Context(), r.path, nil)
		return errors.Join(err, flipByte(r.path, layout.OffRegion+9), repaired)
	}, ErrNoHashes, false},
	"DiscardLog": {func(r *replicaRun) error {
		left := abandon(r.T, r.f, r.path)
		err := errors.Join(r.f.Close(), os.Remove(left+".stash"))
		r.path = left
		_, discarded := DiscardLog(left)
		return errors.Join(err, discarded)
	}, nil, true},
	"Sync":          {func(r *replicaRun) error { return errors.Join(r.f.Sync(), r.f.Checkpoint(r.Context())) }, nil, false},
	"ResidencyHeap": {func(r *replicaRun) error { return r.look(&OpenOptions{Residency: ResidencyHeap}) }, nil, false},
	"Checked": {func(r *replicaRun) error {
		return errors.Join(r.look(&OpenOptions{Checked: true}), r.reopen(&OpenOptions{Checked: true}))
	}, nil, false},
	"Follow": {func(r *replicaRun) error { return r.look(nil) }, nil, false},
	"names": {func(r *replicaRun) error {
		to, link := filepath.Join(r.TempDir(), "other"), filepath.Join(r.TempDir(), "link")
		err := errors.Join(r.f.Close(), os.Rename(r.path, to), os.Symlink(to, link))
		r.path = link
		return err
	}, nil, false},
	"short runs": {func(r *replicaRun) error { return errors.Join(r.reopen(nil), r.reopen(nil)) }, nil, false},
	"kill": {func(r *replicaRun) error {
		left := abandon(r.T, r.f, r.path)
		err := r.f.Close()
		r.path = left
		return err
	}, nil, false},
	"Changes": {func(r *replicaRun) error {
		_, err := r.f.Changes(r.Context(), io.Discard, r.f.ownPosition())
		return err
	}, ErrNoHashes, false},
	"Insert":       {func(r *replicaRun) error { return r.f.Insert(first(1000)) }, nil, true},
	"InsertUnique": {func(r *replicaRun) error { _, err := r.f.InsertUnique(first(1000)); return err }, nil, true},
	"InsertBatch":  {func(r *replicaRun) error { _, err := r.f.InsertBatch([][]byte{first(1000)}); return err }, nil, true},
	"InsertUniqueBatch": {func(r *replicaRun) error {
		_, err := r.f.InsertUniqueBatch([][]byte{first(1000)}, make([]bool, 1))
		return err
	}, nil, true},
	"Delete": {func(r *replicaRun) error { _, err := r.f.Delete(first(1000)); return err }, nil, true},
	"SyncAt": {func(r *replicaRun) error { return r.f.SyncAt(5) }, nil, true},
}

// look closes the replica, looks keys up by a follower, and opens the replica again.
func (r *replicaRun) look(o *OpenOptions) error {
	if err := r.f.Close(); err != nil {
		return err
	}
	f, err := Follow(r.path, o)
	if err != nil {
		return err
	}
	defer f.Close()
	mustHave(r.T, f, 0, 100)
	return r.reopen(nil)
}

// TestReplicaPairs uses each feature with a replica between two sets of changes (K9). The replica takes
// the second set, unless it has become a filter of its own. A refused call changes nothing.
func TestReplicaPairs(t *testing.T) {
	t.Run("without hashes", func(t *testing.T) { replicaPairs(t, false) })
	t.Run("with hashes", func(t *testing.T) { replicaPairs(t, true) })
}

// departsWithHashes has the uses that only a replica with hashes allows, and after which it follows no
// history. A replica with hashes also allows all other uses that fail in replicaUses, and then still
// follows.
var departsWithHashes = map[string]bool{"ExpireBefore": true, "Merge": true, "Repair": true}

func replicaPairs(t *testing.T, kept bool) {
	needsReplacing(t)
	f, _ := mustCreate(t, &Options{Capacity: 1000, KeepHashes: true})
	mustInsert(t, f, 0, 50)
	must(t, f.Sync())
	template := filepath.Join(t.TempDir(), "copy")
	snapshot := f.Snapshot
	if kept {
		snapshot = f.SnapshotWithHashes
	}
	at, err := snapshot(t.Context(), template)
	must(t, err)
	mustInsert(t, f, 50, 100)
	first := mustChanges(t, f, at, Classes{})
	at = f.Position()
	mustInsert(t, f, 100, 150)
	second := mustChanges(t, f, at, Classes{})
	for name, use := range replicaUses {
		t.Run(name, func(t *testing.T) {
			r := &replicaRun{T: t, path: filepath.Join(t.TempDir(), "replica")}
			must(t, copyOver(r.path, template))
			if kept {
				must(t, copyOver(r.path+".hashes", template+".hashes"))
				use.want, use.departs = nil, use.departs || departsWithHashes[name]
			}
			r.f = mustOpen(t, r.path, nil)
			_, err := r.f.Apply(t.Context(), bytes.NewReader(first))
			must(t, errors.Join(err, r.f.Checkpoint(t.Context())))
			if err := use.do(r); !errors.Is(err, use.want) {
				t.Fatalf("%v, not %v", err, use.want)
			}
			r.f.Close()
			r.f = mustOpen(t, r.path, nil)
			mustHave(t, r.f, 0, 100)
			to, err := r.f.Apply(context.Background(), bytes.NewReader(second))
			if use.departs {
				if p := r.f.Position(); !errors.Is(err, ErrNotReplica) || p.Descent == f.Position().Descent || p.IsZero() == kept {
					t.Errorf("the filter is at %v; Apply: %v", r.f.Position(), err)
				}
				return
			}
			if err != nil || to != f.Position() || r.f.Len() != f.Len() {
				t.Errorf("%d keys at %v, not %d at %v: %v", r.f.Len(), to, f.Len(), f.Position(), err)
			}
			mustHave(t, r.f, 0, 150)
		})
	}
}
