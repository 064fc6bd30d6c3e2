package compact

import (
	"sync/atomic"

	"github.com/mmapfilter/mmapfilter/layout"
)

// A batch is what the kernel for batches needs, in the order in which the assembly loads
// it.
type batch struct {
	region, runtime *uint64 // nil in a set
	hashes          *uint64
	found           *bool  // what the home lines say
	open            *uint8 // a bit for each hash that they leave open
	groups          uint64 // of 8 hashes, at least one

	lines                             uint64                         // or how many tables a set has
	values, ones, highs, counts, r, f uint64                         // those of compact
	tables                            *atomic.Pointer[layout.Direct] // of a set
}

// slotted is what the kernel for AVX-512 VBMI needs of a table with remainders of 6 to 16
// bits: how each slot gets into a byte of a register. Of longer remainders than 8 bits the
// low 8 are compared first, then the high 8.
type slotted struct {
	low      uint64 // the bits of the low word of the product with the hash that are the low 8 of the fingerprint
	inUse    uint64 // the bytes that have a slot
	inCounts uint64 // the bits of the second word that belong to the counts, except the 0 that ends them
	r        uint64
	lines64  uint64 // 64 times the lines: the factor of the hash if r exceeds 8
}

// slotVectors are its constants of a register each. None straddles two cache lines.
type slotVectors struct {
	bytes       [layout.LineBytes]byte // the bytes of the line that get into a word
	shifts      [layout.LineBytes]byte // where in a word the bits of a byte begin
	highsShifts [layout.LineBytes]byte // the same for the high 8 bits of a remainder
	values      [layout.LineBytes]byte // the bits of a short remainder
}
