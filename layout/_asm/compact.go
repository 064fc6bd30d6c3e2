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
	Doc("compactOne needs BMI1, BMI2 and POPCNT.")
	Pragma("noescape")
	t := Load(Param("t"), GP64())
	Load(Param("hash"), RDX)
	view := func() (region, runtime Mem) {
		v := Load(Param("v"), GP64())
		return Mem{Base: v, Disp: viewRegion}, Mem{Base: v, Disp: viewRuntime}
	}
	lookCompact(t, view, true)
}

// compactKey is compactOne with the hash of a key of 9 to 16 bytes before it. Where the run
// is long, the look is open.
func compactKey() {
	TEXT("compactKey", NOSPLIT, "func(d *Direct, key *byte, n int) (found, open bool)")
	Doc("compactKey needs BMI1, BMI2 and POPCNT.")
	Pragma("noescape")
	d := Load(Param("d"), GP64())
	hashKey(d)
	view := func() (region, runtime Mem) {
		d := Load(Param("d"), GP64())
		return Mem{Base: d, Disp: directRegion}, Mem{Base: d, Disp: directRuntime}
	}
	lookCompact(move(Mem{Base: d, Disp: directCompact}), view, false)
}

// lookCompact ends a function with the first look of the hash in RDX. view loads anew
// what says where the words are: there are not registers enough to keep it.
func lookCompact(t Register, view func() (region, runtime Mem), tellsLong bool) {
	Comment("Split the hash.")
	line, q, fp := GP64(), GP64(), GP64()
	MULXQ(Mem{Base: t, Disp: compactLines}, q, line)
	shift := move(Mem{Base: t, Disp: compactF})
	NEGQ(shift) // a shift looks at the low six bits alone
	SHRXQ(shift, q, fp)
	SHRQ(U8(64-quotientBits), q)

	Comment("The counters, and where the line is.")
	counter, sum := GP64(), GP64()
	MOVBLZX(line.As8(), counter.As32())
	count := func(runtime Register) Mem {
		return Mem{Base: runtime, Disp: counters * 8, Index: counter, Scale: 8}
	}
	regionAt, runtimeAt := view()
	runtime := move(runtimeAt)
	odd, own := move(Mem{Base: runtime}), move(count(runtime))
	LEAQ(Mem{Base: odd, Index: own, Scale: 1}, sum) // counters only go up: so it stays where both do
	ORL(own.As32(), odd.As32())
	SHLQ(U8(6), line)
	ADDQ(regionAt, line)

	found, beyond, long := lookInLine(t, line, fp, q, 2)

	Comment("The counters again; nothing moved in most lookups.")
	_, runtimeAt = view()
	runtime = move(runtimeAt)
	after := move(Mem{Base: runtime})
	ADDQ(count(runtime), after)
	SUBQ(sum, after)
	ANDL(U8(1), odd.As32())
	Store(found.As8(), ReturnIndex(0))
	if tellsLong {
		Store(long.As8(), ReturnIndex(2))
	} else {
		ORL(long.As32(), beyond.As32())
	}
	ORQ(odd, after)
	JNE(LabelRef("moved"))
	Store(beyond.As8(), ReturnIndex(1))
	RET()

	Label("moved")
	XORL(U8(1), found.As32())
	if !tellsLong {
		ORL(long.As32(), found.As32())
	}
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
	found, long, beyond = GP64(), GP64(), GP64()
	XORL(found.As32(), found.As32())
	BZHIQ(run, got, got)
	SETNE(found.As8())
	CMPQ(run, U8(windowBits))
	SETHI(long.As8())

	Comment("Both overflow bits; v of them end the last word.")
	m := move(U64(mixFirst))
	IMULQ(fp, m)
	o := GP64()
	RORXQ(U8(32), m, o)
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
	SUBQ(v, o) // of the places in the word, the low six bits count
	SUBQ(v, o2)
	bits := Mem{Base: line, Disp: 56}
	SHRXQ(o, bits, o)
	SHRXQ(o2, bits, beyond)
	ANDL(o.As32(), beyond.As32())
	ANDNL(beyond.As32(), found.As32(), beyond.As32())
	ANDL(U8(1), beyond.As32())
	return found, beyond, long
}
