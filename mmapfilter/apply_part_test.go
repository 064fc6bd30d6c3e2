package mmapfilter

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
)

// mustApplyInPart returns a replica that keeps its hashes and has only some changes of a set.
func mustApplyInPart(t *testing.T) *keptReplica {
	r := newKeptReplica(t, 3, &Options{Capacity: 5000, KeepHashes: true})
	r.operate(500, 1)
	set := mustChanges(t, r.f, r.at, r.Classes())
	w := writerOf(r.Filter)
	for n := int64(0); !w.Protocol().History().Applying() || w.Protocol().Operations() < 20; n += 10 {
		if w.Protocol().History().Applying() {
			n = 20
		}
		if err := w.Apply(endingAfter(t, n), bytes.NewReader(set)); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
	must(t, r.Sync())
	return r
}

// TestPartOfASet covers K9: Merge and Repair would turn a replica into an ordinary filter. They refuse a
// replica that has only some changes of a set, even if only the log says so. The replica stays as it is.
func TestPartOfASet(t *testing.T) {
	ctx := context.Background()
	for name, rest := range map[string]func(r *keptReplica) string{
		"killed": func(r *keptReplica) string { return abandon(t, r.Filter, r.path) },
		"killed after a checkpoint": func(r *keptReplica) string {
			must(t, r.Checkpoint(ctx))
			return abandon(t, r.Filter, r.path)
		},
		"clean": func(r *keptReplica) string {
			must(t, writerOf(r.Filter).Clean())
			return copyFilter(t, r.path)
		},
	} {
		r := mustApplyInPart(t)
		path := rest(r)
		broken := copyFilter(t, path)
		must(t, os.Truncate(broken, layout.OffRegion+64))
		if repaired, err := Repair(ctx, broken, nil); repaired || !errors.Is(err, ErrApplying) {
			t.Errorf("%s: repaired %t: %v", name, repaired, err)
		}
		for _, to := range []string{path, filepath.Join(t.TempDir(), "merged")} {
			if err := Merge(ctx, to, nil, path); !errors.Is(err, ErrApplying) {
				t.Errorf("%s: Merge: %v", name, err)
			}
		}
		r.check(mustOpen(t, path, nil))
	}
}
