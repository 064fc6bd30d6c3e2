package sets

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestPart: each key is once in the group of its shard, in the order of the batch, or among the others;
// and each gets its own answer. A part that was in use for more keys and more shards does not matter.
func TestPart(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	p := new(part)
	for _, c := range []struct{ keys, shards int }{{mostKeys, 3}, {mostKeys, 5000}, {1, 1}, {0, 4}, {100, 7}, {mostKeys, 1}} {
		for _, share := range []float64{0, 0.5, 1} { // of others
			p.clear()
			type key struct {
				shard int // -1: one of the others
				hash  uint64
			}
			var keys []key
			for i := range c.keys {
				k := key{rng.IntN(c.shards), rng.Uint64()}
				if rng.Float64() < share {
					k.shard = -1
					p.addOther(k.hash, i)
				} else {
					p.add(k.shard, k.hash, i)
				}
				keys = append(keys, k)
			}
			found := make([]bool, c.keys)
			isFound := func(hash uint64) bool { return hash%3 == 0 }
			hashes, answers := p.others()
			var others []uint64
			for _, k := range keys {
				if k.shard < 0 {
					others = append(others, k.hash)
				}
			}
			if !slices.Equal(slices.Sorted(slices.Values(hashes)), slices.Sorted(slices.Values(others))) {
				t.Errorf("%+v: the others are %x, not %x", c, hashes, others)
			}
			for k, h := range hashes {
				answers[k] = isFound(h)
			}
			p.answerOthers(found)
			before := -1
			for g := range p.sort(c.shards) {
				shard, own, answers := p.group(g)
				var want []uint64
				for _, k := range keys {
					if k.shard == shard {
						want = append(want, k.hash)
					}
				}
				if shard <= before || len(own) == 0 || !slices.Equal(own, want) {
					t.Errorf("%+v: shard %d after %d has %x, not %x", c, shard, before, own, want)
				}
				before = shard
				for k, h := range own {
					answers[k] = isFound(h)
				}
			}
			p.answer(found)
			for i, k := range keys {
				if found[i] != isFound(k.hash) {
					t.Errorf("%+v: the answer for key %d, of shard %d, is %t", c, i, k.shard, found[i])
				}
			}
		}
	}
}
