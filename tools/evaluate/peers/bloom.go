package peers

import (
	"encoding/binary"
	"math/rand/v2"

	"github.com/bits-and-blooms/bloom/v3"
)

// standard is the standard Bloom filter (Bloom, "Space/Time Trade-offs in Hash Coding with
// Allowable Errors", CACM 1970) of bits-and-blooms: a key sets k of m bits, anywhere. The library
// uses 128-bit murmur hashes and remainders.
//
// The rate with n keys is (1 - e^(-kn/m))^k, lowest at k = (m/n)·ln 2. At the paper's 13 bits a key,
// k is 9 and the rate 0.19 %: log2(1/0.0019)·1.44 bits a key. There are no deletes. No key is
// refused, but beyond n keys the rate rises.
type standard struct{ filter *bloom.BloomFilter }

// NewBloom makes a standard Bloom filter for the given number of keys. bytes is a multiple of
// 8. The error is a [ParameterError].
func NewBloom(bytes, keys uint64) (Filter, error) {
	if err := checkBytes("BF", bytes, 8); err != nil {
		return nil, err
	}
	words := bytes / 8
	k, err := hashes("BF", words*64, keys)
	if err != nil {
		return nil, err
	}
	return &standard{bloom.New(uint(words*64), uint(k))}, nil
}

func (f *standard) Insert(key uint64) bool {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], key)
	f.filter.Add(b[:])
	return true
}

func (f *standard) Contains(key uint64) bool {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], key)
	return f.filter.Test(b[:])
}

func (f *standard) Saturate(rng *rand.Rand) {
	words := f.filter.BitSet().Words()
	for i := range words {
		words[i] = rng.Uint64()
	}
}

func (f *standard) Bytes() uint64 { return uint64(f.filter.Cap()) / 8 }
