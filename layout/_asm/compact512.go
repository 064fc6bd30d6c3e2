package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// Truth tables of VPTERNLOGQ, of the destination A, then B, then C, and predicates of
// VPCMPUQ.
const (
	not    = 0x0F // ^A
	atMost = 5    // the second operand is at most the third
	above  = 6    // the third operand is above the second
)

// compactAVX512 looks up eight hashes at once, in the lanes of a register, in tables whose counts are in
// two words. It selects by halves: in the word that has the zero of the quotient the byte, in that the
// nibble, the pair and the bit, each by the number of bits in the lower half (Vigna, "Broadword
// Implementation of Rank/Select Queries", 2008).
//
// In a set, the eight are in tables of their own, which have all but the number of lines in common.
func compactAVX512(name string, shards bool) {
	k := begin(name, name+" needs AVX-512 F and DQ, and BMI2.", shards)
	field := func(off int) Mem {
		x, m := GP64(), AllocLocal(8)
		MOVQ(Mem{Base: RAX, Disp: off}, x)
		MOVQ(x, m)
		return m
	}
	values, counts, f := field(offValues), field(offCounts), field(offF)
	ones, highs, r := constant(offOnes), constant(offHighs), constant(offR)
	one := number(1)
	pairs, nibbles := number(0x5555555555555555), number(0x3333333333333333)
	bytes, every, tops := number(0x0F0F0F0F0F0F0F0F), number(0x0101010101010101), number(0x8080808080808080)
	low8, firstOverflow := inMemory("low8", 1<<8-1), inMemory("firstOverflow", 64-directions)
	fifteen, seven, three, four, two := inMemory("fifteen", 15), inMemory("seven", 7), inMemory("three", 3), inMemory("four", 4), inMemory("two", 2)
	sixtyFour, fiftySix, wide, striped := inMemory("sixtyFour", 64), inMemory("fiftySix", 56), inMemory("wide", windowBits), inMemory("striped", stripes-1)

	// To avo's register allocator, what KXNORB reads is live from the start: so all gathers
	// share one mask.
	gather := func(base Register, disp int, index VecVirtual, scale uint8) VecVirtual {
		w := ZMM()
		KXNORB(K1, K1, K1)
		VPXORQ(w, w, w)
		VPGATHERQQ(Mem{Base: base, Disp: disp, Index: index, Scale: scale}, K1, w)
		return w
	}
	// sums returns the number of set bits of x in each pair of bits, in each nibble, and in
	// each byte with those below it.
	sums := func(x VecVirtual) (s2, s4, s8 VecVirtual) {
		s2, s4, s8 = ZMM(), ZMM(), ZMM()
		t := ZMM()
		VPSRLQ(U8(1), x, s2)
		VPANDQ(pairs, s2, s2)
		VPSUBQ(s2, x, s2)
		VPSRLQ(U8(2), s2, t)
		VPANDQ(nibbles, t, t)
		VPANDQ(nibbles, s2, s4)
		VPADDQ(t, s4, s4)
		VPSRLQ(U8(4), s4, s8)
		VPADDQ(s4, s8, s8)
		VPANDQ(bytes, s8, s8)
		VPMULLQ(every, s8, s8)
		return s2, s4, s8
	}

	k.groups(func(slot Register) (found, undecided GPVirtual) {
		line, rest := ZMM(), ZMM()
		VMOVDQU64(k.ring.Idx(slot, 1), line)
		VMOVDQU64(k.ring.Offset(ringRests).Idx(slot, 1), rest)

		Comment("The fingerprint, its quotient, the pattern of its remainder.")
		fp, q, pattern, counter := ZMM(), ZMM(), ZMM(), ZMM()
		width := ZMM()
		VPBROADCASTQ(sixtyFour, width)
		VPSUBQ_BCST(f, width, width)
		VPSRLVQ(width, rest, fp)
		VPSRLVQ(r, fp, q)
		VPANDQ_BCST(values, fp, pattern)
		VPMULLQ(ones, pattern, pattern)
		VPANDQ_BCST(striped, line, counter)
		epoch, count := k.epoch, func() VecVirtual { return gather(k.runtime, counters*8, counter, 8) }
		if shards {
			runtimes := ZMM()
			VMOVDQU64(k.ring.Offset(ringLines).Idx(slot, 1), line)
			VMOVDQU64(k.ring.Offset(ringRuntimes).Idx(slot, 1), runtimes)
			VPSLLQ(U8(3), counter, counter)
			VPADDQ(runtimes, counter, counter)
			epoch = func() VecVirtual { return gather(k.region, 0, runtimes, 1) }
			count = func() VecVirtual { return gather(k.region, counters*8, counter, 1) }
		} else {
			VPSLLQ(U8(6), line, line)
		}

		Comment("The place of the overflow bit.")
		VPANDQ_BCST(fifteen, fp, fp)
		VPORQ_BCST(firstOverflow, fp, fp)

		Comment("The loads, in the order of the argument: counters, words, counters.")
		epoch1 := epoch()
		before := count()
		x, next := gather(k.region, 0, line, 1), gather(k.region, 8, line, 1)

		Comment("In which word zero q of the counts is.")
		VPTERNLOGQ(U8(not), x, x, x)
		VPTERNLOGQ(U8(not), next, next, next)
		_, _, zeros := sums(x)
		VPSRLQ(U8(56), zeros, zeros)
		inNext, z, left := K(), ZMM(), ZMM()
		VPCMPUQ(U8(atMost), zeros, q, inNext)
		VMOVDQA64(next, inNext, x)
		VMOVDQA64(q, left)
		VPSUBQ(zeros, q, inNext, left)
		VPBROADCASTQ_Z(sixtyFour, inNext, z)

		Comment("Where it is there.")
		s2, s4, s8 := sums(x)
		at, t := ZMM(), ZMM()
		VPMULLQ(every, left, at)
		VPORQ(tops, at, at)
		VPSUBQ(s8, at, at)
		VPANDQ(tops, at, at)
		VPSRLQ(U8(7), at, at)
		VPMULLQ(every, at, at)
		VPSRLQ(U8(53), at, at)
		VPANDQ_BCST(fiftySix, at, at)
		VPSLLQ(U8(8), s8, s8)
		VPSRLVQ(at, s8, t)
		VPANDQ_BCST(low8, t, t)
		VPSUBQ(t, left, left)
		halve := func(of VecVirtual, field, width Mem) {
			upper := K()
			VPSRLVQ(at, of, t)
			VPANDQ_BCST(field, t, t)
			VPCMPUQ(U8(atMost), t, left, upper)
			VPSUBQ(t, left, upper, left)
			VPADDQ_BCST(width, at, upper, at)
		}
		halve(s4, fifteen, four)
		halve(s2, three, two)
		upper := K()
		VPSRLVQ(at, x, t)
		VPANDQ(one, t, t)
		VPCMPUQ(U8(atMost), t, left, upper)
		VPADDQ(one, at, upper, at)
		VPADDQ(at, z, z)

		Comment("The run of bits 1 behind it: the first of them that is 0, as a number.")
		first := ZMM()
		VPSUBQ(q, z, first)
		VPADDQ(one, z, z)
		VPSRLQ(U8(3), z, at)
		VPADDQ(line, at, at)
		run := gather(k.region, 0, at, 1)
		low := ZMM()
		VPANDQ_BCST(seven, z, low)
		VPSRLVQ(low, run, run)
		VPTERNLOGQ(U8(not), run, run, run)
		VPXORQ(low, low, low)
		VPSUBQ(run, low, low)
		VPANDQ(low, run, run)
		VCVTUQQ2PD(run, run)
		VPSRLQ(U8(52), run, run)
		VPSUBQ_BCST(inMemory("bias", 1023), run, run)
		VPMULUDQ(r, run, run)

		Comment("The remainders of the run.")
		VPMULUDQ(r, first, first)
		VPADDQ_BCST(counts, first, first)
		VPSRLQ(U8(3), first, at)
		VPMINUQ_BCST(fiftySix, at, at)
		VPSLLQ(U8(3), at, t)
		VPSUBQ(t, first, first)
		VPADDQ(line, at, at)
		got := gather(k.region, 0, at, 1)
		last := gather(k.region, 56, line, 1)
		after := count()
		epoch2 := epoch()
		VPSRLVQ(first, got, got)

		Comment("A lane of zero where one of the run is the remainder.")
		VPXORQ(pattern, got, got)
		VPSUBQ(ones, got, t)
		VPTERNLOGQ(U8(notAnd), highs, t, got)
		VPSLLVQ(run, one, t)
		VPSUBQ(one, t, t)
		isFound, isLong, isOpen := K(), K(), K()
		VPTESTMQ(t, got, isFound)
		VPCMPUQ_BCST(U8(above), wide, run, isLong)

		Comment("open: a long run, or what is odd, or is not what it was, or the overflow bit.")
		open := ZMM()
		VPORQ(before, epoch1, open)
		VPANDQ(one, open, open)
		VPTERNLOGQ(U8(orXor), before, after, open)
		VPTERNLOGQ(U8(orXor), epoch1, epoch2, open)
		VPTESTMQ(open, open, isOpen)
		both := K()
		VPSRLVQ(fp, last, last)
		VPTESTMQ(one, last, both)
		KORB(both, isOpen, isOpen)
		KANDNB(isFound, isLong, isFound)
		KANDNB(isOpen, isFound, isOpen)
		KORB(isLong, isOpen, isOpen)
		found, undecided = GP64(), GP64()
		KMOVB(isFound, found.As32())
		KMOVB(isOpen, undecided.As32())
		return found, undecided
	})
}
