package pebbleguard

import (
	"encoding/binary"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/mmapfilter/mmapfilter/mmapfilter/guard"
)

// A benchStore is a store alone, or behind a guard.
type benchStore struct {
	set   func(key, value []byte, o *pebble.WriteOptions) error
	batch func(keys [][]byte, value []byte, o *pebble.WriteOptions) error
	db    *pebble.DB
}

// settle waits until the store does nothing in the background.
func (s *benchStore) settle() {
	for {
		if m := s.db.Metrics(); m.Flush.NumInProgress == 0 && m.Compact.NumInProgress == 0 {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// BenchmarkSet compares writes of new keys to a store behind a guard with those to a store alone. In one
// iteration each of the two has its turn, while the other one is at rest.
//
//	go test -run '^$' -bench BenchmarkSet -benchtime 15x
func BenchmarkSet(b *testing.B) {
	for _, size := range []int{1, 100} {
		for _, sync := range []bool{false, true} {
			b.Run(fmt.Sprintf("batch=%d/sync=%t", size, sync), func(b *testing.B) { benchmarkSet(b, size, sync) })
		}
	}
}

func benchmarkSet(b *testing.B, size int, sync bool) {
	dir := b.TempDir()
	newOptions := func() *pebble.Options {
		return &pebble.Options{Logger: quiet{}, FormatMajorVersion: pebble.FormatNewest}
	}
	alone, err := pebble.Open(filepath.Join(dir, "alone"), newOptions())
	must(b, err)
	defer alone.Close()
	d := mustOpen(b, filepath.Join(dir, "guard"), newOptions(), &guard.Options{Capacity: 1 << 23})
	defer d.Close()
	stores := [2]benchStore{
		{alone.Set, func(keys [][]byte, value []byte, o *pebble.WriteOptions) error {
			t := alone.NewBatch()
			for _, k := range keys {
				must(b, t.Set(k, value, nil))
			}
			must(b, t.Commit(o))
			return t.Close()
		}, alone},
		{d.Set, func(keys [][]byte, value []byte, o *pebble.WriteOptions) error {
			t := d.NewBatch()
			for _, k := range keys {
				must(b, t.Set(k, value, nil))
			}
			must(b, t.Commit(o))
			return t.Close()
		}, d.DB},
	}
	o, puts := pebble.NoSync, 50_000
	if sync {
		o, puts = pebble.Sync, 200*size
	}
	keys := make([][]byte, size)
	for i := range keys {
		keys[i] = make([]byte, 16)
	}
	value := make([]byte, 100)
	next := uint64(0)
	turn := func(s *benchStore) time.Duration {
		defer s.settle()
		begun := time.Now()
		for range puts / size {
			for _, k := range keys {
				next++
				binary.BigEndian.PutUint64(k, next*0x9e3779b97f4a7c15)
				binary.BigEndian.PutUint64(k[8:], next)
			}
			if size == 1 {
				must(b, s.set(keys[0], value, o))
			} else {
				must(b, s.batch(keys, value, o))
			}
		}
		return time.Since(begun)
	}
	var took [2][]float64
	var ratios []float64
	for b.Loop() {
		var t [2]float64
		for i := range stores {
			t[i] = float64(turn(&stores[i]).Nanoseconds()) / float64(puts)
			took[i] = append(took[i], t[i])
		}
		ratios = append(ratios, t[0]/t[1])
	}
	median := func(of []float64) float64 { slices.Sort(of); return of[len(of)/2] }
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(median(took[0]), "ns/put-alone")
	b.ReportMetric(median(took[1]), "ns/put-guard")
	b.ReportMetric(median(ratios), "rate")
}
