package layout

import (
	"encoding/binary"
	"math/bits"

	"github.com/zeebo/xxh3"
)

// A Hasher hashes keys: 64-bit XXH3 with a seed. It hashes short keys itself, faster
// than the general function; the kernel of a [Direct] does the same with the constants
// kept here. The specification of xxHash, "XXH3 Algorithm Overview", small inputs,
// defines the steps.
type Hasher struct {
	seed uint64
	mix  [2]uint64 // what the two ends of a short key are mixed with
}

// NewHasher returns the Hasher for a seed.
func NewHasher(seed uint64) Hasher {
	const secret24, secret32, secret40, secret48 = 0x1F67B3B7A4A44072, 0x78E5C0CC4EE679CB, 0x2172FFCC7DD05A82, 0x8E2443F7744608B8
	return Hasher{seed, [2]uint64{(secret24 ^ secret32) + seed, (secret40 ^ secret48) - seed}}
}

// Hash returns the hash of key.
func (h *Hasher) Hash(key []byte) uint64 {
	if isShort(key) {
		return h.short(key)
	}
	return xxh3.HashSeed(key, h.seed)
}

// HashString is Hash for a key in a string.
func (h *Hasher) HashString(key string) uint64 { return xxh3.HashStringSeed(key, h.seed) }

// isShort reports whether a key has 9 to 16 bytes.
func isShort(key []byte) bool { return uint(len(key)-9) < 8 }

func (h *Hasher) short(key []byte) uint64 {
	low := binary.LittleEndian.Uint64(key) ^ h.mix[0]
	high := binary.LittleEndian.Uint64(key[len(key)-8:]) ^ h.mix[1]
	fold, product := bits.Mul64(low, high)
	sum := uint64(len(key)) + bits.ReverseBytes64(low) + high + (fold ^ product)
	sum = (sum ^ sum>>37) * 0x165667919E3779F9
	return sum ^ sum>>32
}
