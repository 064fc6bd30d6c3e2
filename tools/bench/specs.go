package main

import (
	"fmt"
	"math/bits"
	"strings"

	"github.com/FastFilter/xorfilter"
	"github.com/bits-and-blooms/bloom/v3"
	pebble "github.com/cockroachdb/pebble/bloom"
	"github.com/greatroar/blobloom"
	seiflotfy "github.com/seiflotfy/cuckoofilter"
	"github.com/zeebo/xxh3"
)

// A spec says how to make a filter for n keys. If filled is set, create makes it with the
// keys 0 to n-1; otherwise keys are added afterwards.
type spec struct {
	name   string
	filled bool
	create func(s *session, n uint64) (*Filter, error)
}

// ours returns the spec of one of our filters, built from n keys. Every filter has its own lookup
// loop, as in a program. More code around a lookup leaves fewer lookups in flight, which makes
// lookups slower when the filter exceeds the cache.
func ours(v variant) spec {
	return spec{v.name(), true, func(s *session, n uint64) (*Filter, error) {
		_, f, err := s.build(strings.NewReplacer(" ", "", ",", "-").Replace(v.name())+".mmf", v.options(n), n)
		if err != nil {
			return nil, err
		}
		return &Filter{
			Seed: s.seed,
			Size: func() int64 { return f.Stats().FileBytes },
			Contains: func(keys []Key) (n int) {
				for i := range keys {
					if f.Contains(keys[i][:]) {
						n++
					}
				}
				return n
			},
			End: f.Close,
		}, nil
	}}
}

// goPeers returns the other filters that this module depends on, at the rate, or at the nearest
// rate that they offer.
func goPeers(rate float64) []spec {
	bits := 10 // Pebble's choice, for 1 %
	if rate < 0.005 {
		bits = 20
	}
	return []spec{
		{"bits-and-blooms/bloom v3", false, makeBitsAndBlooms(rate)},
		{"greatroar/blobloom, xxh3", false, makeBlobloom(rate)},
		{fmt.Sprintf("Pebble's bloom, %d bits, parts of a million keys", bits), true, makePebble(bits)},
		{"FastFilter/xorfilter, binary fuse 8, xxh3", true, makeFuse[uint8]},
		{"FastFilter/xorfilter, binary fuse 16, xxh3", true, makeFuse[uint16]},
		{"seiflotfy/cuckoofilter, f=8, b=4", false, makeSeiflotfy},
	}
}

func makeBitsAndBlooms(rate float64) func(*session, uint64) (*Filter, error) {
	return func(s *session, n uint64) (*Filter, error) {
		return bitsAndBlooms(s, bloom.NewWithEstimates(uint(n), rate)), nil
	}
}

func bitsAndBlooms(s *session, f *bloom.BloomFilter) *Filter {
	return &Filter{
		Seed:   s.seed,
		Size:   func() int64 { return int64(f.Cap()+7) / 8 },
		Insert: Until(func(key []byte) bool { f.Add(key); return true }),
		Contains: func(keys []Key) (n int) {
			for i := range keys {
				if f.Test(keys[i][:]) {
					n++
				}
			}
			return n
		},
	}
}

func makeBlobloom(rate float64) func(*session, uint64) (*Filter, error) {
	return func(s *session, n uint64) (*Filter, error) {
		return blocked(s, blobloom.NewOptimized(blobloom.Config{Capacity: n, FPRate: rate})), nil
	}
}

// blocked returns the adapter of a filter that takes hashes.
func blocked(s *session, f *blobloom.Filter) *Filter {
	return &Filter{
		Seed:   s.seed,
		Size:   func() int64 { return int64(f.NumBits() / 8) },
		Insert: Until(func(key []byte) bool { f.Add(xxh3.Hash(key)); return true }),
		Contains: func(keys []Key) (n int) {
			for i := range keys {
				if f.Has(xxh3.Hash(keys[i][:])) {
					n++
				}
			}
			return n
		},
	}
}

