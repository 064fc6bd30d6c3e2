package mmapfilter

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// Each version of TestFollowUnderLoad has commonKeys keys that are in all of them, and markKeys
// of its own.
const (
	commonKeys = 1000
	markKeys   = 20
)

// markOf returns key i of those that only version v has.
func markOf(v, i int) []byte {
	return binary.LittleEndian.AppendUint64(nil, uint64(1<<32+v*markKeys+i))
}

func versionImage(tb testing.TB, v int, opts *Options) []byte {
	return image(tb, opts, func(yield func([]byte, error) bool) {
		for key := range numbers(0, commonKeys) {
			if !yield(key, nil) {
				return
			}
		}
		for i := range markKeys {
			if !yield(markOf(v, i), nil) {
				return
			}
		}
	})
}

// mappingsIn counts the mappings of files in a directory, including files without a name. It
// returns 0 if the system does not say.
func mappingsIn(dir string) (n int) {
	maps, _ := os.ReadFile("/proc/self/maps")
	return strings.Count(string(maps), dir+"/")
}

// TestFollowUnderLoad covers C1 for replaced files. A file of another size, seed and fingerprint
// replaces the previous one 1,000 times. Meanwhile, followers of each residency answer "maybe"
// to the keys in all of them, and answer each batch from one file. Replaced files are released.
func TestFollowUnderLoad(t *testing.T) {
	swaps := 1000
	if testing.Short() {
		swaps = 100
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "f.mmf")
	var versions [][]byte
	for v, opts := range []*Options{nil, {Seed: 1}, {FalsePositiveRate: 1e-5, Capacity: 20_000}, {FalsePositiveRate: 1e-8}, {Seed: 2, Capacity: 5000}, {FalsePositiveRate: 0.05, Seed: 3}} {
		versions = append(versions, versionImage(t, v, opts))
	}
	publish(t, path, versions[0])
	before := leaks(t)
	var followers []*Follower
	mapped := 0
	for r := range len(residencyNames) {
		f := mustFollow(t, path, &OpenOptions{FollowInterval: -1, Residency: Residency(r), Checked: r%2 == 1})
		followers = append(followers, f)
		if Residency(r) != ResidencyHeap {
			mapped++
		}
	}

	// asked counts the rounds of each goroutine, one per follower.
	asked, stop := make([]atomic.Uint64, len(followers)), make(chan struct{})
	failures := make(chan error, len(followers))
	var group sync.WaitGroup
	for i, f := range followers {
		group.Add(1)
		go func() {
			defer group.Done()
			l := newLoad(f, len(versions))
			for {
				select {
				case <-stop:
					return
				default:
				}
				if err := l.ask(); err != nil {
					failures <- fmt.Errorf("%s: %w", Residency(i), err)
					return
				}
				asked[i].Add(1)
				runtime.Gosched() // for the other goroutines, if there are more than processors
			}
		}()
	}
	begun := make([]uint64, len(followers))
	for n := range swaps {
		publish(t, path, versions[(n+1)%len(versions)])
		for i, f := range followers {
			mustSwap(t, f, true)
			begun[i] = asked[i].Load()
		}
		for i := range followers { // until each has looked keys up since
			for asked[i].Load() == begun[i] && len(failures) == 0 {
				runtime.Gosched()
			}
		}
		if len(failures) > 0 {
			break
		}
	}
	close(stop)
	group.Wait()
	close(failures)
	for err := range failures {
		t.Error(err)
	}
	letGo := func(most int) { // cleanups run after the collection that finds them due
		for n := 0; n < 1000 && mappingsIn(dir) > most; n++ {
			runtime.GC()
		}
	}
	letGo(mapped)
	if m := mappingsIn(dir); m > mapped || m == 0 && runtime.GOOS == "linux" {
		t.Errorf("%d mappings for %d followers", m, mapped)
	}
	for _, f := range followers {
		if f.Stats().Swaps != uint64(swaps) || f.Filter().Len() != commonKeys+markKeys {
			t.Errorf("%d swaps, %d keys", f.Stats().Swaps, f.Filter().Len())
		}
		if err := errors.Join(f.Err(), f.Close()); err != nil {
			t.Error(err)
		}
	}
	letGo(0)
	if after, m := leaks(t), mappingsIn(dir); after != before || m > 0 {
		t.Errorf("before: %s; after: %s, %d mappings", before, after, m)
	}
}

// A followLoad looks keys up in a follower, again and again.
type followLoad struct {
	f        *Follower
	versions int
	keys     [][]byte // the marks of each version, then the common ones
	found    []bool
}

func newLoad(f *Follower, versions int) *followLoad {
	l := &followLoad{f: f, versions: versions}
	for v := range versions {
		for i := range markKeys {
			l.keys = append(l.keys, markOf(v, i))
		}
	}
	for key := range numbers(0, commonKeys) {
		l.keys = append(l.keys, append([]byte(nil), key...))
	}
	l.found = make([]bool, len(l.keys))
	return l
}

// ask says what is wrong with the answers: a common key that is not found, or a batch that does
// not have all marks of exactly one version.
func (l *followLoad) ask() error {
	l.f.ContainsBatch(l.keys, l.found)
	whole := 0
	for v := range l.versions {
		marks := 0
		for _, found := range l.found[v*markKeys : (v+1)*markKeys] {
			if found {
				marks++
			}
		}
		if marks == markKeys {
			whole++
		}
	}
	if whole != 1 {
		return fmt.Errorf("a batch has the keys of %d versions", whole)
	}
	for i := l.versions * markKeys; i < len(l.keys); i++ {
		if !l.found[i] {
			return fmt.Errorf("common key %d is lost in a batch", i)
		}
		if i%10 == 0 && (!l.f.Contains(l.keys[i]) || !l.f.ContainsString(string(l.keys[i]))) {
			return fmt.Errorf("common key %d is lost", i)
		}
	}
	return l.f.Err()
}
