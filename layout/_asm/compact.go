package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// A width is a lookWidth of package compact: how a kernel looks in a line.
type width struct {
	name  string // of the functions
	needs string
	looks int // bytes of each remainder that are compared, or 0 for a look at the run alone
}

var widths = []width{
	{"Narrow", "BMI1, BMI2 and POPCNT", 0},
	{"Short", vbmi, 1},
	{"Long", vbmi, 2},
	{"Longest", vbmi, 4},
}

const vbmi = "AVX-512 F, BW, DQ, VL and VBMI, BMI1, BMI2 and POPCNT"

// compactOne is the first look for a single key, in tables whose counts are in two words at most. It
// leaves a lookup open if its run is long.
//
// If the lines are not in a cache, the time of a lookup depends on how many lookups the processor
// starts while it waits for the line of the first. A lookup holds its resources until its line
// arrives, and the scarcest resource limits how many lookups are under way. So the time of a lookup
// changes in steps: one more instruction costs nothing, until one lookup fewer is under way. The
// resources are
//
//   - places in the reorder buffer: one for each instruction; two for MULX; one for a compare and
//     its branch;
//   - general registers that are written;
//   - loads;
//   - instructions PDEP or PEXT that wait for a line: only a few can wait at once.
//
// The scarcest resource is not the same in all looks, and a look can use more of another one instead:
// where general registers are scarce, hashKeyWide writes vector registers. Constants are operands in
// memory. The code for a lookup that goes on beyond the home line is behind a jump, since this is rare.
func compactOne() {
	TEXT("one", NOSPLIT, "func(t *table, v *view, hash uint64) (found, open bool)")
	Doc("one needs BMI1, BMI2 and POPCNT.")
	Pragma("noescape")
	t := Load(Param("t"), GP64())
	v := Load(Param("v"), GP64())
	Load(Param("hash"), RDX)
	lookNarrow(t, Mem{Base: v, Disp: viewRegion}, Mem{Base: v, Disp: viewRuntime}, both)
}

// split splits the hash in RDX into the line, the quotient and the fraction whose first bits are the
// remainder.
func split(t Register, lines Mem) (line, q, fraction GPVirtual) {
	Comment("Split the hash.")
	line, q, fraction = GP64(), GP64(), GP64()
	MULXQ(lines, RDX, line)
	MULXQ(Mem{Base: t, Disp: tableQuotients}, fraction, q)
	return line, q, fraction
}

// remainderOf shifts the remainder out of the fraction.
func remainderOf(t Register, fraction GPVirtual) GPVirtual {
	r := GP64()
	SHRXQ(move(Mem{Base: t, Disp: tableShift}), fraction, r)
	return r
}

// lookNarrow ends a function with the first look of the hash in RDX.
func lookNarrow(t Register, regionAt, runtimeAt Mem, end ending) {
	line, q, remainder := split(t, Mem{Base: t, Disp: tableLines})
	remainder = remainderOf(t, remainder)

	Comment("Load in the order of the proof in lookup.go: counters, words, counters.")
	line, runtime, count := places(line, regionAt, runtimeAt)
	epoch, before := move(Mem{Base: runtime}), move(count)

	matches, run := lookInRun(t, line, remainder, q)
	bits := overflowBits(line)

	Comment("Load the counters again.")
	jumpIfMoved(Mem{Base: runtime}, count, epoch, before, "open")

	Comment("The overflow bit.")
	BTW(remainder.As16(), bits.As16())
	JCS(LabelRef("open"))
	BZHIQ(run, matches, matches)
	end(true)

	Label("long")
	XORL(matches.As32(), matches.As32())
	Label("open")
	BZHIQ(run, matches, matches)
	end(false)
}

