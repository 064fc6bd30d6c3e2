package recovery

import (
	"slices"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/wal"
)

// A watchedVolume notes the stores to the filter file, in order.
type watchedVolume struct {
	*Files
	stores []watchedStore
	syncs  int // of the log, so far
}

type watchedStore struct {
	word, value uint64
	syncs       int      // of the log, before the store
	odd         []uint64 // the removal counters that are odd meanwhile, in order
}

func (v *watchedVolume) Filter() File { return &watchedFilter{v.Files.Filter(), v} }

func (v *watchedVolume) CreateLog(bytes int64) (File, error) {
	log, err := v.Files.CreateLog(bytes)
	return &watchedLog{log, v}, err
}

type watchedFilter struct {
	File
	volume *watchedVolume
}

func (f *watchedFilter) Store(word, value uint64) {
	f.File.Store(word, value)
	f.volume.stores = append(f.volume.stores, watchedStore{word, value, f.volume.syncs, oddCounters(f.Words())})
}

type watchedLog struct {
	File
	volume *watchedVolume
}

func (f *watchedLog) Sync() error {
	f.volume.syncs++
	return f.File.Sync()
}

func oddCounters(words []uint64) (odd []uint64) {
	layout.Counters(func(counter uint64) {
		if words[layout.WordRuntime+counter]%2 == 1 {
			odd = append(odd, counter)
		}
	})
	return odd
}

// newWatched returns a writer of a copy of a golden image, with a log.
func newWatched(t *testing.T) (*Writer, *watchedVolume) {
	t.Helper()
	f, _ := openGolden(t)
	files, err := OpenFiles(f.Name())
	if err != nil {
		t.Fatal(err)
	}
	v := &watchedVolume{Files: files}
	w, _, err := NewWriter(v)
	if err == nil {
		err = w.Begin(wal.MinBytes)
	}
	if err != nil {
		files.Close()
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	v.stores, v.syncs = nil, 0
	return w, v
}

// ofBlock returns a word of a block of the region.
func ofBlock(block, word uint64) uint64 { return layout.WordRegion + block*layout.BlockWords + word }

// TestAppendStoresToTheLog covers W1: an append stores nothing to the filter file, and its stores
// to one block are one record. The commit stores them to the file, after the sync of the log.
func TestAppendStoresToTheLog(t *testing.T) {
	w, v := newWatched(t)
	stores := []wal.Store{
		{Word: ofBlock(0, 1), Value: 11},
		{Word: ofBlock(0, 2), Value: 12, Guarded: true},
		{Word: ofBlock(2, 0), Value: 20},
	}
	before := w.LSN()
	w.Append(stores, 0, 0)
	if n := w.LSN() - before; n != 2 {
		t.Errorf("%d records for 2 blocks", n)
	}
	if len(v.stores) != 0 {
		t.Errorf("the append has stored %+v", v.stores)
	}
	if err := w.Harden(w.EndSegment(false, 0)); err != nil {
		t.Fatal(err)
	}
	for _, s := range v.stores {
		if s.syncs == 0 {
			t.Errorf("word %d is stored before the log is durable", s.word)
		}
	}
	for _, s := range stores {
		if now := w.Words()[s.Word]; now != s.Value {
			t.Errorf("after the commit, word %d is %d, not %d", s.Word, now, s.Value)
		}
	}
}

// TestCountersAreOdd covers W4 for operations that change several blocks. The counter of a block
// is odd from before its first guarded store until all words of the operation are stored, and
// even between operations.
func TestCountersAreOdd(t *testing.T) {
	w, v := newWatched(t)
	type store struct {
		wal.Store
		odd []uint64 // words of which the counters are odd meanwhile
	}
	first, second, stash := ofBlock(1, 0), ofBlock(2, 0), uint64(layout.WordStash)
	operations := [][]store{
		{
			{wal.Store{Word: ofBlock(0, 0), Value: 1}, nil},
			{wal.Store{Word: first, Value: 2, Guarded: true}, []uint64{first}},
			{wal.Store{Word: second, Value: 3, Guarded: true}, []uint64{first, second}},
			{wal.Store{Word: first + 1, Value: 4, Guarded: true}, []uint64{first, second}},
			{wal.Store{Word: stash, Value: 5}, []uint64{first, second}},
		},
		{
			{wal.Store{Word: stash + 1, Value: 6, Guarded: true}, []uint64{stash}},
			{wal.Store{Word: second, Value: 7}, []uint64{stash}},
		},
	}
	var all []store
	for _, stores := range operations {
		var appended []wal.Store
		for _, s := range stores {
			appended = append(appended, s.Store)
		}
		w.Append(appended, 0, 0)
		all = append(all, stores...)
	}
	if err := w.Harden(w.EndSegment(false, 0)); err != nil {
		t.Fatal(err)
	}
	v.stores = slices.DeleteFunc(v.stores, func(s watchedStore) bool { return s.word < layout.WordStash })
	if len(v.stores) != len(all) {
		t.Fatalf("%d stores, not %d", len(v.stores), len(all))
	}
	for i, want := range all {
		var odd []uint64
		for _, word := range want.odd {
			odd = append(odd, layout.CounterOf(word))
		}
		if s := v.stores[i]; s.word != want.Word || s.value != want.Value || !slices.Equal(s.odd, odd) {
			t.Errorf("store %d is %+v, not of %d to word %d beside %d", i, s, want.Value, want.Word, odd)
		}
	}
	if odd := oddCounters(w.Words()); odd != nil {
		t.Errorf("after the commit, the counters %d are odd", odd)
	}
}
