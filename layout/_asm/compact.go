package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// compactOne is the first look for a single key, in tables whose counts are in two words. As in
// blockedOne, the number of instructions counts. A look at a long run stays open.
func compactOne() {
	TEXT("one", NOSPLIT, "func(t *table, v *view, hash uint64) (found, open bool)")
	Doc("one needs BMI1, BMI2 and POPCNT.")
	Pragma("noescape")
	t := Load(Param("t"), GP64())
	v := Load(Param("v"), GP64())
	Load(Param("hash"), RDX)
	lookCompact(t, Mem{Base: v, Disp: viewRegion}, Mem{Base: v, Disp: viewRuntime}, both)
}

// lookCompact ends a function with the first look of the hash in RDX.
func lookCompact(t Register, regionAt, runtimeAt Mem, end ending) {
	Comment("Split the hash.")
	line, q, fp := GP64(), GP64(), GP64()
	MULXQ(Mem{Base: t, Disp: compactLines}, q, line)
	SHRXQ(move(Mem{Base: t, Disp: compactShift}), q, fp)
	SHRQ(U8(64-quotientBits), q)

	Comment("The loads, in the order of the argument: counters, words, counters.")
	line, runtime, count := places(line, regionAt, runtimeAt, false)
	epoch, before := move(Mem{Base: runtime}), move(count)

	matches, run := lookInLine(t, line, fp, q)
	bits := overflowBits(line)

	Comment("The counters again.")
	jumpIfMoved(Mem{Base: runtime}, count, epoch, before, "open")

	Comment("The overflow bit.")
	BTW(fp.As16(), bits.As16())
	JCS(LabelRef("open"))
	BZHIQ(run, matches, matches)
	end(true)

	Label("long")
	XORL(matches.As32(), matches.As32())
	Label("open")
	BZHIQ(run, matches, matches)
	end(false)
}

// matchesOfRun returns, in two words, a bit for each match in the run of quotient q; bit is 1<<q, and
// matches has a bit for each slot, in order. The counts are in two words. The place of the run need not
// be computed: each match is deposited at the bit of the counts that its item has, and a bit added twice
// at the zero of the quotient carries through the ones of its run and clears them, up to the 0 that
// ends it. (Behind the counts, matches of free slots are at ones of remainders, which no carry
// reaches.) inCounts has the bits of the second word that may be that zero: if the first word is all
// zeros, the shift by 64 does nothing and selects the wrong zero; harmless, since no run follows it.
func matchesOfRun(line Register, bit, matches GPVirtual, inCounts Mem) (low, high GPVirtual) {
	Comment("The zero of the quotient: that of the counts that bit number q goes to.")
	zeros, at0, at1, inSecond := GP64(), GP64(), GP64(), GP64()
	x0, x1, n0, n1 := move(Mem{Base: line}), move(Mem{Base: line, Disp: 8}), GP64(), GP64()
	ANDNQ(inMemory("allBits", 1<<64-1), x0, n0)
	PDEPQ(n0, bit, at0)
	POPCNTQ(n0, zeros)
	SHRXQ(zeros, bit, inSecond)
	ANDNQ(inCounts, x1, n1)
	PDEPQ(n1, inSecond, at1)

	Comment("The matches at the ones of their items.")
	low, high = GP64(), GP64()
	PDEPQ(x0, matches, low)
	NEGQ(zeros)
	SHRXQ(zeros, matches, high)
	PDEPQ(x1, high, high)

	Comment("Those of the run, which the carry clears.")
	ORQ(at0, x0)
	ORQ(at1, x1)
	ADDQ(at0, x0)
	ADCQ(at1, x1)
	ANDNQ(low, x0, low)
	ANDNQ(high, x1, high)
	return low, high
}

// selectRun returns how many items of a line have a quotient below q, and how many have q, up to
// windowBits, or a larger number if there may be more. The counts are in two words. It is branch-free,
// and PDEP selects: the zero of a quotient is the bit of the complement of the counts that bit number q
// goes to.
func selectRun(line Register, q GPVirtual) (first, run GPVirtual) {
	Comment("Where zero q of the counts is: in the first word that has so many.")
	bit, before, low := GP64(), GP64(), GP64()
	SHLXQ(q, inMemory("firstBit", 1), bit)
	x := move(Mem{Base: line})
	NOTQ(x)
	PDEPQ(x, bit, low)
	POPCNTQ(x, before)
	x, first = move(Mem{Base: line, Disp: 8}), GP64()
	NOTQ(x)
	SHRXQ(before, bit, first)
	PDEPQ(x, first, first)
	TZCNTQ(first, first)
	ADDQ(U8(64), first)
	TZCNTQ(low, low)
	CMOVQCC(low, first)

	Comment("The run of bits 1 behind it.")
	z := GP64()
	LEAQ(Mem{Base: first, Disp: 1}, z)
	SUBQ(q, first)
	at := move(z)
	run = GP64()
	SHRQ(U8(3), at)
	ANDL(U8(7), z.As32())
	SHRXQ(z, Mem{Base: line, Index: at, Scale: 1}, run)
	NOTQ(run)
	TZCNTQ(run, run)
	return first, run
}

