package layout

import (
	"encoding/binary"
	"math/bits"

	"github.com/zeebo/xxh3"
)

// A Hasher hashes keys: 64-bit XXH3 with a seed. It hashes keys of 9 to 16 bytes itself,
// faster than the general function; the kernel of a [Direct] does the same with the
// constants kept here. The specification of xxHash defines the steps: see "XXH3 Algorithm
// Overview", about small inputs.
type Hasher struct {
	seed uint64
	mix  [2]uint64 // constants to mix with the first and the last 8 bytes of a short key
}

// NewHasher returns the Hasher for a seed.
func NewHasher(seed uint64) Hasher {
	// The words of XXH3's default secret at these offsets.
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

// isShort reports whether a key is short: whether it has 9 to 16 bytes.
func isShort(key []byte) bool { return uint(len(key)-9) < 8 }

// short is Hash for a short key.
func (h *Hasher) short(key []byte) uint64 {
	first := binary.LittleEndian.Uint64(key) ^ h.mix[0]
	last := binary.LittleEndian.Uint64(key[len(key)-8:]) ^ h.mix[1]
	high, low := bits.Mul64(first, last)
	sum := uint64(len(key)) + bits.ReverseBytes64(first) + last + (high ^ low)
	sum = (sum ^ sum>>37) * 0x165667919E3779F9
	return sum ^ sum>>32
}
