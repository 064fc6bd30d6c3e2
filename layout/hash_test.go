package layout

import (
	"math/rand/v2"
	"testing"

	"github.com/zeebo/xxh3"
)

// TestHashIsXXH3 compares the hash of keys of up to 39 bytes with the hash that package xxh3 computes.
func TestHashIsXXH3(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		seed := rng.Uint64()
		h := NewHasher(seed)
		key := make([]byte, rng.IntN(40))
		for i := range key {
			key[i] = byte(rng.Uint32())
		}
		for n := range len(key) + 1 {
			if got, want := h.Hash(key[:n]), xxh3.HashSeed(key[:n], seed); got != want {
				t.Fatalf("seed %#x, %d bytes: %#x, want %#x", seed, n, got, want)
			}
		}
	}
}

// TestScratchForgets: after a lookup, the memory for a part, which is reused, holds no table of a set.
func TestScratchForgets(t *testing.T) {
	h := NewHasher(1)
	asked := 0
	s := NewShards(1, &h)
	s.Set(0, NewDirect(nil, nil, &h, func(uint64) bool { asked++; return false }))
	b, hashes := new(setScratch), make([]uint64, LookupPart)
	s.containsIn(b, hashes, make([]bool, len(hashes)))
	if asked != len(hashes) {
		t.Errorf("%d of %d hashes were left open", asked, len(hashes))
	}
	for i, d := range b.directs {
		if d != nil {
			t.Fatalf("Direct %d is still referenced", i)
		}
	}
}