// lookInLine looks for a fingerprint, of quotient q, in a line whose counts are in two words. Its only
// branch is the one to "long". Among the first run bits of matches, each matching remainder of the run
// has one; the bits behind them are arbitrary.
func lookInLine(t, line, fp Register, q GPVirtual) (matches, run GPVirtual) {
	field := func(at int) Mem { return Mem{Base: t, Disp: at} }
	first, run := selectRun(line, q)

	Comment("Their remainders are in the eight bytes that end with that of the last bit.")
	IMULQ(field(compactR), run)
	IMULQ(field(compactR), first)
	ADDQ(field(compactCounts), first)
	end, got := GP64(), GP64()
	LEAQ(Mem{Base: first, Index: run, Scale: 1, Disp: 7}, end)
	at := move(end)
	SHRQ(U8(3), at)
	ANDL(I8(-8), end.As32())
	SUBQ(end, first) // of the places in a word, the low six bits count
	Comment("A line that is being changed may say that they are anywhere.")
	CMPQ(at, U8(64))
	CMOVQHI(inMemory("sixtyFour", 64), at)
	SHRXQ(first, Mem{Base: line, Index: at, Scale: 1, Disp: -8}, got)

	Comment("A lane of zero where one of the run is the remainder.")
	pattern := move(fp)
	ANDQ(field(compactValues), pattern)
	IMULQ(field(compactOnes), pattern)
	XORQ(pattern, got)
	lower := move(got)
	SUBQ(field(compactOnes), lower)
	ANDNQ(lower, got, got)
	ANDQ(field(compactHighs), got)
	CMPQ(run, U8(windowBits))
	JHI(LabelRef("long"))
	return got, run
}

// overflowBits loads those of a line: its last 16 bits. BTW tests the one that the low four bits of a
// fingerprint say.
func overflowBits(line GPVirtual) GPVirtual {
	bits := GP64()
	MOVWLZX(Mem{Base: line, Disp: lineBytes - 2}, bits.As32())
	return bits
}

// lookCompactWide is lookCompact for remainders of 6 to 16 bits, each in a byte of a register: all are
// compared at once, and those of the run are selected afterwards. The place of the run need not be
// computed, no run is too long, and the chain of instructions that depend on the line is half as long.
// Of remainders of more than 8 bits first the low 8 are compared, then the high 8, in two looks. For
// these the hash is multiplied by 64 times the lines, so that the high word has 64 times the line plus
// the quotient, which needs no shift. (With r=6, the low 7 bits of a fingerprint include one of the
// quotient, which would be lost.)
func lookCompactWide(d Register, looks int) {
	of := func(at int) Mem { return Mem{Base: d, Disp: at} }
	slots, by, pattern := Z16, Z17, Z18

	Comment("Split the hash.")
	line, low, rest := GP64(), GP64(), GP64()
	q, high := rest, low
	if looks == 1 {
		MULXQ(of(directLines), rest, line)
		PEXTQ(of(compactDirectLow), rest, low)
		RORXQ(U8(64-quotientBits), rest, rest)
	} else {
		q, high = line, rest
		MULXQ(of(compactDirectLines64), rest, line)
		PEXTQ(of(compactDirectLow), rest, low)
		RORXQ(U8(64-8), rest, rest)
	}

	Comment("The loads, in the order of the argument: counters, words, counters.")
	bit := GP64()
	SHLXQ(q, inMemory("firstBit", 1), bit)
	line, runtime, count := places(line, of(directRegion), of(directRuntime), looks == 2)
	epoch, before := move(Mem{Base: runtime}), move(count)

	Comment("The slots that have the remainder.")
	vector := func(i int) Mem { return of(compactDirectSlots + lineBytes*i) }
	VMOVDQU64(vector(0), slots)
	VPERMB(Mem{Base: line}, slots, slots)
	compare := func(bits GPVirtual, look int, into ...Op) {
		VMOVDQU64(vector(1+look), by)
		VPMULTISHIFTQB(slots, by, by)
		VPBROADCASTB(bits.As32(), pattern)
		if looks == 2 { // all bits of the bytes are of remainders
			VPCMPEQB(append([]Op{pattern, by}, into...)...)
			return
		}
		VPXORQ(pattern, by, slots)
		VPTESTNMB(append([]Op{vector(3), slots}, into...)...)
	}
	compare(low, 0, K1)
	if looks == 2 {
		compare(high, 1, K1, K1)
	}
	matches := GP64()
	KMOVQ(K1, matches)
	PEXTQ(of(compactDirectInUse), matches, matches)
	inFirst, inSecond := matchesOfRun(line, bit, matches, of(compactDirectInCounts))
	bits := overflowBits(line)

	Comment("The counters again.")
	jumpIfMoved(Mem{Base: runtime}, count, epoch, before, "inGo")
	Comment("The overflow bit.")
	BTW(low.As16(), bits.As16())
	JCS(LabelRef("away"))
	ORQ(inFirst, inSecond)
	SETNE(result(0))
	RET()

	Label("away")
	ORQ(inFirst, inSecond)
	JEQ(LabelRef("inGo"))
	SETNE(result(0))
	RET()
}
