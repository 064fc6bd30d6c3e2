package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

const (
	group = 8 // hashes

	// ahead is how many groups' lines are on their way: 32 cache misses. With 8 groups, a small
	// batch has few looks left while it waits. Large batches lose nothing.
	ahead = 4
)

// A kernel has the registers that all kernels for batches start with. The ring keeps, for
// the hashes whose lines are on their way, the eight line numbers of each group and,
// ringBytes further on, the rests of the hashes.
//
// In a set each hash has its own table. There the ring goes on with the addresses of the lines and
// of the runtime pages, region is 0 and runtime has the address of the tables.
type kernel struct {
	region, runtime, hashes, found, undecided, left, spread Register

	ring   Mem
	shards bool
	count  Mem // of them
}

// The parts of the ring, in bytes.
const (
	ringBytes    = ahead * group * 8
	ringRests    = ringBytes
	ringLines    = 2 * ringBytes
	ringRuntimes = 3 * ringBytes
)

// begin loads the fields with which the batches of all layouts begin.
func begin(name, doc string, shards bool) *kernel {
	TEXT(name, 0, "func(b *batch)")
	Doc(doc)
	Pragma("noescape")
	Load(Param("b"), RAX)
	field := func(i int) Register {
		r := GP64()
		MOVQ(Mem{Base: RAX, Disp: 8 * i}, r)
		return r
	}
	parts := 2
	if shards {
		parts = 4
	}
	k := &kernel{ring: AllocLocal(parts * ringBytes), shards: shards}
	k.region, k.runtime, k.hashes, k.found, k.undecided, k.left = field(0), field(1), field(2), field(3), field(4), field(5)
	MOVQ(Mem{Base: RAX, Disp: 8 * 6}, RDX) // the lines, for MULX; or how many shards
	if shards {
		k.count = AllocLocal(8)
		MOVQ(RDX, k.count)
		MOVQ(Mem{Base: RAX, Disp: offTables}, k.runtime)
	}
	k.spread = GP64()
	MOVQ(U64(0x0101010101010101), k.spread)
	return k
}

// Where a batch has the constants of a table; the first three belong to both layouts.
const (
	offValues = 8 * 7
	offOnes   = 8 * 8
	offHighs  = 8 * 9

	offLanes = 8 * 10 // of a batch of Blocked

	offCounts = 8 * 10 // of one of Compact
	offR      = 8 * 11
	offF      = 8 * 12
	offTables = 8 * 13
)

// ask splits the eight hashes of a group and prefetches their lines. slot is the place of
// the group in the ring, in bytes.
func (k *kernel) ask(hashes Mem, slot Register) {
	Comment("Split eight hashes, and ask for their lines.")
	for i := range group {
		line, rest := GP64(), GP64()
		keep := func(part int, r Register) { MOVQ(r, k.ring.Offset(part+8*i).Idx(slot, 1)) }
		if !k.shards {
			MULXQ(hashes.Offset(8*i), rest, line)
			keep(0, line)
			keep(ringRests, rest)
			SHLQ(U8(6), line)
			PREFETCHT0(Mem{Base: k.region, Index: line, Scale: 1})
			continue
		}
		table := GP64()
		MOVQ(hashes.Offset(8*i), RDX)
		MULXQ(k.count, RDX, table)
		MOVQ(Mem{Base: k.runtime, Index: table, Scale: 8}, table)
		MULXQ(Mem{Base: table, Disp: directLines}, rest, line)
		keep(0, line)
		keep(ringRests, rest)
		SHLQ(U8(6), line)
		ADDQ(Mem{Base: table, Disp: directRegion}, line)
		PREFETCHT0(Mem{Base: line})
		keep(ringLines, line)
		MOVQ(Mem{Base: table, Disp: directRuntime}, table)
		keep(ringRuntimes, table)
	}
}

// groups writes the loop over the groups. answer looks up the group at a slot of the ring
// and returns the bits of the hashes that are found, and of those that stay open, each in a
// byte.
func (k *kernel) groups(answer func(slot Register) (found, undecided GPVirtual)) {
	slot, hashes, asked := GP64(), GP64(), GP64()
	Comment("The lines of the first groups.")
	XORQ(slot, slot)
	MOVQ(k.hashes, hashes)
	MOVQ(k.left, asked)
	Label("first")
	k.ask(Mem{Base: hashes}, slot)
	ADDQ(U8(8*group), hashes)
	ADDQ(U8(8*group), slot)
	DECQ(asked)
	JZ(LabelRef("asked"))
	CMPQ(slot, U32(ringBytes))
	JNE(LabelRef("first"))
	Label("asked")
	XORQ(slot, slot)

	Label("next")
	found, undecided := answer(slot)
	Comment("One byte for each bit.")
	PDEPQ(k.spread, found, found)
	MOVQ(found, Mem{Base: k.found})
	MOVB(undecided.As8(), Mem{Base: k.undecided})
	ADDQ(U8(group), k.found)
	INCQ(k.undecided)
	TESTQ(asked, asked)
	JZ(LabelRef("all"))
	k.ask(Mem{Base: hashes}, slot)
	ADDQ(U8(8*group), hashes)
	DECQ(asked)
	Label("all")
	ADDQ(U8(8*group), slot)
	ANDQ(U32(ringBytes-1), slot)
	DECQ(k.left)
	JNZ(LabelRef("next"))
	VZEROUPPER()
	RET()
}
