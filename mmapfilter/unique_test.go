package mmapfilter

import (
	"errors"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
)

// TestInsertUniqueBatch: the answers of a batch are those of single calls, also for keys that are in it
// twice, across growths, and beside others that have the same keys: each key is added once.
func TestInsertUniqueBatch(t *testing.T) {
	keys := func(from, to uint64) (all [][]byte) {
		for key := range numbers(from, to) {
			all = append(all, slices.Clone(key))
		}
		return all
	}
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
		offered := slices.Concat(keys(0, 500), keys(200, 700), keys(0, 1000))
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
			t.Errorf("%s: %d items, and %d", name, all.Len(), one.Len())
		}

		f, path := mustCreate(t, &Options{Capacity: 100, AutoGrow: true, FalsePositiveRate: 0.001})
		var total atomic.Int64
		var group sync.WaitGroup
		for i := range uint64(4) {
			group.Add(1)
			go func() {
				defer group.Done()
				offered := slices.Concat(keys(1000*i, 20_000), keys(0, 1000*i))
				added := make([]bool, len(offered))
				if n, err := batch(f, offered, added); n != len(offered) || err != nil {
					t.Errorf("%s: %d done, %v", name, n, err)
				}
				for _, new := range added {
					if new {
						total.Add(1)
					}
				}
			}()
		}
		group.Wait()
		mustHave(t, f, 0, 20_000)
		if n := total.Load(); n > 20_000 || n < 19_000 {
			t.Errorf("%s: %d of 20,000 keys were added", name, n)
		}
		must(t, f.Close())
		f, err := Open(path, nil)
		must(t, err)
		if err := f.Rebuild(t.Context(), nil); err != nil || f.Len() != 20_000 {
			t.Errorf("%s: %d items after a rebuild, %v", name, f.Len(), err)
		}
	}

	f, _ := mustCreate(t, &Options{Capacity: 50})
	offered := keys(0, 10_000)
	added := make([]bool, len(offered))
	n, err := f.InsertUniqueBatch(offered, added)
	if !errors.Is(err, ErrFull) || n < 50 || slices.Contains(added[n:], true) {
		t.Errorf("a full filter: %d done, %v", n, err)
	}
	shard, err := Create(filepath.Join(t.TempDir(), "f"), &Options{Capacity: 100, shard: layout.Shard{Number: 1, Count: 4}})
	must(t, err)
	defer shard.Close()
	if n, err := shard.InsertUniqueBatch(offered, added); !errors.Is(err, ErrOtherShard) || n > 100 {
		t.Errorf("a shard: %d done, %v", n, err)
	}
}

// TestOpenOrCreate: the first call makes the filter, the others open it, whoever comes first.
func TestOpenOrCreate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	o := &Options{Capacity: 1000}
	var made atomic.Int64
	var group sync.WaitGroup
	for range 8 {
		group.Add(1)
		go func() {
			defer group.Done()
			f, err := OpenOrCreate(path, o, nil)
			if errors.Is(err, ErrLocked) {
				return // another one has it open
			}
			if err != nil {
				t.Error(err)
				return
			}
			if f.Len() == 0 {
				made.Add(1)
			}
			if err := errors.Join(f.Insert([]byte("a")), f.Close()); err != nil {
				t.Error(err)
			}
		}()
	}
	group.Wait()
	f, err := OpenOrCreate(path, &Options{Capacity: 77}, nil)
	must(t, err)
	defer f.Close()
	if f.Cap() != 1000 || f.Len() == 0 || made.Load() != 1 {
		t.Errorf("made %d times; a capacity of %d, %d items", made.Load(), f.Cap(), f.Len())
	}
	if _, err := OpenOrCreate(filepath.Join(t.TempDir(), "g"), nil, nil); !errors.As(err, new(*OptionError)) {
		t.Errorf("without a capacity: %v", err)
	}
	if _, err := OpenOrCreate(path, o, &OpenOptions{LogBytes: 1}); !errors.As(err, new(*OptionError)) {
		t.Errorf("a log of a byte: %v", err)
	}
}
