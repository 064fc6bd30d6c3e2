package mmapfilter

import (
	"bytes"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// Each version of the file in TestFollowUnderLoad has commonKeys keys that are in all versions, and
// markKeys keys of its own.
const (
	commonKeys = 1000
	markKeys   = 20
)

// versionKeys yields the marks of a version, and the common keys.
func versionKeys(v int) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for key := range numbers(1<<32+uint64(v*markKeys), 1<<32+uint64((v+1)*markKeys)) {
			if !yield(key, nil) {
				return
			}
		}
		for key := range numbers(0, commonKeys) {
			if !yield(key, nil) {
				return
			}
		}
	}
}

// TestFollowUnderLoad covers C1 for replaced files. 400 times, a file with another size, seed and
// fingerprint length replaces the previous one. Meanwhile, followers with each residency must answer
// "maybe" for the common keys, and answer each batch from one file. They must release replaced files.
func TestFollowUnderLoad(t *testing.T) {
	swaps := 400
	if testing.Short() {
		swaps = 100
	}
	if runtime.GOOS == "windows" {
		swaps = 6 // opening a file is slow in Wine
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "f.mmf")
	var versions [][]byte
	for v, opts := range []*Options{nil, {Seed: 1}, {FalsePositiveRate: 1e-5, Capacity: 20_000}, {FalsePositiveRate: 1e-8}, {Seed: 2, Capacity: 5000}, {FalsePositiveRate: 0.05, Seed: 3}} {
		versions = append(versions, image(t, opts, versionKeys(v)))
	}
	publish(t, path, versions[0])
	mustLeakNothing := leaks(t)
	var followers []*Follower
	mapped := 0
	for r := range len(residencyNames) {
		followers = append(followers, mustFollow(t, path, &OpenOptions{FollowInterval: -1, Residency: Residency(r), Checked: r%2 == 1}))
		if Residency(r) != ResidencyHeap {
			mapped++
		}
	}
	asked := make([]atomic.Uint64, len(followers)) // rounds of each goroutine, one per follower
	var stop, failed atomic.Bool
	var group sync.WaitGroup
	for i, f := range followers {
		group.Add(1)
		go func() {
			defer group.Done()
			for l := newLoad(f, len(versions)); !stop.Load(); asked[i].Add(1) {
				if err := l.ask(); err != nil {
					failed.Store(true)
					t.Errorf("%s: %v", Residency(i), err)
					return
				}
				runtime.Gosched() // there may be more goroutines than processors
			}
		}()
	}
	begun := make([]uint64, len(followers))
	for n := 0; n < swaps && !failed.Load(); n++ {
		publish(t, path, versions[(n+1)%len(versions)])
		for i, f := range followers {
			mustSwap(t, f, true)
			begun[i] = asked[i].Load()
		}
		for i := range followers { // wait until each has looked keys up in the new file
			for asked[i].Load() == begun[i] && !failed.Load() {
				runtime.Gosched()
			}
		}
	}
	stop.Store(true)
	group.Wait()
	// mappings counts the mapped files of the directory, including files without a name, if the system
	// lists them. It waits until at most so many are left: a file is unmapped only after a collection.
	mappings := func(most int) (n int) {
		for range 1000 {
			maps, _ := os.ReadFile("/proc/self/maps")
			if n = strings.Count(string(maps), dir+"/"); n <= most {
				break
			}
			runtime.GC()
		}
		return n
	}
	if n := mappings(mapped); n > mapped || n == 0 && runtime.GOOS == "linux" {
		t.Errorf("%d files are mapped by %d followers", n, mapped)
	}
	for _, f := range followers {
		must(t, f.Close())
	}
	if n := mappings(0); n > 0 {
		t.Errorf("%d files are still mapped", n)
	}
	mustLeakNothing()
}

// A followLoad looks keys up in a follower, again and again.
type followLoad struct {
	f     *Follower
	marks int      // number of marks of all versions
	keys  [][]byte // the marks of each version, then the common ones
	found []bool
}

func newLoad(f *Follower, versions int) *followLoad {
	l := &followLoad{f: f, marks: versions * markKeys}
	for key := range numbers(1<<32, 1<<32+uint64(l.marks)) {
		l.keys = append(l.keys, bytes.Clone(key))
	}
	for key := range numbers(0, commonKeys) {
		l.keys = append(l.keys, bytes.Clone(key))
	}
	l.found = make([]bool, len(l.keys))
	return l
}

// ask looks all keys up, and returns an error if a common key is not found, or if a batch does not find
// all marks of exactly one version.
func (l *followLoad) ask() error {
	l.f.ContainsBatch(l.keys, l.found)
	whole := 0
	for marks := range slices.Chunk(l.found[:l.marks], markKeys) {
		if !slices.Contains(marks, false) {
			whole++
		}
	}
	if whole != 1 {
		return fmt.Errorf("a batch finds the marks of %d versions", whole)
	}
	for i := l.marks; i < len(l.keys); i++ {
		if !l.found[i] || i%10 == 0 && (!l.f.Contains(l.keys[i]) || !l.f.ContainsString(string(l.keys[i]))) {
			return fmt.Errorf("common key %d is lost; in the batch: %t", i, l.found[i])
		}
	}
	return l.f.Err()
}
