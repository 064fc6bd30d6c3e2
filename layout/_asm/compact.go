package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// The fields of a compact.
const (
	compactLines  = 8 * 0
	compactF      = 8 * 1
	compactR      = 8 * 2
	compactV      = 8 * 4
	compactCounts = 8 * 5
	compactValues = 8 * 15
	compactOnes   = 8 * 17
	compactHighs  = 8 * 18
)

// windowBits is how many bits of a line a load of eight bytes has from any bit on.
const windowBits = 57

const quotientBits = 6

// compactLine looks for a fingerprint in a line. What it gives are bytes that are 0 or
// 1. A run of more remainders than are in a window is long: the caller has to look in
// another way.
func compactLine() {
	TEXT("compactLine", NOSPLIT, "func(t *compact, l *Line, fp uint64) (found, beyond, long bool)")
	Doc("compactLine needs BMI1, BMI2 and POPCNT.")
	Pragma("noescape")
	t, line, fp := Load(Param("t"), GP64()), Load(Param("l"), GP64()), Load(Param("fp"), GP64())
	Comment("The quotient.")
	q := GP64()
	SHRXQ(move(Mem{Base: t, Disp: compactR}), fp, q)
	found, beyond, long := lookInLine(t, line, fp, q, 3)
	Store(found.As8(), ReturnIndex(0))
	Store(beyond.As8(), ReturnIndex(1))
	Store(long.As8(), ReturnIndex(2))
	RET()
}

// compactOne is the first look of one lookup, for tables whose counts are in two words.
// As in blockedOne, it is the number of instructions that counts.
func compactOne() {
	TEXT("compactOne", NOSPLIT, "func(t *compact, v *View, hash uint64) (found, open, long bool)")
	Doc("compactOne needs AVX, BMI1, BMI2 and POPCNT.")
	Pragma("noescape")
	t := Load(Param("t"), GP64())
	Load(Param("hash"), RDX)
	Comment("Split the hash.")
	line, q, fp := GP64(), GP64(), GP64()
	MULXQ(Mem{Base: t, Disp: compactLines}, q, line)
	shift := move(Mem{Base: t, Disp: compactF})
	NEGQ(shift) // a shift looks at the low six bits alone
	SHRXQ(shift, q, fp)
	SHRQ(U8(64-quotientBits), q)

	Comment("The counters, and where the line is.")
	counter, before := GP64(), XMM()
	MOVBLZX(line.As8(), counter.As32())
	count := func(runtime Register) Mem {
		return Mem{Base: runtime, Disp: counters * 8, Index: counter, Scale: 8}
	}
	view := Load(Param("v"), GP64())
	runtime := move(Mem{Base: view, Disp: viewRuntime})
	VMOVQ(Mem{Base: runtime}, before)
	VPINSRQ(U8(1), count(runtime), before, before)
	SHLQ(U8(6), line)
	ADDQ(Mem{Base: view, Disp: viewRegion}, line)

	found, beyond, long := lookInLine(t, line, fp, q, 2)

	Comment("The counters again; nothing moved in most lookups.")
	view = Load(Param("v"), GP64())
	runtime = move(Mem{Base: view, Disp: viewRuntime})
	epoch, own := GP64(), GP64()
	VMOVQ(before, epoch)
	VPEXTRQ(U8(1), before, own)
	Store(found.As8(), ReturnIndex(0))
	Store(long.As8(), ReturnIndex(2))
	CMPQ(Mem{Base: runtime}, epoch)
	JNE(LabelRef("moved"))
	CMPQ(count(runtime), own)
	JNE(LabelRef("moved"))
	ORL(own.As32(), epoch.As32())
	TESTB(U8(1), epoch.As8())
	JNE(LabelRef("moved"))
	Store(beyond.As8(), ReturnIndex(1))
	RET()

	Label("moved")
	XORL(U8(1), found.As32())
	Store(found.As8(), ReturnIndex(1))
	RET()
}

func move(from Op) GPVirtual {
	r := GP64()
	MOVQ(from, r)
	return r
}

