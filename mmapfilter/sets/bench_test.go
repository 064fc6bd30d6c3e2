package sets

import (
	"context"
	"encoding/binary"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
)

// BenchmarkContains compares lookups in a set with those in one file of the same size: of keys of 16
// bytes, half of them absent.
func BenchmarkContains(b *testing.B) {
	n := 150_000_000
	if testing.Short() {
		n = 100_000
	}
	dir := b.TempDir()
	number := func(yield func([]byte, error) bool) {
		var key [16]byte
		for i := range n {
			binary.LittleEndian.PutUint64(key[:], uint64(i)*0x9E3779B97F4A7C15)
			if !yield(key[:], nil) {
				return
			}
		}
	}
	one, err := mmapfilter.Build(context.Background(), filepath.Join(dir, "one"), &mmapfilter.Options{Capacity: uint64(n)}, number)
	if err != nil {
		b.Fatal(err)
	}
	defer one.Close()
	type lookup interface {
		Contains(key []byte) bool
		ContainsBatch(keys [][]byte, found []bool)
	}
	files := []lookup{one}
	names := []string{"one"}
	for _, shards := range []int{16, 256} {
		p, err := NewPlan(&mmapfilter.Options{Capacity: uint64(n)}, shards)
		if err != nil {
			b.Fatal(err)
		}
		path := filepath.Join(dir, fmt.Sprint(shards, ".set"))
		if _, err := Build(context.Background(), path, p, Work{}, number); err != nil {
			b.Fatal(err)
		}
		s, err := mmapfilter.OpenSet(path, nil)
		if err != nil {
			b.Fatal(err)
		}
		defer s.Close()
		if err := s.OpenAll(); err != nil {
			b.Fatal(err)
		}
		files, names = append(files, s), append(names, fmt.Sprint(shards))
	}
	keys := make([][]byte, 1<<20)
	x := uint64(1)
	for i := range keys {
		x = x*6364136223846793005 + 1442695040888963407
		keys[i] = make([]byte, 16)
		binary.LittleEndian.PutUint64(keys[i], (x>>11)%uint64(2*n)*0x9E3779B97F4A7C15)
	}
	found := make([]bool, 1024)
	for _, batch := range []int{1, 64, 1024} {
		for i, f := range files {
			b.Run(fmt.Sprintf("batch=%d/shards=%s", batch, names[i]), func(b *testing.B) {
				b.ReportAllocs()
				at := 0
				for range b.N {
					if at+batch > len(keys) {
						at = 0
					}
					if batch == 1 {
						f.Contains(keys[at])
					} else {
						f.ContainsBatch(keys[at:at+batch], found)
					}
					at += batch
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(batch), "ns/key")
			})
		}
	}
}
