package mmapfilter

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/mmapfilter/mmapfilter/recovery"
)

// emptyFile makes a sealed filter of about a size, without keys: what opening
// it takes does not depend on what is in it.
func emptyFile(tb testing.TB, bytes uint64) string {
	path := filepath.Join(tb.TempDir(), "f")
	opts := &Options{FingerprintBits: 12, Capacity: bytes / 64 * 38}
	f, err := Build(context.Background(), path, opts, numbers(0, 0))
	if err != nil {
		tb.Fatal(err)
	}
	f.Close()
	return path
}

// BenchmarkOpen opens a filter, asks it once and closes it. The two sizes are
// opened in turn, so that the noise of the machine is the same for both:
//
//	go test ./mmapfilter -run '^$' -bench Open -count 10
func BenchmarkOpen(b *testing.B) {
	sizes := []uint64{4 << 20, 4 << 30}
	paths := []string{emptyFile(b, sizes[0]), emptyFile(b, sizes[1])}
	for range 3 {
		for i, path := range paths {
			b.Run(fmt.Sprintf("MiB=%d", sizes[i]>>20), func(b *testing.B) {
				rng := rand.New(rand.NewPCG(1, 2))
				for b.Loop() {
					f, err := OpenReadOnly(path, nil)
					if err != nil {
						b.Fatal(err)
					}
					f.ContainsHash(rng.Uint64())
					f.Close()
				}
			})
		}
	}
}

// BenchmarkContains asks a filter of 64 MiB, beyond most caches, for absent
// keys; the figures are per key.
func BenchmarkContains(b *testing.B) {
	n := uint64(40_000_000)
	f, path := mustBuild(b, &Options{FingerprintBits: 12, Capacity: n}, numbers(0, n))
	checked, err := OpenReadOnly(path, &OpenOptions{Checked: true})
	if err != nil {
		b.Fatal(err)
	}
	defer checked.Close()
	const batch = 1024
	rng := rand.New(rand.NewPCG(3, 4))
	hashes, keys, found := make([]uint64, batch), make([][]byte, batch), make([]bool, batch)
	fresh := func() {
		for i := range hashes {
			hashes[i] = rng.Uint64()
			keys[i] = append(keys[i][:0], fmt.Sprintf("%016x", hashes[i])...)
		}
	}
	for _, c := range []struct {
		name string
		ask  func()
	}{
		{"Contains", func() {
			for _, key := range keys {
				f.Contains(key)
			}
		}},
		{"Contains/checked", func() {
			for _, key := range keys {
				checked.Contains(key)
			}
		}},
		{"ContainsBatch", func() { f.ContainsBatch(keys, found) }},
		{"ContainsBatch/checked", func() { checked.ContainsBatch(keys, found) }},
		{"ContainsHashes", func() { f.ContainsHashes(hashes, found) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for range b.N {
				b.StopTimer()
				fresh()
				b.StartTimer()
				c.ask()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/batch, "ns/key")
		})
	}
}

// BenchmarkBuild builds from 8-byte keys.
func BenchmarkBuild(b *testing.B) {
	for _, n := range []uint64{1_000_000, 10_000_000} {
		b.Run(fmt.Sprintf("keys=%d", n), func(b *testing.B) {
			for b.Loop() {
				f, err := Build(context.Background(), filepath.Join(b.TempDir(), "f"), nil, numbers(0, n))
				if err != nil {
					b.Fatal(err)
				}
				f.Close()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/key")
		})
	}
}

// BenchmarkVerify verifies a file of 1 GiB in the page cache; beside it, one
// goroutine for each processor only reads the same memory.
func BenchmarkVerify(b *testing.B) {
	path := emptyFile(b, 1<<30)
	b.Run("Verify", func(b *testing.B) {
		for b.Loop() {
			r, err := Verify(context.Background(), path)
			if err != nil {
				b.Fatal(err)
			}
			b.SetBytes(r.FileBytes)
		}
	})
	b.Run("read", func(b *testing.B) {
		for b.Loop() {
			f, head, err := recovery.OpenFile(path)
			if err != nil {
				b.Fatal(err)
			}
			m, err := recovery.Map(f, head.Size, false)
			if err != nil {
				b.Fatal(err)
			}
			pieces := newPieces(head.Geometry)
			sums := make([]uint64, pieces.n)
			forEach(context.Background(), 2, pieces.n, m.Data, func() (func(int) error, func() error) {
				return func(i int) error {
					first, end := pieces.chunks(i)
					start, _ := head.Geometry.Chunk(first)
					_, stop := head.Geometry.Chunk(end - 1)
					for _, w := range recovery.Words(m.Data[start:stop]) {
						sums[i] += w
					}
					return nil
				}, func() error { return nil }
			})
			b.SetBytes(head.Size)
			m.Unmap()
			f.Close()
		}
	})
}
