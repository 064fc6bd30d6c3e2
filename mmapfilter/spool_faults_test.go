//go:build faults

package mmapfilter

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/build"
	"github.com/mmapfilter/mmapfilter/recovery/fault"
)

// A spoolRun is a Build in which a write to a temporary file may fail.
type spoolRun struct {
	opts Options
	keys uint64
}

// run makes the n-th write fail, or none if n is 0. It returns the stage of each write, and the error of
// Build.
func (r spoolRun) run(t *testing.T, path string, n int) (stages []string, err error) {
	var mu sync.Mutex
	stage := ""
	o := r.opts.withDefaults()
	o.Workers = max(r.opts.Workers, 1)
	o.MemoryBudget = int64(o.Workers) << 16 // less than Build accepts, so that few keys fill it
	o.Progress = func(name string, _, _ uint64) {
		mu.Lock()
		defer mu.Unlock()
		stage = name
	}
	fault.Hook = func(call string) error {
		mu.Lock()
		defer mu.Unlock()
		if call != "write" {
			return nil
		}
		if stages = append(stages, stage); len(stages) == n {
			return syscall.ENOSPC
		}
		return nil
	}
	defer func() { fault.Hook = nil }()
	_, err = build.FromKeys(context.Background(), path, o.building(), numbers(0, r.keys))
	return stages, err
}

// check makes the n-th write fail, and reports whether there was an n-th write. If not, it checks the
// filter.
func (r spoolRun) check(t *testing.T, path string, n int) bool {
	t.Helper()
	stages, err := r.run(t, path, n)
	if len(stages) < n {
		must(t, err)
		f := mustOpenReadOnly(t, path, nil)
		if found, _ := countFound(f, numbers(0, r.keys)); uint64(found) != r.keys || f.Len() != r.keys {
			t.Errorf("%d of %d keys are found, Len %d", found, r.keys, f.Len())
		}
		must(t, os.Remove(path))
		return false
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("%d keys, %d workers, write %d (in %q) fails: %v", r.keys, r.opts.Workers, n, stages[n-1], err)
	}
	if list, _ := filepath.Glob(path + "*"); len(list) != 0 {
		t.Fatalf("%d keys, write %d fails: left %v", r.keys, n, list)
	}
	return true
}

// TestFailEverySpoolWrite makes the writes to the temporary files of Build fail, one at a time,
// including the last write of each flush. Build must return the error of the write, and leave nothing
// behind.
//
//	go test -tags faults ./mmapfilter -run FailEverySpoolWrite -v
func TestFailEverySpoolWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	t.Run("every size", func(t *testing.T) {
		// From no write to several blocks, with various numbers of hashes in the last block.
		var writes []int
		for keys := uint64(2000); keys < 6000; keys += 83 {
			for _, opts := range []Options{{}, {Capacity: keys}, {Distinct: true}, {Workers: 2}} {
				r, n := spoolRun{opts, keys}, 1
				for r.check(t, path, n) {
					n++
				}
				writes = append(writes, n-1)
			}
		}
		if slices.Min(writes) != 0 || slices.Max(writes) < 4 {
			t.Errorf("writes: %v", writes)
		}
	})
	for _, s := range append(oneEach(), compact26) {
		t.Run(s.String(), func(t *testing.T) {
			r := spoolRun{s.options(Options{}), 60_000}
			stages, err := r.run(t, path, 0)
			must(t, errors.Join(err, os.Remove(path)))
			tried := map[string]int{}
			for i, stage := range stages {
				if tried[stage]++; i%8 != 0 && stage == "hash" && slices.Contains(stages[i+1:], "hash") {
					continue // in stage hash, try one write in 8, and the last one
				}
				if !r.check(t, path, i+1) {
					t.Errorf("no write %d", i+1)
				}
			}
			t.Logf("writes: %v", tried)
			if tried["hash"] == 0 || tried["fill"] == 0 && s.Kind != layout.Compact { // which leaves few items to place
				t.Errorf("writes: %v", tried)
			}
		})
	}
}

// TestBuildStopsReading: after a failed write, Build soon stops reading keys. It does not read a long
// stream to its end for nothing.
func TestBuildStopsReading(t *testing.T) {
	const most = 10_000_000
	for _, workers := range []int{1, 3} {
		fault.Hook = func(call string) error {
			if call == "write" {
				return syscall.ENOSPC
			}
			return nil
		}
		o := (&Options{Workers: workers, MemoryBudget: int64(workers) << 16}).withDefaults()
		read := 0
		_, err := build.FromKeys(context.Background(), filepath.Join(t.TempDir(), "f"), o.building(), func(yield func([]byte, error) bool) {
			for key, err := range numbers(0, most) {
				if read++; !yield(key, err) {
					return
				}
			}
		})
		fault.Hook = nil
		if !errors.Is(err, syscall.ENOSPC) || read == most {
			t.Errorf("%d workers: %d keys were read, %v", workers, read, err)
		}
	}
}
