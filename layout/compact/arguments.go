package compact

import (
	"sync/atomic"

	"github.com/mmapfilter/mmapfilter/layout"
)

// A batch is the argument block of the batch kernels. The assembly reads its fields by offset: keep
// their order.
type batch struct {
	region, runtime *uint64 // nil if the kernel is for a set, whose tables are in tables
	hashes          *uint64
	found           *bool  // one for each hash: its home line has the fingerprint
	open            *uint8 // bit i%8 of open[i/8]: the home line of hash i does not settle it
	groups          uint64 // of 8 hashes, at least one

	lines                             uint64                         // in a set, the number of tables
	values, ones, highs, counts, r, f uint64                         // the fields of the same names in table
	tables                            *atomic.Pointer[layout.Direct] // of a set
}

// slotted has the constants of the AVX-512 VBMI kernel, for r from 6 to 16. The kernel spreads the
// slots over the bytes of a register, one each. If r exceeds 8, it compares the low 8 bits of the
// remainders first, and then the high 8.
type slotted struct {
	low      uint64 // mask of the low 8 bits of the fingerprint in h·n mod 2^64; if r exceeds 8, in h·64·n mod 2^64
	inUse    uint64 // mask of the bytes of the register that have a slot
	inCounts uint64 // mask of the counts in word 1, without the 0 that ends them
	r        uint64
	lines64  uint64 // 64·n, by which the kernel multiplies h if r exceeds 8
}

// slotVectors has the constants of that kernel that fill a register. Each lies in one cache line.
type slotVectors struct {
	bytes       [layout.LineBytes]byte // for each byte of a word: which byte of the line it comes from
	shifts      [layout.LineBytes]byte // for each byte: at which bit of its word the remainder of its slot begins
	highsShifts [layout.LineBytes]byte // the same for the high 8 bits of the remainder
	values      [layout.LineBytes]byte // for each byte: mask of a remainder of up to 8 bits
}
