package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// blockedAVX512 looks up eight hashes at once, in the lanes of a register.
func blockedAVX512() {
	k := begin("batchAVX512", "batchAVX512 needs AVX-512 F and DQ, and BMI2.", false)
	values, ones, highs, lanes := constant(offValues), constant(offOnes), constant(offHighs), constant(offLanes)
	mix, low16, one, three := number(mixFirst), number(1<<16-1), number(1), number(3)
	low48, sixty, stripe := number(48), number(overflowLow), number(stripes-1)

	epoch := k.epoch

	k.groups(func(slot Register) (found, undecided GPVirtual) {
		line, rest := ZMM(), ZMM()
		VMOVDQU64(k.ring.Idx(slot, 1), line)
		VMOVDQU64(k.ring.Offset(ringRests).Idx(slot, 1), rest)

		Comment("fp = 1 + (rest<<3 * values) >> 64, by halves.")
		fp, high := ZMM(), ZMM()
		VPSLLQ(U8(3), rest, fp)
		VPSRLQ(U8(32), fp, high)
		VPMULUDQ(values, fp, fp)
		VPSRLQ(U8(32), fp, fp)
		VPMULUDQ(values, high, high)
		VPADDQ(high, fp, fp)
		VPSRLQ(U8(32), fp, fp)
		VPADDQ(one, fp, fp)

		Comment("The two buckets; the words of the line that they are.")
		m, b1, b2, step := ZMM(), ZMM(), ZMM(), ZMM()
		VPMULLQ(mix, fp, m)
		VPSRLQ(U8(61), rest, b1)
		VPSRLQ(U8(32), m, step)
		VPANDQ(low16, step, step)
		VPSLLQ(U8(3), step, b2)
		VPSUBQ(step, b2, step)
		VPSRLQ(U8(16), step, step)
		VPADDQ(one, step, step)
		VPXORQ(b1, step, b2)
		at1, at2, counter := ZMM(), ZMM(), ZMM()
		VPANDQ(stripe, line, counter)
		VPSLLQ(U8(3), line, at1)
		VPORQ(b2, at1, at2)
		VPORQ(b1, at1, at1)

		Comment("The loads, in the order of the argument: counters, words, counters.")
		epoch1 := epoch()
		before := gather(k.runtime, counters*8, counter)
		w1 := gather(k.region, 0, at1)
		w2 := gather(k.region, 0, at2)
		after := gather(k.runtime, counters*8, counter)
		epoch2 := epoch()

		Comment("open: what is odd, or is not what it was.")
		open := ZMM()
		VPORQ(before, epoch1, open)
		VPANDQ(one, open, open)
		VPTERNLOGQ(U8(orXor), before, after, open)
		VPTERNLOGQ(U8(orXor), epoch1, epoch2, open)

		Comment("Both overflow bits.")
		over := func(b, w VecVirtual) VecVirtual {
			s := ZMM()
			VPSLLQ(U8(1), b, s)
			VPADDQ(low48, s, s)
			VPSRLVQ(s, m, s)
			VPANDQ(three, s, s)
			VPADDQ(sixty, s, s)
			VPSRLVQ(s, w, s)
			return s
		}
		o1, o2 := over(b1, w1), over(b2, w2)
		VPTERNLOGQ(U8(andAnd), one, o1, o2)
		VPORQ(o2, open, open)

		Comment("A lane of zero where a slot has the fingerprint.")
		VPMULLQ(ones, fp, fp)
		match := func(w VecVirtual) VecVirtual {
			x := ZMM()
			VPTERNLOGQ(U8(xorAnd), lanes, fp, w)
			VPSUBQ(ones, w, x)
			VPTERNLOGQ(U8(notAnd), highs, x, w)
			return w
		}
		x1, x2 := match(w1), match(w2)
		VPORQ(x1, x2, x1)
		isFound, isOpen := K(), K()
		VPTESTMQ(x1, x1, isFound)
		VPTESTMQ(open, open, isOpen)
		KANDNB(isOpen, isFound, isOpen)
		found, undecided = GP64(), GP64()
		KMOVB(isFound, found.As32())
		KMOVB(isOpen, undecided.As32())
		return found, undecided
	})
}

// blockedFullAVX512 prefetches all lines in one burst and then looks at them in order.
func blockedFullAVX512() {
	TEXT("fullAVX512", NOSPLIT, "func(region *uint64, lines *uint64, n int, low uint64, highs uint64) uint64")
	Doc("fullAVX512 needs AVX-512 F and DQ. n is 1 to 64.")
	Pragma("noescape")
	region, lines, n := Load(Param("region"), GP64()), Load(Param("lines"), GP64()), Load(Param("n"), GP64())
	low, highs := ZMM(), ZMM()
	VPBROADCASTQ(Load(Param("low"), GP64()), low)
	VPBROADCASTQ(Load(Param("highs"), GP64()), highs)

	i, line := GP64(), GP64()
	XORQ(i, i)
	Label("ask")
	MOVQ(Mem{Base: lines, Index: i, Scale: 8}, line)
	SHLQ(U8(6), line)
	PREFETCHT0(Mem{Base: region, Index: line, Scale: 1})
	INCQ(i)
	CMPQ(i, n)
	JNE(LabelRef("ask"))

	full := GP64()
	XORQ(i, i)
	XORQ(full, full)
	Label("next")
	MOVQ(Mem{Base: lines, Index: i, Scale: 8}, line)
	SHLQ(U8(6), line)
	words, used, free := ZMM(), ZMM(), K()
	VMOVDQU64(Mem{Base: region, Index: line, Scale: 1}, words)
	VPANDQ(low, words, used)
	VPADDQ(low, used, used)
	Comment("The high bit of a slot in use is in one of the two; of those that are in neither:")
	VPTERNLOGQ(U8(norAnd), highs, words, used)
	VPTESTMQ(used, used, free)
	some := GP32()
	KMOVB(free, some)
	Comment("1 is carried where there are none.")
	CMPL(some, U8(1))
	RCRQ(U8(1), full)
	INCQ(i)
	CMPQ(i, n)
	JNE(LabelRef("next"))
	shift := GP64()
	MOVQ(U64(64), shift)
	SUBQ(n, shift)
	SHRXQ(shift, full, full)
	Store(full, ReturnIndex(0))
	VZEROUPPER()
	RET()
}
