package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// hashKey hashes a key of 9 to 16 bytes into RDX.
func hashKey(d Register) {
	key, n := shortKey()
	Comment("XXH3 of the key.")
	high, fold, product := GP64(), GP64(), GP64()
	MOVQ(Mem{Base: key}, RDX)
	XORQ(Mem{Base: d, Disp: directMix}, RDX)
	MOVQ(Mem{Base: key, Index: n, Scale: 1, Disp: -8}, high)
	XORQ(Mem{Base: d, Disp: directMix + 8}, high)
	MULXQ(high, product, fold)
	BSWAPQ(RDX)
	ADDQ(RDX, n)
	ADDQ(high, n)
	XORQ(product, fold)
	ADDQ(fold, n)
	MOVQ(n, RDX)
	SHRQ(U8(37), n)
	XORQ(n, RDX)
	IMULQ(avalanche(), RDX)
	last := move(RDX)
	SHRQ(U8(32), last)
	XORQ(last, RDX)
}

// shortKey loads the address of a key and its length. Keys of other lengths are left to Go.
func shortKey() (key, n Register) {
	n = Load(Param("key").Len(), GP64())
	CMPQ(n, U8(9))
	JCS(LabelRef("inGo"))
	CMPQ(n, U8(16))
	JHI(LabelRef("inGo"))
	return Load(Param("key").Base(), GP64()), n
}

// hashKeyWide is hashKey, mostly in vector registers: it writes 6 general registers instead of
// 16, with 2 more instructions. A lookup in a Compact is short of general registers: see
// compactOne.
func hashKeyWide(d Register) {
	key, n := shortKey()
	Comment("XXH3 of the key.")
	ends, high, sum, x := XMM(), XMM(), XMM(), XMM()
	fold, product := GP64(), GP64()
	VMOVQ(Mem{Base: key}, ends)
	VMOVHPS(Mem{Base: key, Index: n, Scale: 1, Disp: -8}, ends, ends)
	VPXOR(Mem{Base: d, Disp: directMix}, ends, ends)
	VMOVQ(ends, RDX)
	VPUNPCKHQDQ(ends, ends, high)
	VPSHUFB(inMemory("swapped", 0x0001020304050607, 0), ends, ends)
	VMOVQ(high, product)
	MULXQ(product, product, fold)
	XORQ(product, fold)
	VMOVQ(fold, sum)
	VPADDQ(high, sum, sum)
	VPADDQ(ends, sum, sum)
	VPADDQ_BCST(addressOf(Param("key").Len()), sum, sum)
	VPSRLQ(U8(37), sum, x)
	VPXOR(x, sum, sum)
	VPMULLQ_BCST(avalanche(), sum, sum)
	VPSRLQ(U8(32), sum, x)
	VPXOR(x, sum, sum)
	VMOVQ(sum, RDX)
}

func avalanche() Mem { return inMemory("avalanche", 0x165667919E3779F9) }
