//go:build faults

package mmapfilter

import (
	"errors"
	"sync"
	"testing"

	"github.com/mmapfilter/mmapfilter/recovery/fault"
)

// TestLookupsInReplace looks keys up at each call of rebuilds, one by one and in batches, in which the
// first rename fails, then the second, and so on, until the filter fails: all keys are found, and
// "maybe" is the answer to few others. After each of them, what is inserted is found.
func TestLookupsInReplace(t *testing.T) {
	f, _ := mustCreate(t, &Options{Capacity: 10_000, KeepHashes: true, CommitInterval: -1})
	defer f.Close()
	n := uint64(1000)
	mustInsert(t, f, 0, n)
	look := func(call string) {
		mustHave(t, f, 0, n)
		passed, inBatch := 0, 0
		others, found := hashes(9, 1000), make([]bool, 1000)
		f.ContainsHashes(others, found)
		for i, h := range others {
			if f.ContainsHash(h) {
				passed++
			}
			if found[i] {
				inBatch++
			}
		}
		if passed > 50 || inBatch > 50 {
			t.Errorf("%s: %d keys of 1000 pass, and %d in a batch", call, passed, inBatch)
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
