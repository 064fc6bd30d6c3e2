package mmapfilter

import (
	"context"
	"encoding/binary"
	"iter"
	"path/filepath"
	"testing"
	"time"
)

// numbers yields the 8-byte keys of the numbers [from, to).
func numbers(from, to uint64) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		var key [8]byte
		for i := from; i < to; i++ {
			binary.LittleEndian.PutUint64(key[:], i)
			if !yield(key[:], nil) {
				return
			}
		}
	}
}

func TestQuick(t *testing.T) {
	for _, n := range []uint64{0, 1, 38, 39, 1000, 100000, 10_000_000} {
		path := filepath.Join(t.TempDir(), "f.mmf")
		start := time.Now()
		f, err := Build(context.Background(), path, nil, numbers(0, n))
		if err != nil {
			t.Fatal(n, err)
		}
		bt := time.Since(start)
		start = time.Now()
		r, err := Verify(context.Background(), path)
		if err != nil {
			t.Fatal(n, err)
		}
		vt := time.Since(start)
		miss := 0
		start = time.Now()
		var hashes []uint64
		for k := range numbers(0, n) {
			hashes = append(hashes, f.Hash(k))
			if !f.Contains(k) {
				miss++
			}
		}
		lt := time.Since(start)
		fp := 0
		for k := range numbers(n, n+1000000) {
			if f.Contains(k) {
				fp++
			}
		}
		found := make([]bool, len(hashes))
		start = time.Now()
		f.ContainsHashes(hashes, found)
		ht := time.Since(start)
		t.Logf("n=%d build %v verify %v lookups %v hashes %v miss %d fp %d %+v %+v", n, bt, vt, lt, ht, miss, fp, r, f.Stats())
		f.Close()
	}
}
