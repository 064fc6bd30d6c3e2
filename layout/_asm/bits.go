package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// testBitsAVX512 tests eight bits at once.
func testBitsAVX512() {
	TEXT("testBitsAVX512", NOSPLIT, "func(bits *uint64, mask uint64, positions *uint64, groups int, set *uint8)")
	Doc("testBitsAVX512 needs AVX-512 F and DQ. mask is the number of words, less one.")
	Pragma("noescape")
	bits := Load(Param("bits"), GP64())
	mask := ZMM()
	VPBROADCASTQ(Load(Param("mask"), GP64()), mask)
	positions, left, set := Load(Param("positions"), GP64()), Load(Param("groups"), GP64()), Load(Param("set"), GP64())
	one := number(1)

	Label("next")
	position, word, k := ZMM(), ZMM(), K()
	VMOVDQU64(Mem{Base: positions}, position)
	VPSRLQ(U8(6), position, word)
	VPANDQ(mask, word, word)
	word = gather(bits, 0, word)
	Comment("The rotation is modulo 64.")
	VPRORVQ(position, word, word)
	VPTESTMQ(one, word, k)
	eight := GP32()
	KMOVB(k, eight)
	ORB(eight.As8(), Mem{Base: set})
	ADDQ(U8(8*group), positions)
	INCQ(set)
	DECQ(left)
	JNZ(LabelRef("next"))
	VZEROUPPER()
	RET()
}

// splitLinesAVX512 computes the lines of eight hashes at once: the high halves of 64-bit
// products, from 32-bit products.
func splitLinesAVX512() {
	TEXT("splitLinesAVX512", NOSPLIT, "func(hashes *uint64, n uint64, lines *uint64, groups int)")
	Doc("splitLinesAVX512 needs AVX-512 F.")
	Pragma("noescape")
	hashes, by := Load(Param("hashes"), GP64()), ZMM()
	VPBROADCASTQ(Load(Param("n"), GP64()), by)
	lines, left := Load(Param("lines"), GP64()), Load(Param("groups"), GP64())
	byHigh, low32 := ZMM(), number(1<<32-1)
	VPSRLQ(U8(32), by, byHigh)

	Label("next")
	h, high := ZMM(), ZMM()
	VMOVDQU64(Mem{Base: hashes}, h)
	VPSRLQ(U8(32), h, high)
	product := func(a, b VecVirtual) VecVirtual {
		z := ZMM()
		VPMULUDQ(a, b, z)
		return z
	}
	lowLow, highLow, lowHigh, highHigh := product(h, by), product(high, by), product(h, byHigh), product(high, byHigh)
	Comment("The carry from the low half.")
	VPSRLQ(U8(32), lowLow, lowLow)
	VPADDQ(lowLow, highLow, highLow)
	VPANDQ(low32, highLow, lowLow)
	VPADDQ(lowLow, lowHigh, lowHigh)
	VPSRLQ(U8(32), highLow, highLow)
	VPSRLQ(U8(32), lowHigh, lowHigh)
	VPADDQ(highLow, highHigh, highHigh)
	VPADDQ(lowHigh, highHigh, highHigh)
	VMOVDQU64(highHigh, Mem{Base: lines})
	ADDQ(U8(8*group), hashes)
	ADDQ(U8(8*group), lines)
	DECQ(left)
	JNZ(LabelRef("next"))
	VZEROUPPER()
	RET()
}

// cpuid writes the instruction that identifies the processor.
func cpuid() {
	TEXT("cpuid", NOSPLIT, "func(leaf uint32) (eax, ebx uint32)")
	Doc("cpuid executes CPUID for subleaf 0.")
	Load(Param("leaf"), EAX)
	XORL(ECX, ECX)
	CPUID()
	Store(EAX, ReturnIndex(0))
	Store(EBX, ReturnIndex(1))
	RET()
}

// sumAVX2 sums words up, sixteen at once.
func sumAVX2() {
	TEXT("sumAVX2", NOSPLIT, "func(words *uint64, sixteens int) (sum, or uint64)")
	Doc("sumAVX2 needs AVX2.")
	Pragma("noescape")
	words, left := Load(Param("words"), GP64()), Load(Param("sixteens"), GP64())
	const atOnce = 4
	var sums, ors [atOnce]VecVirtual
	for i := range atOnce {
		sums[i], ors[i] = YMM(), YMM()
		VPXOR(sums[i], sums[i], sums[i])
		VPXOR(ors[i], ors[i], ors[i])
	}
	Label("next")
	for i := range atOnce {
		four := YMM()
		VMOVDQU(Mem{Base: words, Disp: 32 * i}, four)
		VPADDQ(four, sums[i], sums[i])
		VPOR(four, ors[i], ors[i])
	}
	SUBQ(I8(-32*atOnce), words)
	DECQ(left)
	JNZ(LabelRef("next"))

	all := func(combine func(a, b, to Op), of [atOnce]VecVirtual, name string) {
		combine(of[1], of[0], of[0])
		combine(of[3], of[2], of[2])
		combine(of[2], of[0], of[0])
		high, low := XMM(), GP64()
		VEXTRACTI128(U8(1), of[0], high)
		combine(high, of[0].AsX(), high)
		half := XMM()
		VPSHUFD(U8(0x4e), high, half)
		combine(half, high, high)
		VMOVQ(high, low)
		Store(low, Return(name))
	}
	all(func(a, b, to Op) { VPADDQ(a, b, to) }, sums, "sum")
	all(func(a, b, to Op) { VPOR(a, b, to) }, ors, "or")
	VZEROUPPER()
	RET()
}
