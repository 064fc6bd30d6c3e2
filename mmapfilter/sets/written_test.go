package sets

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
)

// TestBatchesWhileWritten: while keys are inserted and deleted, a batch misses no key that was inserted
// before the batch, whether or not its shard is open for writing. Once nobody writes, a batch answers
// what single lookups answer.
func TestBatchesWhileWritten(t *testing.T) {
	for name, c := range map[string]struct {
		shards int
		opened []int
		opts   mmapfilter.OpenOptions
	}{
		"all":     {5, nil, mmapfilter.OpenOptions{}},
		"some":    {5, []int{0, 3, 4}, mmapfilter.OpenOptions{}},
		"one":     {1, nil, mmapfilter.OpenOptions{}},
		"many":    {90, nil, mmapfilter.OpenOptions{}},
		"checked": {5, []int{1, 2}, mmapfilter.OpenOptions{Checked: true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const kept, n = 4000, 9000
			p := mustPlan(t, mmapfilter.Options{Capacity: n}, c.shards)
			s := mustOpen(t, mustBuild(t, t.TempDir(), p, numbers(0, kept)), &c.opts)
			must(t, s.OpenShards(c.opened...))
			writes := make([]bool, c.shards)
			for i := range writes {
				writes[i] = c.opened == nil
			}
			for _, i := range c.opened {
				writes[i] = true
			}
			there := batch(0, kept) // keys of the build, or inserted keys
			for _, k := range batch(kept, n) {
				if writes[ShardOf(p.Hash(k), c.shards)] {
					there = append(there, k)
				}
			}
			var inserted atomic.Int64
			inserted.Store(kept)
			var group sync.WaitGroup
			group.Add(1)
			go func() {
				defer group.Done()
				for i, k := range there[kept:] {
					must(t, s.Insert(k))
					inserted.Store(int64(kept + i + 1))
					if gone := number(-i); i%3 == 0 && s.Insert(gone) == nil {
						s.Delete(gone)
					}
				}
			}()
			rng := rand.New(rand.NewPCG(1, 2))
			for n := int64(0); n < int64(len(there)); {
				n = inserted.Load()
				batch := make([][]byte, 1+rng.IntN(3000))
				for i := range batch {
					batch[i] = there[rng.Int64N(n)]
				}
				found := make([]bool, len(batch))
				s.ContainsBatch(batch, found)
				for i, ok := range found {
					if !ok {
						t.Fatalf("%s is missing in a batch of %d", batch[i], len(batch))
					}
				}
			}
			group.Wait()
			for _, end := range []func() error{nil, s.Sync, func() error { return s.Checkpoint(background) }} {
				if end != nil {
					must(t, end())
				}
				count(t, s, -20_000, 20_000) // compares batches with single lookups
			}
			must(t, s.Err())
			must(t, s.Close())
			mustHave(t, s, -20_000, 0) // "maybe"
		})
	}
}
