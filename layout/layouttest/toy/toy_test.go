package toy_test

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout/layouttest/toy"
	"github.com/mmapfilter/mmapfilter/mmapfilter"
)

// TestToy: a layout that only its own folder knows is built, opened, written to, read and
// verified like any other.
func TestToy(t *testing.T) {
	const n = 20_000
	opts := &mmapfilter.Options{Layout: toy.Kind, Capacity: n, FalsePositiveRate: 0.001}
	key := func(i int) []byte { return fmt.Appendf(nil, "key %d", i) }
	check := func(f *mmapfilter.Filter, from, to int) {
		t.Helper()
		found := make([]bool, 1)
		for i := from; i < to; i++ {
			if !f.Contains(key(i)) {
				t.Fatalf("key %d is not found", i)
			}
			if f.ContainsBatch([][]byte{key(i)}, found); !found[0] {
				t.Fatalf("key %d is not found in a batch", i)
			}
		}
		wrong := 0
		for i := range n {
			if f.Contains(key(-1 - i)) {
				wrong++
			}
		}
		if wrong > 2*n/1000 {
			t.Errorf("%d of %d absent keys are found", wrong, n)
		}
	}
	dir := t.TempDir()
	built, err := mmapfilter.Build(context.Background(), filepath.Join(dir, "built.mmf"), opts, func(yield func([]byte, error) bool) {
		for i := range n {
			if !yield(key(i), nil) {
				return
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer built.Close()
	check(built, 0, n)
	if _, err := mmapfilter.Verify(context.Background(), filepath.Join(dir, "built.mmf")); err != nil {
		t.Error(err)
	}
	path := filepath.Join(dir, "live.mmf")
	live, err := mmapfilter.Create(path, opts)
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		if err := live.Insert(key(i)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range n / 2 {
		if ok, err := live.Delete(key(i)); !ok || err != nil {
			t.Fatalf("key %d: %t, %v", i, ok, err)
		}
	}
	check(live, n/2, n)
	if err := live.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := mmapfilter.OpenReadOnly(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	check(again, n/2, n)
	if st := again.Stats(); st.Layout.String() != "toy" || st.Len != n/2 {
		t.Errorf("%v with %d keys", st.Layout, st.Len)
	}
}
