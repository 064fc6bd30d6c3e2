package mmapfilter

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
)

// keyList returns the keys of the numbers [from, to).
func keyList(from, to uint64) (all [][]byte) {
	for key := range numbers(from, to) {
		all = append(all, slices.Clone(key))
	}
	return all
}

// TestInsertUniqueBatch: a batch returns the same answers as single calls, also for keys that are in the
// batch twice. Even if the filter grows, and several goroutines pass the same keys, each is added once.
func TestInsertUniqueBatch(t *testing.T) {
	for name, batch := range map[string]func(f *Filter, keys [][]byte, added []bool) (int, error){
		"keys": (*Filter).InsertUniqueBatch,
		"hashes": func(f *Filter, keys [][]byte, added []bool) (int, error) {
			var hashes []uint64
			for _, key := range keys {
				hashes = append(hashes, f.Hash(key))
			}
			return f.InsertUniqueHashBatch(hashes, added)
		},
	} {
		one, _ := mustCreate(t, &Options{Capacity: 1000, Seed: 7, FalsePositiveRate: 0.05})
		all, _ := mustCreate(t, &Options{Capacity: 1000, Seed: 7, FalsePositiveRate: 0.05})
		offered := slices.Concat(keyList(0, 500), keyList(200, 700), keyList(0, 1000))
		added := make([]bool, len(offered)+1)
		if n, err := batch(all, offered, added); n != len(offered) || err != nil {
			t.Fatalf("%s: %d done, %v", name, n, err)
		}
		for i, key := range offered {
			if want, err := one.InsertUnique(key); added[i] != want || err != nil {
				t.Fatalf("%s: key %d is added: %t, alone %t, %v", name, i, added[i], want, err)
			}
		}
		if one.Len() != all.Len() {
			t.Errorf("%s: %d items, and %d with single calls", name, all.Len(), one.Len())
		}

		const keys = 10_000
		f, _ := createGrowing(t, 100, layout.Auto)
		var total atomic.Int64
		var group crew
		for i := range uint64(4) {
			group.Go(func() {
				offered := slices.Concat(keyList(1000*i, keys), keyList(0, 1000*i))
				added := make([]bool, len(offered))
				if n, err := batch(f, offered, added); n != len(offered) || err != nil {
					t.Errorf("%s: %d done, %v", name, n, err)
				}
				for _, new := range added {
					if new {
						total.Add(1)
					}
				}
			})
		}
		group.Wait()
		mustHave(t, f, 0, keys)
		if n := total.Load(); n > keys || n < keys*9/10 {
			t.Errorf("%s: %d of %d keys were added", name, n, keys)
		}
		if err := f.Rebuild(t.Context(), nil); err != nil || f.Len() != keys {
			t.Errorf("%s: %d items after a rebuild, %v", name, f.Len(), err)
		}
	}

	f, _ := mustCreate(t, &Options{Capacity: 50})
	offered := keyList(0, 10_000)
	added := make([]bool, len(offered))
	n, err := f.InsertUniqueBatch(offered, added)
	if !errors.Is(err, ErrFull) || n < 50 || slices.Contains(added[n:], true) {
		t.Errorf("a full filter: %d done, %v", n, err)
	}
	shard, _ := mustCreate(t, &Options{Capacity: 100, shard: layout.Shard{Number: 1, Count: 4}})
	if n, err := shard.InsertUniqueBatch(offered, added); !errors.Is(err, ErrOtherShard) || n > 100 {
		t.Errorf("a shard: %d done, %v", n, err)
	}
}

// TestOpenOrCreate: if several callers use one path at once, one of them creates the filter with its
// hashes, and others open it. The first to open it need not be the one that created it.
func TestOpenOrCreate(t *testing.T) {
	dir := memoryDir(t)
	const paths = 20
	for i := range paths {
		path := filepath.Join(dir, fmt.Sprint(i))
		o := &Options{Capacity: 100, KeepHashes: true}
		var made, empty atomic.Int64
		var group crew
		for id := range 6 {
			group.Go(func() {
				var f *Filter
				var err error
				if id%2 == 0 {
					if f, err = Create(path, o); !errors.Is(err, fs.ErrExist) {
						made.Add(1)
					}
				} else {
					f, err = OpenOrCreate(path, o, nil)
				}
				if err == nil && f.Len() == 0 {
					empty.Add(1)
				}
				if id%2 == 0 && errors.Is(err, fs.ErrExist) || errors.Is(err, ErrLocked) {
					return // another caller has created the filter, or has it open
				}
				if err == nil {
					err = errors.Join(f.Insert([]byte("a")), f.Close())
				}
				if err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
		f, err := OpenOrCreate(path, &Options{Capacity: 77}, &OpenOptions{RequireHashes: true})
		must(t, err)
		if f.Cap() != 100 || f.Len() == 0 || made.Load() > 1 || empty.Load() != 1 {
			t.Errorf("made %d times, found empty %d times; a capacity of %d, %d items", made.Load(), empty.Load(), f.Cap(), f.Len())
		}
		f.Close()
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) != 2*paths {
		t.Errorf("there are %d files, not two for each filter", len(left))
	}
	if _, err := OpenOrCreate(filepath.Join(dir, "other"), nil, nil); !errors.As(err, new(*OptionError)) {
		t.Errorf("without a capacity: %v", err)
	}
	if _, err := OpenOrCreate(filepath.Join(dir, "0"), &Options{Capacity: 9}, &OpenOptions{LogBytes: 1}); !errors.As(err, new(*OptionError)) {
		t.Errorf("a log of a byte: %v", err)
	}
}
