//go:build faults && linux

package mmapfilter

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/recovery/fault"
)

// A copyOracle compares snapshots of a filter with the history of the filter.
type copyOracle struct {
	*testing.T
	dir    string
	copies map[uint64]counts // what the history means, by the number of a position
	seen   map[copyKey][32]byte
	exact  int // snapshots whose copies are known
	again  int // snapshots that have the copyKey of an earlier one
}

// A copyKey has everything on which the bytes of a copy may depend.
type copyKey struct {
	at       Position
	seq, ops uint64
	geometry layout.Geometry
}

// check makes a snapshot of a filter through another handle. The snapshot must be a sealed file that has
// the multiset that the history means at its position (K7), and the same bytes as any other snapshot
// with this copyKey.
func (o *copyOracle) check(when, path string) {
	o.Helper()
	f, err := OpenReadOnly(path, nil)
	must(o, err)
	defer f.Close()
	to := filepath.Join(o.dir, "copy.mmf")
	at, err := f.Snapshot(context.Background(), to)
	if err != nil {
		o.Errorf("%s: %v", when, err)
		return
	}
	report, err := Verify(context.Background(), to)
	must(o, err)
	copied, err := OpenReadOnly(to, nil)
	must(o, err)
	defer copied.Close()
	if left, _ := filepath.Glob(to + "?*"); copied.Position() != at || !report.Sealed || len(left) > 0 {
		o.Errorf("%s: a copy at %v, not %v, sealed: %t; files beside it: %q", when, copied.Position(), at, report.Sealed, left)
	}
	seq, ops := copied.durable()
	data, err := os.ReadFile(to)
	must(o, err)
	key, sum := copyKey{at, seq, ops, copied.open.Load().geometry}, sha256.Sum256(data)
	if other, there := o.seen[key]; there {
		if o.again++; other != sum {
			o.Errorf("%s: two copies at %v differ", when, at)
		}
	}
	o.seen[key] = sum
	copies, known := o.copies[at.Number]
	if !known {
		return
	}
	o.exact++
	if err := copies.in(copied); err != nil {
		o.Errorf("%s: a copy at %v: %v", when, at, err)
	}
}

// TestCopiesAtCalls: at each writing call of checkpoints, rebuilds and a close, another handle makes a
// snapshot. The test also makes snapshots of the files that a process leaves if it is killed at such a
// call. Each snapshot must have what the history means at its position, and the same bytes as any other
// there. The filter goes on.
func TestCopiesAtCalls(t *testing.T) {
	ctx := context.Background()
	r := newReplaceRun(t)
	o := &copyOracle{T: t, dir: memoryDir(t), copies: map[uint64]counts{}, seen: map[copyKey][32]byte{}}
	note := func() {
		o.copies[writerOf(r.f).Protocol().History().At.Number] = r.counts(slices.Collect(maps.Keys(r.in)))
	}
	note()
	closing := false
	r.watch(func(call string) error {
		if !closing && r.idle() {
			r.each()
			note()
		}
		o.check(fmt.Sprintf("beside call %d, %s", len(r.calls), call), r.path)
		r.kill(call)
		return nil
	})
	must(t, r.f.Checkpoint(ctx))
	must(t, r.f.Rebuild(ctx, nil))
	must(t, r.f.Checkpoint(ctx))
	must(t, r.f.Rebuild(ctx, &RebuildOptions{Capacity: 5000}))
	must(t, r.f.Sync())
	closing = true
	must(t, r.f.Close())
	fault.Hook = nil
	o.check("at the end", r.path)
	for i, k := range r.kills {
		f, err := Open(k.path, &OpenOptions{RequireHashes: true})
		must(t, err)
		must(t, f.Checkpoint(ctx))
		o.check(fmt.Sprintf("killed at call %d, %s", i+1, k.call), k.path)
		must(t, f.Close())
		o.check(fmt.Sprintf("killed at call %d, %s, and closed", i+1, k.call), k.path)
	}
	if o.exact < len(r.kills) || o.again < len(r.kills) {
		t.Errorf("of the copies at %d calls, the keys of only %d are known, and only %d are equal to others", len(r.kills), o.exact, o.again)
	}
	t.Logf("%d calls, %d copies whose keys are known, %d equal to others", len(r.kills), o.exact, o.again)
}
