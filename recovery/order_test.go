package recovery_test

import (
	"slices"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/wal"
	"github.com/mmapfilter/mmapfilter/recovery"
	"github.com/mmapfilter/mmapfilter/recovery/osfile"
)

// A watchedVolume records the stores to the filter file, in order.
type watchedVolume struct {
	*osfile.Files
	writer *recovery.Writer
	stores []watchedStore
	syncs  int      // number of syncs of the log so far
	synced []uint64 // the log at the last sync
}

type watchedStore struct {
	word, value uint64
	syncs       int      // number of syncs of the log before the store
	odd         []uint64 // the removal counters that were odd at the store, in order
	durable     uint64   // the LSN up to which the writer says that operations are durable
}

func (v *watchedVolume) Filter() recovery.File { return &watchedFilter{v.Files.Filter(), v} }

func (v *watchedVolume) CreateLog(bytes int64) (recovery.File, error) {
	log, err := v.Files.CreateLog(bytes)
	return &watchedLog{log, v}, err
}

type watchedFilter struct {
	recovery.File
	volume *watchedVolume
}

func (f *watchedFilter) Store(word, value uint64) {
	f.File.Store(word, value)
	v := f.volume
	if v.writer != nil {
		v.stores = append(v.stores, watchedStore{word, value, v.syncs, oddCounters(f.Words()), v.writer.DurableLSN()})
	}
}

type watchedLog struct {
	recovery.File
	volume *watchedVolume
}

func (f *watchedLog) Sync() error {
	f.volume.syncs++
	f.volume.synced = slices.Clone(f.Words())
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
func newWatched(t *testing.T) (*recovery.Writer, *watchedVolume) {
	t.Helper()
	needsWriters(t)
	f, _ := openGolden(t)
	files, err := osfile.OpenFiles(f.Name())
	must(t, err)
	v := &watchedVolume{Files: files}
	w, _, err := recovery.NewWriter(v)
	if err == nil {
		err = w.Begin(wal.MinBytes)
	}
	if err != nil {
		files.Close()
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Abandon() })
	v.writer, v.syncs = w, 0
	return w, v
}

// ofBlock returns a word of a block of the region.
func ofBlock(block, word uint64) uint64 { return layout.WordRegion + block*layout.BlockWords + word }

// TestCommit covers W1: an append stores nothing to the filter file. It covers W3: a commit syncs the
// log with the whole segment, including its commit record; stores a promise that the segment is durable;
// and stores the records in order. Until then, the writer does not report the operations as durable. The
// next record is on a new page of the log.
func TestCommit(t *testing.T) {
	w, v := newWatched(t)
	stores := []wal.Store{
		{Word: ofBlock(3, 0), Value: 1},
		{Word: ofBlock(1, 7), Value: 2},
		{Word: ofBlock(3, 0), Value: 3},
	}
	for i := range stores {
		w.Append(stores[i:i+1], 0, layout.Insert, 0)
	}
	if len(v.stores) != 0 {
		t.Errorf("the appends stored %+v", v.stores)
	}
	end := w.LogEnd()
	segment := w.EndSegment(false, 0)
	must(t, w.Harden(segment))
	if !slices.Equal(v.synced, w.Log().Words()) {
		t.Error("when the log was synced, it did not have the whole segment")
	}
	lsn := segment.Commit().LSN
	if len(v.stores) != 2+len(stores) || v.stores[0].value != lsn {
		t.Fatalf("after a sync of the log up to LSN %d, the commit stores %+v", lsn, v.stores)
	}
	for i, s := range v.stores {
		if s.syncs != 1 || s.durable >= lsn {
			t.Errorf("store %d comes after %d syncs, when operations up to LSN %d are reported as durable: %+v", i, s.syncs, s.durable, s)
		}
		if i < 2 && s.word >= layout.WordStash || i >= 2 && (s.word != stores[i-2].Word || s.value != stores[i-2].Value) {
			t.Errorf("store %d is %+v", i, s)
		}
	}
	runtime := w.Words()[layout.WordRuntime : layout.WordRuntime+layout.RuntimeWords]
	if n := layout.Promise(runtime, segment.Salt()); n != lsn || w.DurableLSN() != lsn {
		t.Errorf("after the commit, the promise is up to %d, and the writer says %d", n, w.DurableLSN())
	}
	w.Append(stores[:1], 0, layout.Insert, 0)
	if next := w.EndSegment(false, 0).Start(); next/wal.PageWords <= (end-1)/wal.PageWords {
		t.Errorf("the next record is at word %d, on the page of word %d", next, end-1)
	}
}

// TestCountersAreOdd covers W4 for operations that change several blocks. The counter of a block
// is odd from before its first guarded store until all words of the operation are stored, and
// even between operations.
func TestCountersAreOdd(t *testing.T) {
	w, v := newWatched(t)
	type store struct {
		wal.Store
		odd []uint64 // words whose counters are odd at the store
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
		w.Append(appended, 0, layout.Insert, 0)
		all = append(all, stores...)
	}
	must(t, w.Harden(w.EndSegment(false, 0)))
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
			t.Errorf("store %d is %+v, not of %d to word %d with odd counters %d", i, s, want.Value, want.Word, odd)
		}
	}
	if odd := oddCounters(w.Words()); odd != nil {
		t.Errorf("after the commit, the counters %d are odd", odd)
	}
}