// makeSeiflotfy makes a filter with a power of two slots. An insert that finds no place reports
// that it failed, although it has replaced another key, which is lost. The count of lost keys
// shows this.
func makeSeiflotfy(s *session, n uint64) (*Filter, error) {
	return adaptSeiflotfy(s, seiflotfy.NewFilter(uint(n)), n), nil
}

func adaptSeiflotfy(s *session, f *seiflotfy.Filter, n uint64) *Filter {
	slots := int64(1) << bits.Len64(max(n, 4)-1) // the filter rounds its capacity up like this
	return &Filter{
		Seed:   s.seed,
		Size:   func() int64 { return slots }, // a byte each
		Insert: Until(f.Insert),
		Contains: func(keys []Key) (n int) {
			for i := range keys {
				if f.Lookup(keys[i][:]) {
					n++
				}
			}
			return n
		},
		Delete: Each(f.Delete),
	}
}

// part returns the part, out of parts, that a hash belongs to.
func part(hash uint64, parts int) int {
	p, _ := bits.Mul64(hash, uint64(parts))
	return int(p)
}

// pebbleKeys is the largest number of keys in a part. Pebble's filter is for one table of a store: it
// hashes a key to 32 bits, and addresses its bits with 32 bits.
const pebbleKeys = 1_000_000

// makePebble makes a filter in parts, chosen by a separate hash.
func makePebble(bitsPerKey int) func(*session, uint64) (*Filter, error) {
	policy := pebble.FilterPolicy(bitsPerKey)
	return func(s *session, n uint64) (*Filter, error) {
		const kind = 0 // base.TableFilter, the only one
		parts := int(n/pebbleKeys) + 1
		writers := make([]interface {
			AddKey(key []byte)
			Finish(buf []byte) []byte
		}, parts)
		for i := range writers {
			writers[i] = policy.NewWriter(kind)
		}
		for key, err := range keySequence(s.ctx, s.seed, 0, n) {
			if err != nil {
				return nil, err
			}
			writers[part(xxh3.Hash(key), parts)].AddKey(key)
		}
		filters, bytes := make([][]byte, parts), 0
		for i, w := range writers {
			filters[i] = w.Finish(nil)
			bytes += len(filters[i])
		}
		return &Filter{
			Seed: s.seed,
			Size: func() int64 { return int64(bytes) },
			Contains: func(keys []Key) (n int) {
				for i := range keys {
					if key := keys[i][:]; policy.MayContain(kind, filters[part(xxh3.Hash(key), parts)], key) {
						n++
					}
				}
				return n
			},
		}, nil
	}
}

// fuseKeys is the largest number of keys in a part. Making a part takes about 32 bytes a key, 4 GiB.
const fuseKeys = 1 << 27

// makeFuse makes a binary fuse filter of hashes, in parts if making it at once would take too
// much memory.
func makeFuse[T uint8 | uint16](s *session, n uint64) (*Filter, error) {
	parts := int(n/fuseKeys) + 1
	filters, bytes := make([]*xorfilter.BinaryFuse[T], parts), 0
	for i := range filters {
		hashes := make([]uint64, 0, n/uint64(parts)+n/uint64(100*parts)+1)
		for key, err := range keySequence(s.ctx, s.seed, 0, n) {
			if err != nil {
				return nil, err
			}
			if h := xxh3.Hash(key); part(h, parts) == i {
				hashes = append(hashes, h)
			}
		}
		f, err := xorfilter.NewBinaryFuse[T](hashes)
		if err != nil {
			return nil, err
		}
		filters[i] = f
		bytes += len(f.Fingerprints) * bits.Len64(uint64(^T(0))) / 8
		hashes = nil
		forget()
	}
	contains := func(keys []Key) (n int) {
		for i := range keys {
			if h := xxh3.Hash(keys[i][:]); filters[part(h, parts)].Contains(h) {
				n++
			}
		}
		return n
	}
	if parts == 1 {
		only := filters[0]
		contains = func(keys []Key) (n int) {
			for i := range keys {
				if only.Contains(xxh3.Hash(keys[i][:])) {
					n++
				}
			}
			return n
		}
	}
	return &Filter{Seed: s.seed, Size: func() int64 { return int64(bytes) }, Contains: contains}, nil
}
