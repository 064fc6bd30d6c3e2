package layout

import (
	"fmt"
	"math/bits"
)

// A Shard is one of the files of a set (S1): it has the keys of one of Count equal ranges of
// hashes. The zero value stands for a file that is not a shard and has all keys.
type Shard struct{ Number, Count uint32 }

// ShardOf returns the number of the shard that has the hash h, and own, the hash that stands for h
// in the file of this shard: h·count = number·2^64 + own. So the shards are consecutive ranges of one
// large filter.
func ShardOf(h uint64, count uint32) (number, own uint64) { return bits.Mul64(h, uint64(count)) }

// Own returns the hash that stands for h in the file of the shard. ok is false if the shard cannot
// have it.
func (s Shard) Own(h uint64) (own uint64, ok bool) {
	if s.Count == 0 {
		return h, true
	}
	number, own := ShardOf(h, s.Count)
	return own, number == uint64(s.Number)
}

// OwnAll is Own for many hashes. It leaves out hashes that the shard cannot have.
func (s Shard) OwnAll(hashes []uint64) []uint64 {
	if s.Count == 0 {
		return hashes
	}
	var all []uint64
	for _, h := range hashes {
		if own, ok := s.Own(h); ok {
			all = append(all, own)
		}
	}
	return all
}

// CheckShard checks that a hash has enough bits for the shard, the line and the fingerprint.
func (g Geometry) CheckShard(s Shard) error {
	if s.Count == 0 {
		return nil
	}
	need := bits.Len64(uint64(s.Count)-1) + bits.Len64(g.Lines-1) + specs[g.Kind].ItemBits(g.Params) + spareHashBits
	if need > 64 {
		return fmt.Errorf("%d shards of %d lines with %v need %d bits of a 64-bit hash", s.Count, g.Lines, g.Params, need)
	}
	return nil
}
