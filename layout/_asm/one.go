package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// blockedOne is the first look of one lookup. The two words are the lanes of a
// register: what waits for the memory is few operations, most of them not of the
// integer units, and so the processor begins the next lookups meanwhile: in 1 GiB it
// takes 0.65 of the time that Go takes.
func blockedOne() {
	TEXT("blockedOne", NOSPLIT, "func(t *blocked, region, runtime *uint64, hash uint64) (found, open bool)")
	Doc("blockedOne needs AVX2 and BMI2.")
	Pragma("noescape")
	t := Load(Param("t"), GP64())
	region := Load(Param("region"), GP64())
	runtime := Load(Param("runtime"), GP64())
	Load(Param("hash"), RDX)
	field := func(i int) Mem { return Mem{Base: t, Disp: 8 * i} } // of a blocked
	lines, values, ones, highs, lanes := field(0), field(1), field(2), field(3), field(4)

	Comment("Split the hash.")
	line, rest, low, fp := GP64(), GP64(), GP64(), GP64()
	MULXQ(lines, rest, line)
	MOVQ(rest, RDX)
	SHLQ(U8(3), RDX)
	MULXQ(values, low, fp)
	INCQ(fp)

	Comment("The two buckets.")
	m, b1, b2 := GP64(), GP64(), GP64()
	MOVQ(U64(mixFirst), m)
	IMULQ(fp, m)
	MOVQ(rest, b1)
	SHRQ(U8(61), b1)
	MOVQ(m, b2)
	SHRQ(U8(32), b2)
	MOVWLZX(b2.As16(), b2.As32())
	IMUL3Q(U8(7), b2, b2)
	SHRQ(U8(16), b2)
	INCQ(b2)
	XORQ(b1, b2)
	ANDL(U8(7), b2.As32())

	Comment("The masks of their overflow bits, and the pattern of the fingerprint.")
	unit := GP64()
	MOVL(U32(1), unit.As32())
	bit := func(b Register) VecVirtual {
		s, x := GP64(), XMM()
		LEAQ(Mem{Base: b, Index: b, Scale: 1, Disp: 48}, s)
		SHRXQ(s, m, s)
		ORL(U8(overflowLow), s.As32()) // a shift looks at the low six bits alone
		SHLXQ(s, unit, s)
		VMOVQ(s, x)
		return x
	}
	bits, pattern := XMM(), XMM()
	VPUNPCKLQDQ(bit(b2), bit(b1), bits)
	IMULQ(ones, fp)
	VMOVQ(fp, pattern)
	VPBROADCASTQ(pattern, pattern)
	constant := func(m Mem) VecVirtual {
		x := XMM()
		VMOVDDUP(m, x)
		return x
	}
	one, all, high := constant(ones), constant(lanes), constant(highs)

	Comment("The loads, in the order of the argument: counters, words, counters.")
	counter, at := GP64(), GP64()
	MOVBLZX(line.As8(), counter.As32())
	MOVQ(line, at)
	SHLQ(U8(6), at)
	ADDQ(region, at)
	epoch, before := GP64(), GP64()
	count := Mem{Base: runtime, Disp: counters * 8, Index: counter, Scale: 8}
	MOVQ(Mem{Base: runtime}, epoch)
	MOVQ(count, before)
	words := XMM()
	VMOVQ(Mem{Base: at, Index: b1, Scale: 8}, words)
	VPINSRQ(U8(1), Mem{Base: at, Index: b2, Scale: 8}, words, words)
	still, after := GP64(), GP64()
	MOVQ(Mem{Base: runtime}, still)
	MOVQ(count, after)

	Comment("still: what is odd, or is not what it was.")
	XORQ(epoch, still)
	XORQ(before, after)
	ORQ(after, still)
	ORQ(before, epoch)
	ANDL(U8(1), epoch.As32())
	ORQ(epoch, still)
	unstable := GP32()
	SETNE(unstable.As8())

	Comment("A lane of zero where a slot has the fingerprint; both overflow bits.")
	x, y := XMM(), XMM()
	VPXOR(pattern, words, x)
	VPAND(all, x, x)
	VPSUBQ(one, x, y)
	VPANDN(y, x, y)
	found, open := GP32(), GP32()
	VPTEST(bits, words) // CF: words has them all
	SETCS(open.As8())
	VPTEST(high, y)
	SETNE(found.As8())
	ORL(unstable, open)
	ANDNL(open, found, open)
	ANDL(U8(1), open)
	Store(found.As8(), ReturnIndex(0))
	Store(open.As8(), ReturnIndex(1))
	RET()
}
