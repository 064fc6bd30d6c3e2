package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// The fields of a blocked, and of a View.
const (
	blockedLines  = 8 * 0
	blockedValues = 8 * 1
	blockedOnes   = 8 * 2 // twice, for two lanes; so are the next ones
	blockedLanes  = 8 * 4
	blockedHighs  = 8 * 6
	blockedMarks  = 8 * 8

	viewRegion  = 8 * 0
	viewRuntime = 8 * 6
)

// What a Direct has behind the fields of a blocked.
const (
	directMix     = 8 * 12 // what the two ends of a key are mixed with
	directRegion  = 8 * 14
	directRuntime = 8 * 15
	directCompact = 8 * 17 // a pointer
)

// blockedOne is the first look of one lookup. Out of the cache, what counts is how
// many lookups the processor has begun while it waits for the line of one, and so how
// few instructions a lookup has: they all stay in its reorder buffer until the line is
// there. The two words are the lanes of a register; constants are operands in memory.
// What a home line does not settle is jumped for: it is rare.
func blockedOne() {
	TEXT("blockedOne", NOSPLIT, "func(t *blocked, v *View, hash uint64) (found, open bool)")
	Doc("blockedOne needs AVX2, BMI1 and BMI2.")
	Pragma("noescape")
	t := Load(Param("t"), GP64())
	view := Load(Param("v"), GP64())
	Load(Param("hash"), RDX)
	lookBlocked(t, Mem{Base: view, Disp: viewRegion}, Mem{Base: view, Disp: viewRuntime})
}

// directHash is blockedOne or compactOne: one function for both, since one more call around
// it would be a tenth of what a lookup is.
func directHash() {
	TEXT("directHash", NOSPLIT, "func(d *Direct, hash uint64) (found, open bool)")
	Doc("directHash needs AVX2, BMI1, BMI2 and POPCNT.")
	Pragma("noescape")
	d := Load(Param("d"), GP64())
	Load(Param("hash"), RDX)
	lookDirect(d)
}

// directKey is directHash with the hash of a key of 9 to 16 bytes before it.
func directKey() {
	TEXT("directKey", NOSPLIT, "func(d *Direct, key *byte, n int) (found, open bool)")
	Doc("directKey needs AVX2, BMI1, BMI2 and POPCNT.")
	Pragma("noescape")
	d := Load(Param("d"), GP64())
	hashKey(d)
	lookDirect(d)
}

// lookDirect ends a function with the first look of the hash in RDX.
func lookDirect(d Register) {
	region, runtime := Mem{Base: d, Disp: directRegion}, Mem{Base: d, Disp: directRuntime}
	t := move(Mem{Base: d, Disp: directCompact})
	TESTQ(t, t)
	JNE(LabelRef("compact"))
	lookBlocked(d, region, runtime)
	Label("compact")
	lookCompact(t, region, runtime)
}

// hashKey makes the hash of a key of 9 to 16 bytes, in RDX.
func hashKey(d Register) {
	key := Load(Param("key"), GP64())
	n := Load(Param("n"), GP64())
	of := func(at int) Mem { return Mem{Base: d, Disp: at} }

	Comment("XXH3 of the key.")
	low, high, fold, product := GP64(), GP64(), GP64(), GP64()
	MOVQ(Mem{Base: key}, low)
	XORQ(of(directMix), low)
	MOVQ(Mem{Base: key, Index: n, Scale: 1, Disp: -8}, high)
	XORQ(of(directMix+8), high)
	MOVQ(low, RDX)
	MULXQ(high, product, fold)
	BSWAPQ(low)
	ADDQ(low, n)
	ADDQ(high, n)
	XORQ(product, fold)
	ADDQ(fold, n)
	MOVQ(n, RDX)
	SHRQ(U8(37), n)
	XORQ(n, RDX)
	last := GP64()
	MOVQ(U64(0x165667919E3779F9), last)
	IMULQ(last, RDX)
	MOVQ(RDX, last)
	SHRQ(U8(32), last)
	XORQ(last, RDX)
}

