package sets

import (
	"context"
	"fmt"
	"iter"
	"path/filepath"
	"testing"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
)

func keys(from, to int) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for i := from; i < to; i++ {
			if !yield(fmt.Appendf(nil, "key %d", i), nil) {
				return
			}
		}
	}
}

func TestSmoke(t *testing.T) {
	dir := t.TempDir()
	p, err := NewPlan(&mmapfilter.Options{Capacity: 100_000}, 7)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "x.set")
	s, err := Build(context.Background(), path, p, Work{}, keys(0, 100_000))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", s)
	set, err := mmapfilter.OpenSet(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	for k := range keys(0, 100_000) {
		if !set.Contains(k) {
			t.Fatal("missing")
		}
	}
	if err := set.Err(); err != nil {
		t.Fatal(err)
	}
	n := 0
	for k := range keys(100_000, 200_000) {
		if set.Contains(k) {
			n++
		}
	}
	t.Log(n, set.Stats())
	r, err := mmapfilter.VerifySet(context.Background(), path, nil)
	t.Log(r, err)
}