// lookInLine looks for a fingerprint, of quotient q, in a line whose counts are in some
// words. There is no branch, and PDEP selects: the zero of a quotient is the bit of the
// complement of the counts that bit number q goes to. What it gives are bytes that are
// 0 or 1, but that the bits of found above the first byte are 0 as well.
func lookInLine(t, line, fp Register, q GPVirtual, words int) (found, beyond, long GPVirtual) {
	field := func(at int) Mem { return Mem{Base: t, Disp: at} }
	Comment("Where zero q of the counts is.")
	word := func(i int) GPVirtual {
		w := move(Mem{Base: line, Disp: 8 * i})
		NOTQ(w)
		return w
	}
	x, next := word(0), word(1)
	zeros, k, base := GP64(), move(q), GP64()
	POPCNTQ(x, zeros)
	XORL(base.As32(), base.As32())
	in := func(word, before GPVirtual, at uint64) {
		beyond, place := move(q), GP64()
		MOVL(U32(at), place.As32())
		SUBQ(before, beyond)
		CMOVQCC(word, x)
		CMOVQCC(beyond, k)
		CMOVQCC(place, base)
	}
	zeros1 := GP64()
	if words > 2 {
		POPCNTQ(next, zeros1)
		ADDQ(zeros, zeros1)
	}
	in(next, zeros, 64)
	if words > 2 {
		in(word(2), zeros1, 128)
	}
	z := GP64()
	XORL(z.As32(), z.As32())
	BTSQ(k, z)
	PDEPQ(x, z, z)
	TZCNTQ(z, z)
	ADDQ(base, z)

	Comment("The run of bits 1 behind it, and their remainders.")
	first := move(z)
	SUBQ(q, first)
	INCQ(z)
	limit := move(field(compactCounts))
	SUBQ(z, limit)
	at, run := move(z), GP64()
	SHRQ(U8(3), at)
	ANDL(U8(7), z.As32())
	SHRXQ(z, Mem{Base: line, Index: at, Scale: 1}, run)
	NOTQ(run)
	TZCNTQ(run, run)
	CMPQ(run, limit)
	CMOVQHI(limit, run)
	IMULQ(field(compactR), run)
	IMULQ(field(compactR), first)
	ADDQ(field(compactCounts), first)
	last, shift, got := GP64(), GP64(), GP64()
	at = move(first)
	SHRQ(U8(3), at)
	MOVL(U32(56), last.As32())
	CMPQ(at, last)
	CMOVQHI(last, at)
	LEAQ(Mem{Base: at, Index: at, Scale: 1}, shift)
	SHLQ(U8(2), shift)
	SUBQ(shift, first)
	SHRXQ(first, Mem{Base: line, Index: at, Scale: 1}, got)

	Comment("A lane of zero where one of the run is the remainder.")
	pattern := move(fp)
	ANDQ(field(compactValues), pattern)
	IMULQ(field(compactOnes), pattern)
	XORQ(pattern, got)
	lower := move(got)
	SUBQ(field(compactOnes), lower)
	ANDNQ(lower, got, got)
	ANDQ(field(compactHighs), got)
	BZHIQ(run, got, got)
	found, long, beyond = GP64(), GP64(), GP64()
	XORL(found.As32(), found.As32())
	TESTQ(got, got)
	SETNE(found.As8())
	CMPQ(run, U8(windowBits))
	SETHI(long.As8())

	Comment("Both overflow bits; v of them end the last word.")
	m := move(U64(mixFirst))
	IMULQ(fp, m)
	o := move(m)
	SHRQ(U8(32), o)
	MOVWLZX(o.As16(), o.As32())
	v := move(field(compactV))
	IMULQ(v, o)
	SHRQ(U8(16), o)
	SHRQ(U8(48), m)
	o2 := GP64()
	LEAQ(Mem{Base: v, Disp: -1}, o2)
	IMULQ(o2, m)
	SHRQ(U8(16), m)
	LEAQ(Mem{Base: o, Index: m, Scale: 1, Disp: 1}, o2)
	wrapped := move(o2)
	SUBQ(v, wrapped)
	CMOVQCC(wrapped, o2)
	SUBQ(v, o)
	SUBQ(v, o2)
	mask := GP64()
	XORL(mask.As32(), mask.As32())
	BTSQ(o, mask)
	BTSQ(o2, mask)
	ANDNQ(mask, move(Mem{Base: line, Disp: 56}), mask)
	SETEQ(beyond.As8())
	ANDNL(beyond.As32(), found.As32(), beyond.As32())
	ANDL(U8(1), beyond.As32())
	return found, beyond, long
}