// jumpIfMoved jumps where a counter, or the epoch, is not what it was, or is odd.
func jumpIfMoved(epochAt, countAt Mem, epoch, before GPVirtual, label string) {
	CMPQ(epochAt, epoch)
	JNE(LabelRef(label))
	CMPQ(countAt, before)
	JNE(LabelRef(label))
	ORL(before.As32(), epoch.As32())
	TESTB(U8(1), epoch.As8())
	JNE(LabelRef(label))
}

// lookBlocked ends a function with the first look of the hash in RDX.
func lookBlocked(t Register, regionAt, runtimeAt Mem) {
	of := func(at int) Mem { return Mem{Base: t, Disp: at} }

	Comment("Split the hash.")
	line, rest, low, fp := GP64(), GP64(), GP64(), GP64()
	MULXQ(of(blockedLines), rest, line)
	MOVQ(rest, RDX)
	SHLQ(U8(3), RDX)
	MULXQ(of(blockedValues), low, fp)
	INCQ(fp)

	Comment("The two buckets.")
	m, b1, b2 := GP64(), rest, GP64()
	MOVQ(U64(mixFirst), m)
	IMULQ(fp, m)
	SHRQ(U8(61), b1)
	RORXQ(U8(32), m, b2)
	MOVWLZX(b2.As16(), b2.As32())
	IMUL3L(U8(7), b2.As32(), b2.As32())
	SHRL(U8(16), b2.As32())
	INCL(b2.As32())
	XORL(b1.As32(), b2.As32())

	Comment("The masks of their overflow bits, and the pattern of the fingerprint.")
	bits, pattern := XMM(), XMM()
	mark := func(b GPVirtual) Mem {
		s := GP64()
		LEAL(Mem{Base: b, Index: b, Scale: 1, Disp: 48 | 2<<8}, s.As32()) // the place and the number of bits
		BEXTRQ(s, m, s)
		return Mem{Base: t, Disp: blockedMarks, Index: s, Scale: 8}
	}
	VMOVQ(mark(b1), bits)
	VMOVHPS(mark(b2), bits, bits)
	IMULQ(of(blockedOnes), fp)
	VMOVQ(fp, pattern)
	VPBROADCASTQ(pattern, pattern)

	Comment("The loads, in the order of the argument: counters, words, counters.")
	runtime, region, counter := GP64(), GP64(), GP64()
	MOVQ(runtimeAt, runtime)
	MOVQ(regionAt, region)
	MOVBLZX(line.As8(), counter.As32())
	count := Mem{Base: runtime, Disp: counters * 8, Index: counter, Scale: 8}
	SHLQ(U8(3), line)
	ADDQ(line, b1)
	ADDQ(line, b2)
	epoch, before, words, found := GP64(), GP64(), XMM(), GP32()
	MOVQ(Mem{Base: runtime}, epoch)
	MOVQ(count, before)
	VMOVQ(Mem{Base: region, Index: b1, Scale: 8}, words)
	VMOVHPS(Mem{Base: region, Index: b2, Scale: 8}, words, words)
	XORL(found, found)
	jumpIfMoved(Mem{Base: runtime}, count, epoch, before, "moved")

	Comment("A lane of zero where a slot has the fingerprint; both overflow bits.")
	x, y := XMM(), XMM()
	match := func() {
		VPXOR(pattern, words, x)
		VPAND(of(blockedLanes), x, x)
		VPSUBQ(of(blockedOnes), x, y)
		VPANDN(y, x, y)
		VPTEST(of(blockedHighs), y)
		SETNE(found.As8())
	}
	match()
	VPTEST(bits, words)
	JCS(LabelRef("blockedOpen"))
	Store(found.As8(), ReturnIndex(0))
	XORL(found, found)
	Store(found.As8(), ReturnIndex(1))
	RET()

	Label("moved")
	match()
	Label("blockedOpen")
	Store(found.As8(), ReturnIndex(0))
	XORL(U8(1), found)
	Store(found.As8(), ReturnIndex(1))
	RET()
}
