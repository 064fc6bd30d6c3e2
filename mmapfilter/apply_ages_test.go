package mmapfilter

import (
	"bytes"
	"testing"
	"time"
)

// TestAgesInKeptReplica covers C10 in a replica that has departed, which means that it has had
// operations of its own. If the filter deleted a key and inserted it again between two positions, the
// key is in no set of changes. It must still not expire early in the replica.
func TestAgesInKeptReplica(t *testing.T) {
	needsReplacing(t)
	ctx := t.Context()
	const keys = 100
	clock := setFakeClock(t)
	for name, next := range map[string]func(r *Filter, path string) *Filter{
		"at once": func(r *Filter, _ string) *Filter { return r },
		"opened again": func(r *Filter, path string) *Filter {
			must(t, r.Close())
			return mustOpen(t, path, nil)
		},
		"killed": func(r *Filter, path string) *Filter {
			must(t, r.Sync())
			return mustOpen(t, abandon(t, r, path), nil)
		},
		"rebuilt": func(r *Filter, _ string) *Filter {
			must(t, r.Rebuild(ctx, nil))
			return r
		},
		"opened and rebuilt": func(r *Filter, path string) *Filter {
			must(t, r.Close())
			r = mustOpen(t, path, nil)
			must(t, r.Rebuild(ctx, nil))
			must(t, r.Close())
			return mustOpen(t, path, nil)
		},
		"merged": func(r *Filter, path string) *Filter {
			must(t, r.Close())
			must(t, Merge(ctx, path, nil, path))
			return mustOpen(t, path, nil)
		},
		"copied": func(r *Filter, _ string) *Filter {
			_, path := mustSnapshotWithHashes(t, r)
			return mustOpen(t, path, nil)
		},
	} {
		for _, departs := range []bool{true, false} {
			f, _ := mustCreate(t, expiring(time.Hour))
			mustInsert(t, f, 0, keys)
			must(t, f.Sync())
			at, path := mustSnapshotWithHashes(t, f)
			r := mustOpen(t, path, &OpenOptions{CommitInterval: time.Hour})
			clock.add(50 * time.Minute)
			mustInsert(t, f, 0, keys)
			clock.add(15 * time.Minute)
			mustExpireNow(t, f, keys)
			must(t, f.Sync())
			_, err := r.Apply(ctx, bytes.NewReader(mustChanges(t, f, at, r.Classes())))
			must(t, err)
			if departs {
				must(t, r.SyncAt(1))
			}
			r = next(r, path)
			mustExpireNow(t, r, 0)
			mustHave(t, r, 0, keys)
			clock.add(30 * time.Minute)
			mustExpireNow(t, r, 0)
			mustHave(t, r, 0, keys)
			clock.add(33 * time.Minute)
			if mustExpireNow(t, r, keys); t.Failed() {
				t.Fatalf("%s, departed %t", name, departs)
			}
		}
	}
}
