package mmapfilter

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/build"
	"github.com/mmapfilter/mmapfilter/recovery"
	"github.com/mmapfilter/mmapfilter/recovery/osfile"
)

// emptyFile makes a sealed filter of about the given size without keys, because the keys do not affect
// the time to open or verify it.
func emptyFile(tb testing.TB, bytes uint64) string {
	path := filepath.Join(tb.TempDir(), "f")
	opts := &Options{Capacity: bytes / 64 * 52}
	f, err := Build(context.Background(), path, opts, numbers(0, 0))
	must(tb, err)
	f.Close()
	return path
}

// BenchmarkOpen opens a filter, looks up one key and closes it. It alternates between two sizes, so that
// noise affects both:
//
//	go test ./mmapfilter -run '^$' -bench Open -count 10
func BenchmarkOpen(b *testing.B) {
	sizes := []uint64{4 << 20, small(uint64(4<<30), 8<<20)}
	paths := []string{emptyFile(b, sizes[0]), emptyFile(b, sizes[1])}
	for range 3 {
		for i, path := range paths {
			b.Run(fmt.Sprintf("MiB=%d", sizes[i]>>20), func(b *testing.B) {
				rng := rand.New(rand.NewPCG(1, 2))
				for b.Loop() {
					f, err := OpenReadOnly(path, nil)
					must(b, err)
					f.ContainsHash(rng.Uint64())
					f.Close()
				}
			})
		}
	}
}

// BenchmarkContains looks up absent keys in a filter of 64 MiB, which is larger than most caches. It
// reports the time for one key.
func BenchmarkContains(b *testing.B) {
	n := small(uint64(40_000_000), 40_000)
	f, path := mustBuild(b, &Options{Capacity: n}, numbers(0, n))
	checked, err := OpenReadOnly(path, &OpenOptions{Checked: true})
	must(b, err)
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

// BenchmarkVerify verifies a file of 1 GiB in the page cache. For comparison, two goroutines only read
// the same memory.
func BenchmarkVerify(b *testing.B) {
	path := emptyFile(b, small(uint64(1<<30), 1<<20))
	b.Run("Verify", func(b *testing.B) {
		for b.Loop() {
			r, err := Verify(context.Background(), path)
			must(b, err)
			b.SetBytes(r.FileBytes)
		}
	})
	b.Run("read", func(b *testing.B) {
		for b.Loop() {
			f, head, err := osfile.OpenFile(path)
			must(b, err)
			m, err := osfile.Map(f, head.Size, false)
			must(b, err)
			sums := make([]uint64, head.Geometry.Chunks)
			build.Parallel(context.Background(), 2, len(sums), m.Data, func(_ context.Context, _, i int) error {
				for _, w := range recovery.Words(head.Geometry.ChunkOf(m.Data, int64(i))) {
					sums[i] += w
				}
				return nil
			})
			b.SetBytes(head.Size)
			m.Unmap()
			f.Close()
		}
	})
}
