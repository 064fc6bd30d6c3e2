//go:build faults

package mmapfilter

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/mmapfilter/mmapfilter/recovery/fault"
)

// TestCallsOfApply covers K9 in the files of the system: if the process is killed at any writing call
// of an Apply, or one of the calls fails, the replica gets each change once.
func TestCallsOfApply(t *testing.T) {
	t.Cleanup(func() { fault.Hook = nil })
	ctx := context.Background()
	f, _ := mustCreate(t, &Options{Capacity: 2000, KeepHashes: true})
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
	_, at, template := mustSnapshot(t, f)
	operations(500, 700)
	set := mustChanges(t, f, at, Classes{})
	replica := func() (*Filter, string) {
		path := filepath.Join(t.TempDir(), "replica")
		must(t, os.WriteFile(path, readFile(t, template), 0o600))
		return mustOpen(t, path, &OpenOptions{CommitInterval: time.Hour}), path
	}
	// check lets a replica take the set, whatever part of it the replica has already.
	check := func(path, when string) {
		t.Helper()
		r, err := Open(path, nil)
		if err != nil {
			t.Fatalf("%s: %v", when, err)
		}
		defer r.Close()
		if _, err := os.Stat(path + ".apply"); err == nil {
			t.Errorf("%s: after Open, the set is still there", when)
		}
		if p := r.Position(); p != at && p != f.Position() {
			t.Fatalf("%s: at %v", when, p)
		}
		if _, err := r.Apply(ctx, bytes.NewReader(set)); err != nil {
			t.Fatalf("%s: %v", when, err)
		}
		mustBeAt(t, r, f, keys)
		if _, err := os.Stat(path + ".apply"); err == nil {
			t.Errorf("%s: the set is still there", when)
		}
	}
	var calls []string
	r, path := replica()
	var killed []string
	fault.Hook = func(call string) error {
		calls, killed = append(calls, call), append(killed, copyFilter(t, path))
		return nil
	}
	_, err := r.Apply(ctx, bytes.NewReader(set))
	fault.Hook = nil
	must(t, err)
	for i, path := range killed {
		check(path, fmt.Sprintf("killed at call %d, %s", i, calls[i]))
	}
	t.Logf("%d calls: %q", len(calls), calls)
	stop := errors.New("stop")
	for failing := range calls {
		r, path := replica()
		made := -1
		fault.Hook = func(string) error {
			if made++; made == failing {
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
		if err != nil && r.Err() == nil { // it can be tried again at once
			if _, err := r.Apply(ctx, bytes.NewReader(set)); err != nil {
				t.Errorf("%s: tried again: %v", when, err)
			}
			mustBeAt(t, r, f, keys)
		}
		r.Close()
		check(path, when)
	}
}