// selectRun returns how many items of a line have a quotient below q, and how many have the quotient q.
// If more than windowBits items may have the quotient q, run is larger than windowBits. The counts are
// in two words. There are no branches. PDEP finds the zero of the quotient: with the complement of the
// counts as its mask, PDEP moves bit q to set bit number q of the mask, which is zero number q of the
// counts.
func selectRun(line Register, q GPVirtual) (first, run GPVirtual) {
	Comment("Find zero number q of the counts: in the first word, or in the second if the first has fewer zeros.")
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

	Comment("The run: the bits 1 after this zero.")
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

// lookInRun looks for a remainder in the run of quotient q. Its only branch goes to "long". Each
// matching remainder of the run has a bit among the first run bits of matches; the bits behind these
// are arbitrary.
func lookInRun(t, line Register, remainder, q GPVirtual) (matches, run GPVirtual) {
	field := func(at int) Mem { return Mem{Base: t, Disp: at} }
	first, run := selectRun(line, q)

	Comment("The remainders of the run are in eight bytes that end at the last of them.")
	IMULQ(field(tableR), run)
	IMULQ(field(tableR), first)
	ADDQ(field(tableCounts), first)
	end, got := GP64(), GP64()
	LEAQ(Mem{Base: first, Index: run, Scale: 1, Disp: 7}, end)
	Comment("With short counts, these may begin before the line: take its first eight bytes.")
	CMPQ(end, U8(64))
	CMOVQCS(inMemory("sixtyFour", 64), end)
	at := move(end)
	SHRQ(U8(3), at)
	ANDL(I8(-8), end.As32())
	SUBQ(end, first) // a shift uses only the low six bits of a place
	Comment("In a line that is being changed, the counts may lead anywhere: stay in the line.")
	CMPQ(at, U8(64))
	CMOVQHI(inMemory("sixtyFour", 64), at)
	SHRXQ(first, Mem{Base: line, Index: at, Scale: 1, Disp: -8}, got)

	Comment("A lane is zero where a remainder of the run matches.")
	pattern := move(remainder)
	IMULQ(field(tableOnes), pattern)
	XORQ(pattern, got)
	lower := move(got)
	SUBQ(field(tableOnes), lower)
	ANDNQ(lower, got, got)
	ANDQ(field(tableHighs), got)
	CMPQ(run, U8(windowBits))
	JHI(LabelRef("long"))
	return got, run
}

// overflowBits loads the overflow bits of a line, its last 16 bits. The instruction BTW then tests
// the bit whose number is the low four bits of a remainder.
func overflowBits(line GPVirtual) GPVirtual {
	bits := GP64()
	MOVWLZX(Mem{Base: line, Disp: lineBytes - 2}, bits.As32())
	return bits
}

// lookWide is lookNarrow for tables where a register has a byte for each slot. It compares all
// remainders at once, and afterwards selects the remainders of the run. So it need not compute where the
// run is, no run is too long, and the chain of instructions that depend on the line is half as long.
func lookWide(d Register, looks int) {
	table := move(Mem{Base: d, Disp: directTable})
	line, q, fraction := split(table, Mem{Base: d, Disp: directLines})
	remainder := remainderOf(table, fraction)

	Comment("Load in the order of the proof in lookup.go: counters, words, counters.")
	line, runtime, count := places(line, Mem{Base: d, Disp: directRegion}, Mem{Base: d, Disp: directRuntime})
	epoch, before := move(Mem{Base: runtime}), move(count)
	vectors := move(Mem{Base: table, Disp: tableVectors})
	v := vectorsOf(vectors, looks)
	matches := v.matches(table, line, remainder, fraction)
	inFirst, inSecond := matchesOfRun(line, q, matches, Mem{Base: table, Disp: tableInSecond})
	bits := overflowBits(line)

	Comment("Load the counters again.")
	jumpIfMoved(Mem{Base: runtime}, count, epoch, before, "inGo")
	Comment("The overflow bit.")
	BTW(remainder.As16(), bits.As16())
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

// wide holds the vectors of a look in registers.
type wide struct{ from, shifts, values []VecPhysical }

// vectorsOf loads the vectors of a number of looks.
func vectorsOf(vectors Register, looks int) (v wide) {
	next := 16
	load := func(at int) VecPhysical {
		z := []VecPhysical{Z16, Z17, Z18, Z19, Z20, Z21, Z22, Z23}[next-16]
		next++
		VMOVDQU64(Mem{Base: vectors, Disp: at}, z)
		return z
	}
	for i := range looks {
		v.from = append(v.from, load(vectorFrom+lineBytes*i))
		v.shifts = append(v.shifts, load(vectorShifts+lineBytes*i))
	}
	if looks == 1 {
		v.values = append(v.values, load(vectorValues))
	}
	return v
}

// matches returns a word with a bit for each slot, in order. The bit is set if the slot has the
// remainder, which is the first bits of the fraction.
func (v wide) matches(t Register, line, remainder, fraction GPVirtual) GPVirtual {
	Comment("The slots that have the remainder.")
	slots, pattern := Z24, Z25
	first := func(n uint8) GPVirtual { // bits of the fraction
		part := GP64()
		RORXQ(U8(64-n), fraction, part)
		return part
	}
	for i, from := range v.from {
		part := remainder // its low byte is compared
		switch {
		case i == 0:
		case i == len(v.from)-1:
			part = first(8)
		case i == len(v.from)-2:
			part = first(16)
		default:
			part = move(remainder)
			SHRQ(U8(8), part)
		}
		VPERMB(Mem{Base: line}, from, slots)
		VPMULTISHIFTQB(slots, v.shifts[i], slots)
		VPBROADCASTB(part.As32(), pattern)
		switch {
		case v.values != nil:
			VPXORQ(pattern, slots, slots)
			VPTESTNMB(v.values[0], slots, K1)
		case i == 0: // remainders fill their bytes: no mask is needed
			VPCMPEQB(pattern, slots, K1)
		default:
			VPCMPEQB(pattern, slots, K1, K1)
		}
	}
	matches := GP64()
	KMOVQ(K1, matches)
	PEXTQ(Mem{Base: t, Disp: tableInUse}, matches, matches)
	return matches
}

// matchesOfRun returns, in two words, a bit for each match in the run of quotient q. matches has a bit
// for each slot, in order. The counts are in two words at most. First, PDEP moves the bit of each slot
// to the set bit that its item has in the counts. Then the run is selected without computing where it
// is. In the counts, the zero of the quotient is set, and 1 is added there: the carry clears this bit
// and the set bits of the run after it, and stops at the zero that ends the run. So the set bits that
// the addition has cleared are the run. (PDEP moves matches of free slots to set bits of remainders,
// behind the counts; no carry gets there.) inSecond has the bits of the second word that may be the
// zero of the quotient. If the first word is all zeros, the shift by 64 does nothing and selects the
// wrong zero. This does no harm, since no run follows that zero.
func matchesOfRun(line Register, q, matches GPVirtual, inSecond Mem) (low, high GPVirtual) {
	Comment("The zero of the quotient in the first word: PDEP moves bit number q there.")
	bit, zeros, at0 := GP64(), GP64(), GP64()
	x0, n0 := move(Mem{Base: line}), GP64()
	SHLXQ(q, inMemory("firstBit", 1), bit)
	ANDNQ(inMemory("allBits", 1<<64-1), x0, n0)
	PDEPQ(n0, bit, at0)
	POPCNTQ(n0, zeros)
	SHRXQ(zeros, bit, bit)
	Comment("Move each match to the one of its item in the counts.")
	low, high = GP64(), GP64()
	PDEPQ(x0, matches, low)
	NEGQ(zeros)
	SHRXQ(zeros, matches, high)

	Comment("The same for the second word.")
	x1, n1, at1 := move(Mem{Base: line, Disp: 8}), GP64(), GP64()
	ANDNQ(inSecond, x1, n1)
	PDEPQ(n1, bit, at1)
	PDEPQ(x1, high, high)

	Comment("Select the run: the carry clears its ones.")
	ORQ(at0, x0)
	ORQ(at1, x1)
	ADDQ(at0, x0)
	ADCQ(at1, x1)
	ANDNQ(low, x0, low)
	ANDNQ(high, x1, high)
	return low, high
}
