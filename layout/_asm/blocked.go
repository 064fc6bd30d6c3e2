package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// blockedOne is the first look for a single key. Out of the cache, what counts is how many lookups
// the processor starts while it waits for the line of one. A lookup holds its resources until its
// line arrives, and as many are under way as the scarcest resource allows. So its time changes in
// steps: one more instruction costs nothing, until one lookup fewer is under way. The resources are
//
//   - places in the reorder buffer: one for each instruction; two for MULX; one for a compare and
//     its branch;
//   - general registers that are written;
//   - loads;
//   - PDEP or PEXT that wait for a line, of which there may be few.
//
// The scarce one differs between the looks, and one kind is traded for another: lookBlockedWide is
// short of loads and shifts where it could load a mask; hashKeyWide is short of general registers
// and writes vector registers where that takes no more instructions.
//
// The two words are the lanes of a register; constants are operands in memory. A jump leads to what
// a home line does not settle, since that is rare.
func blockedOne() {
	TEXT("one", NOSPLIT, "func(t *table, v *view, hash uint64) (found, open bool)")
	Doc("one needs AVX2, BMI1 and BMI2.")
	Pragma("noescape")
	t := Load(Param("t"), GP64())
	view := Load(Param("v"), GP64())
	Load(Param("hash"), RDX)
	lookBlocked(Mem{Base: t}, Mem{Base: view, Disp: viewRegion}, Mem{Base: view, Disp: viewRuntime}, both)
}

// splitBlocked splits the hash in RDX.
func splitBlocked(of func(at int) Mem) (line, rest, fp GPVirtual) {
	line, rest, fp = GP64(), GP64(), GP64()
	low := GP64()
	MULXQ(of(blockedLines), rest, line)
	MOVQ(rest, RDX)
	SHLQ(U8(3), RDX)
	MULXQ(of(blockedValues), low, fp)
	INCQ(fp)
	return line, rest, fp
}

// lookBlocked ends a function with the first look of the hash in RDX; the constants of the table
// are at t.
func lookBlocked(t, regionAt, runtimeAt Mem, end ending) {
	of := t.Offset

	Comment("Split the hash.")
	line, rest, fp := splitBlocked(of)

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
		return of(blockedMarks).Idx(s, 8)
	}
	VMOVQ(mark(b1), bits)
	VMOVHPS(mark(b2), bits, bits)
	IMULQ(of(blockedOnes), fp)
	VMOVQ(fp, pattern)
	VPBROADCASTQ(pattern, pattern)

	Comment("The loads, in the order of the argument: counters, words, counters.")
	line, runtime, count := places(line, regionAt, runtimeAt, false)
	epoch, before, words := move(Mem{Base: runtime}), move(count), XMM()
	VMOVQ(Mem{Base: line, Index: b1, Scale: 8}, words)
	VMOVHPS(Mem{Base: line, Index: b2, Scale: 8}, words, words)
	jumpIfMoved(Mem{Base: runtime}, count, epoch, before, "blockedOpen")

	Comment("Both overflow bits; a lane of zero where a slot has the fingerprint.")
	VPTEST(bits, words)
	JCS(LabelRef("blockedOpen"))
	match := func() {
		x, y := XMM(), XMM()
		VPXOR(pattern, words, x)
		VPAND(of(blockedLanes), x, x)
		VPSUBQ(of(blockedOnes), x, y)
		VPANDN(y, x, y)
		VPTEST(of(blockedHighs), y)
	}
	match()
	end(true)

	Label("blockedOpen")
	match()
	end(false)
}

// lookBlockedWide is lookBlocked with AVX-512. A permutation of the line's words brings the two to
// the front, so everything before it is done for both at once, in fewer instructions. The registers
// are the upper 16, which only AVX-512 has, so that no other code has to wait for their upper
// halves. The bits above the lanes of a word stay in it, since they borrow from none of them.
func lookBlockedWide(d Register) {
	of := func(at int) Mem { return Mem{Base: d, Disp: blockedConstants + at} }
	direct := func(at int) Mem { return Mem{Base: d, Disp: at} }
	bucket, mix, pattern, step, over, words, lower := X16, X17, X18, X19, X20, X21, X22
	found := K1

	Comment("Split the hash.")
	line, rest, fp := splitBlocked(of)

	Comment("The two buckets, the second one with d.")
	steps := inMemory("steps", 0, 7<<61)
	VPBROADCASTQ(rest, bucket)
	VPBROADCASTQ(fp, pattern)
	VPMULLQ_BCST(inMemory("mixFirst", mixFirst), pattern, mix)
	VPMULLQ_BCST(of(blockedOnes), pattern, pattern)
	VPSLLQ(U8(16), mix, step)
	VPMULHUW(steps, step, step) // by 7
	VPSUBQ(steps, step, step)   // and 1 more
	VPXORQ(step, bucket, bucket)
	VPSRLQ(U8(61), bucket, bucket)
	Comment("The numbers of their overflow bits.")
	VPADDQ(bucket, bucket, over)
	VPSRLVQ(over, mix, over)
	VPSLLQ(U8(14), over, over)
	VPSRLQ(U8(62), over, over)

	Comment("The loads, in the order of the argument: counters, words, counters.")
	line, runtime, count := places(line, direct(directRegion), direct(directRuntime), false)
	epoch, before := move(Mem{Base: runtime}), move(count)
	VPERMQ(Mem{Base: line}, Z16, Z21)
	jumpIfMoved(Mem{Base: runtime}, count, epoch, before, "inGo")

	Comment("Both overflow bits; a lane of zero where a slot has the fingerprint.")
	VPSRLVQ(over, words, over)
	VPTESTNMQ_BCST(of(blockedMarks), over, found)
	KORTESTB(found, found)
	JEQ(LabelRef("wideBeyond"))
	match := func() {
		VPXORQ(pattern, words, words)
		VPSUBQ_BCST(of(blockedOnes), words, lower)
		VPANDNQ(lower, words, lower)
		VPTESTMQ_BCST(of(blockedHighs), lower, found)
		KORTESTB(found, found)
	}
	match()
	SETNE(result(0))
	RET()

	Label("wideBeyond")
	beyond{"wide", of(blockedLines), line, fp, func(class GPVirtual) {
		b1, b2 := GP64(), GP64()
		VMOVQ(bucket, b1)
		VPEXTRQ(U8(1), bucket, b2)
		CMPQ(b2, b1)
		CMOVQCS(b2, b1)
		SHLQ(U8(stashLineBits), b1)
		ORQ(b1, class)
	}, func(line GPVirtual) {
		VPERMQ(Mem{Base: line}, Z16, Z21)
		match()
	}}.look(d)
}
