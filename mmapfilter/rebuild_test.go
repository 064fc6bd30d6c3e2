package mmapfilter

import (
	"context"
	"os"
	"path/filepath"
	"testing"
)

// mustHave checks that the filter has all keys from from up to to.
func mustHave(tb testing.TB, f interface{ Contains([]byte) bool }, from, to uint64) {
	tb.Helper()
	for key := range numbers(from, to) {
		if !f.Contains(key) {
			tb.Fatalf("key %x is lost", key)
		}
	}
}

func mustInsert(tb testing.TB, f *Filter, from, to uint64) {
	tb.Helper()
	for key := range numbers(from, to) {
		if err := f.Insert(key); err != nil {
			tb.Fatal(err)
		}
	}
}

func mustDelete(tb testing.TB, f *Filter, from, to uint64) {
	tb.Helper()
	for key := range numbers(from, to) {
		if there, err := f.Delete(key); err != nil || !there {
			tb.Fatalf("delete of %x: %t, %v", key, there, err)
		}
	}
}

// TestRebuild: a filter is rebuilt larger and smaller, with another rate and layout, and has its
// items, its sequence and its operations, also after a crash.
func TestRebuild(t *testing.T) {
	f, path := mustCreate(t, &Options{Capacity: 2000, KeepHashes: true, Normalisation: "as they are"})
	mustInsert(t, f, 0, 2000)
	if err := f.SyncAt(17); err != nil {
		t.Fatal(err)
	}
	mustDelete(t, f, 0, 500)
	first, n := uint64(500), uint64(2000)
	for i, opts := range []*RebuildOptions{
		{Capacity: 10_000}, nil, {FalsePositiveRate: 1e-4}, {Layout: Packed, FalsePositiveRate: 0.01}, {Capacity: 3000}, {Layout: Blocked},
	} {
		if err := f.Rebuild(context.Background(), opts); err != nil {
			t.Fatalf("%d: %v", i, err)
		}
		if s := f.Stats(); s.Len != n-first || s.DurableSeq != 17 || s.Rebuilds != uint64(i)+1 || s.Normalisation != "as they are" || s.GrowthErr != "" || opts != nil && opts.Capacity != 0 && s.Cap != opts.Capacity {
			t.Fatalf("%d: %+v", i, s)
		}
		if ops := f.DurableOps(); ops != 500+uint64(i)*200 {
			t.Fatalf("%d: %d operations", i, ops)
		}
		mustHave(t, f, first, n)
		mustInsert(t, f, n, n+100)
		mustDelete(t, f, first, first+100)
		first, n = first+100, n+100
		g, err := Open(abandon(t, f, path), nil)
		if err != nil {
			t.Fatal(err)
		}
		mustHave(t, g, first, n)
		if g.DurableSeq() != 17 || g.DurableOps() != 700+uint64(i)*200 || g.Len() != n-first {
			t.Errorf("%d: after a crash: %d, %d, %d items", i, g.DurableSeq(), g.DurableOps(), g.Len())
		}
		if err := g.Rebuild(context.Background(), nil); err != nil {
			t.Errorf("%d: after a crash: %v", i, err)
		}
		mustHave(t, g, first, n)
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	list, _ := os.ReadDir(filepath.Dir(path))
	if len(list) != 2 {
		t.Errorf("the directory has %v", list)
	}
}
