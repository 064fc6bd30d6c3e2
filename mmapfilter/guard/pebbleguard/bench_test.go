package pebbleguard

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/v2"

	"github.com/mmapfilter/mmapfilter/mmapfilter/guard"
)

// BenchmarkSet puts new keys, in transactions of some sizes, into the store alone and behind a guard.
func BenchmarkSet(b *testing.B) {
	for _, size := range []int{1, 100} {
		for _, sync := range []bool{false, true} {
			for _, guarded := range []bool{false, true} {
				b.Run(fmt.Sprintf("size=%d/sync=%t/guard=%t", size, sync, guarded), func(b *testing.B) {
					benchmarkSet(b, size, sync, guarded)
				})
			}
		}
	}
}

func benchmarkSet(b *testing.B, size int, sync, guarded bool) {
	dir, value, rng := b.TempDir(), make([]byte, 100), rand.New(rand.NewPCG(1, 2))
	o := &pebble.Options{Logger: quiet{}}
	wo := pebble.NoSync
	if sync {
		wo = pebble.Sync
	}
	key := func() []byte { return binary.BigEndian.AppendUint64([]byte("key"), rng.Uint64()) }
	if guarded {
		d := mustOpen(b, dir, o, &guard.Options{Capacity: 10_000_000})
		defer d.Close()
		for b.Loop() {
			if size == 1 {
				must(b, d.Set(key(), value, wo))
				continue
			}
			batch := d.NewBatch()
			for range size {
				must(b, batch.Set(key(), value, nil))
			}
			must(b, batch.Commit(wo))
			must(b, batch.Close())
		}
	} else {
		d, err := pebble.Open(dir, o)
		must(b, err)
		defer d.Close()
		for b.Loop() {
			if size == 1 {
				must(b, d.Set(key(), value, wo))
				continue
			}
			batch := d.NewBatch()
			for range size {
				must(b, batch.Set(key(), value, nil))
			}
			must(b, batch.Commit(wo))
			must(b, batch.Close())
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*size), "ns/key")
}
