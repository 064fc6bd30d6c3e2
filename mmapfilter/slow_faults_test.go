//go:build faults

package mmapfilter

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/rebuild"
	"github.com/mmapfilter/mmapfilter/recovery/fault"
)

// TestRebuildOnSlowDisk has every sync take long: a rebuild ends nonetheless.
func TestRebuildOnSlowDisk(t *testing.T) {
	f, _ := mustCreate(t, &Options{Capacity: 10_000, KeepHashes: true})
	defer f.Close()
	mustInsert(t, f, 0, 1000)
	rebuild.Patience = time.Second
	fault.Hook = func(call string) error {
		if strings.Contains(call, "sync") {
			time.Sleep(12 * time.Millisecond)
		}
		return nil
	}
	t.Cleanup(func() { rebuild.Patience, fault.Hook = 10*time.Second, nil })
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second) // thousands of tries would take longer
	defer cancel()
	if err := f.Rebuild(ctx, nil); err != nil {
		t.Fatal(err)
	}
	mustHave(t, f, 0, 1000)
}

// TestLookupsInHandover looks keys up at each call of rebuilds, in which the first rename fails,
// then the second, and so on, until the filter fails: all keys are found, and "maybe" is the answer
// to few others. After each of them, what is inserted is found.
func TestLookupsInHandover(t *testing.T) {
	f, _ := mustCreate(t, &Options{Capacity: 10_000, KeepHashes: true, CommitInterval: -1})
	defer f.Close()
	n := uint64(1000)
	mustInsert(t, f, 0, n)
	look := func(call string) {
		mustHave(t, f, 0, n)
		passed := 0
		for _, h := range hashes(9, 1000) {
			if f.ContainsHash(h) {
				passed++
			}
		}
		if passed > 50 {
			t.Errorf("%s: %d keys of 1000 pass", call, passed)
		}
	}
	t.Cleanup(func() { fault.Hook = nil })
	errFails := errors.New("it fails")
	for failing := 1; ; failing++ {
		var mu sync.Mutex
		renames := 0
		fault.Hook = func(call string) error {
			mu.Lock()
			defer mu.Unlock()
			look(call)
			if call == "rename" {
				if renames++; renames == failing {
					return errFails
				}
			}
			return nil
		}
		err := f.Rebuild(t.Context(), nil)
		fault.Hook = nil
		if !errors.Is(err, errFails) && err != nil {
			t.Fatal(err)
		}
		if f.Err() != nil { // the new file is there, but its log has not the right name
			if failing < 4 {
				t.Errorf("the filter fails at rename %d: %v", failing, f.Err())
			}
			return
		}
		mustInsert(t, f, n, n+100)
		n += 100
		look("afterwards")
	}
}
