package all_test

import (
	"math/rand/v2"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/kernel/kerneltest"
	"github.com/mmapfilter/mmapfilter/layout/layouttest"
)

// TestShardsEqualTables: a set answers what the table of the shard answers, by key, by hash and in
// batches, even if tables differ in their numbers of lines, layouts or parameters, if a recovery is
// changing one, and if a shard has no table.
func TestShardsEqualTables(t *testing.T) {
	kerneltest.Each(t, func(t *testing.T) {
		layouttest.Each(t, 50, func(t *testing.T, alike layout.Table) {
			rng := rand.New(rand.NewPCG(21, 22))
			h := layout.NewHasher(rng.Uint64())
			kinds := layout.Kinds()
			other := kinds[rng.IntN(len(kinds))]
			for _, count := range []int{1, 2, 7, 60} {
				keys, hashes := make([][]byte, 1500), make([]uint64, 1500)
				own := make([][]uint64, count) // of every other key
				for i := range keys {
					keys[i] = make([]byte, rng.IntN(20))
					for j := range keys[i] {
						keys[i][j] = byte(rng.Uint32())
					}
					hashes[i] = h.Hash(keys[i])
					if number, o := layout.ShardOf(hashes[i], uint32(count)); i%2 == 0 {
						own[number] = append(own[number], o)
					}
				}
				s, answer := layout.NewShards(count, &h), make([]func(own uint64) bool, count)
				for i := range count {
					tab := layouttest.Table(t, alike.Kind(), alike.Params(), rng.Uint64N(300)+1)
					noTable := false
					switch {
					case i%14 == 3:
						tab = layouttest.Table(t, other, layout.LegalParams(other)[0], 50)
					case i%14 == 10:
						all := layout.LegalParams(alike.Kind())
						tab = layouttest.Table(t, alike.Kind(), all[rng.IntN(len(all))], 50)
					case i%7 == 5:
						noTable = true
					}
					v := randomView(rng, tab, own[i])
					v.Stash[rng.Uint64N(192)*8] |= 1 << 63
					if i%7 == 6 {
						v.Runtime[layout.RuntimeEpoch] = 1
					}
					answer[i] = func(own uint64) bool { return layout.Contains(tab, v, own) }
					if noTable {
						answer[i], tab = func(own uint64) bool { return own%2 == 0 }, nil
					}
					s.Set(i, layout.NewDirect(tab, v, &h, answer[i]))
				}
				for _, n := range []int{len(keys), 64, 13, 1, 0} {
					found := make([]bool, n)
					s.ContainsHashes(hashes[:n], found)
					for i, key := range keys[:n] {
						number, own := layout.ShardOf(hashes[i], uint32(count))
						want := answer[number](own)
						if byKey, byHash := s.Contains(key), s.ContainsHash(hashes[i]); byKey != want || byHash != want || found[i] != want {
							t.Fatalf("%d shards, number %d, a key of %d bytes: %t by key, %t by hash, %t in a batch of %d; want %t", count, number, len(key), byKey, byHash, found[i], n, want)
						}
					}
				}
			}
		})
	})
}
