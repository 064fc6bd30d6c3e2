//go:build faults

package mmapfilter

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mmapfilter/mmapfilter/recovery/fault"
)

// TestCallsOfApply covers K9 with real files: if the process is killed at a writing call of an Apply, or
// such a call fails, the replica gets each change once. A replica that keeps its hashes grows during the
// Apply, so the calls of a rebuild are among the calls. Its own history has each change once, too.
func TestCallsOfApply(t *testing.T) {
	t.Run("without hashes", func(t *testing.T) { callsOfApply(t, false) })
	t.Run("with hashes", func(t *testing.T) { callsOfApply(t, true) })
}

func callsOfApply(t *testing.T, kept bool) {
	t.Cleanup(func() { fault.Hook = nil })
	ctx := context.Background()
	o := &Options{Capacity: 2000, KeepHashes: true}
	if kept {
		o.Capacity, o.AutoGrow, o.KeepChanges = 600, true, time.Hour
	}
	f, _ := mustCreate(t, o)
	keys := map[uint64]uint64{}
	operations := func(from, to uint64) {
		for key := from; key < to; key++ {
			must(t, f.Insert(numberKey(key)))
			keys[key]++
			if key%3 == 0 && key > 50 {
				_, err := f.Delete(numberKey(key - 50))
				must(t, err)
				keys[key-50]--
			}
		}
		must(t, f.Sync())
	}
	operations(0, 500)
	template := filepath.Join(t.TempDir(), "copy")
	snapshot, last := f.Snapshot, uint64(700)
	if kept {
		snapshot, last = f.SnapshotWithHashes, 1500
	}
	at, err := snapshot(ctx, template)
	must(t, err)
	operations(500, last)
	set := mustChanges(t, f, at, Classes{})
	replica := func() (*Filter, string) {
		path := filepath.Join(t.TempDir(), "replica")
		must(t, os.WriteFile(path, readFile(t, template), 0o600))
		if kept {
			must(t, copyOver(path+".hashes", template+".hashes"))
		}
		return mustOpen(t, path, &OpenOptions{CommitInterval: time.Hour}), path
	}
	// check applies the set to a replica, which may have any part of it already.
	check := func(path, when string) {
		t.Helper()
		r, err := Open(path, nil)
		if err != nil {
			t.Fatalf("%s: %v", when, err)
		}
		defer r.Close()
		if _, err := os.Stat(path + ".apply"); err == nil {
			t.Errorf("%s: after Open, NAME.apply still exists", when)
		}
		if p := r.Position(); p != at && p != f.Position() {
			t.Fatalf("%s: at %v", when, p)
		}
		if _, err := r.Apply(ctx, bytes.NewReader(set)); err != nil {
			t.Fatalf("%s: %v", when, err)
		}
		mustBeAt(t, r, f, keys)
		if _, err := os.Stat(path + ".apply"); err == nil {
			t.Errorf("%s: NAME.apply still exists", when)
		}
		if !kept {
			return
		}
		if err := r.Rebuild(ctx, nil); err != nil {
			t.Errorf("%s: rebuild: %v", when, err)
		}
		mustBeAt(t, r, f, keys)
	}
	var mu sync.Mutex
	var calls []string
	r, path := replica()
	killed := map[int]string{}
	fault.Hook = func(call string) error {
		mu.Lock() // the last calls may be from a rebuild in the background
		defer mu.Unlock()
		// Try only some of the many writes of hashes and of the set.
		if n := len(calls); !kept || call != "write" || n%64 == 0 {
			killed[n] = copyFilter(t, path)
		}
		calls = append(calls, call)
		return nil
	}
	_, err = r.Apply(ctx, bytes.NewReader(set))
	must(t, errors.Join(err, r.Close()))
	fault.Hook = nil
	if grown := r.Cap() > o.Capacity; grown != kept {
		t.Errorf("the replica has grown: %t", grown)
	}
	for i, path := range killed {
		check(path, fmt.Sprintf("killed at call %d, %s", i, calls[i]))
	}
	t.Logf("%d calls, %d kills: %q", len(calls), len(killed), calls)
	stop := errors.New("stop")
	for failing := range killed {
		r, path := replica()
		var made atomic.Int64
		fault.Hook = func(string) error {
			if made.Add(1) == int64(failing)+1 {
				return stop
			}
			return nil
		}
		_, err := r.Apply(ctx, bytes.NewReader(set))
		fault.Hook = nil
		when := fmt.Sprintf("call %d, %s, fails", failing, calls[failing])
		if err != nil && !errors.Is(err, stop) {
			t.Errorf("%s: %v", when, err)
		}
		if err != nil && r.Err() == nil && kept { // after a failure, the filter does not grow at once
			must(t, r.Rebuild(ctx, &RebuildOptions{Capacity: 4000}))
		}
		if err != nil && r.Err() == nil { // Apply can be tried again at once
			if _, err := r.Apply(ctx, bytes.NewReader(set)); err != nil {
				t.Errorf("%s: tried again: %v", when, err)
			}
			mustBeAt(t, r, f, keys)
		}
		r.Close()
		check(path, when)
	}
}
