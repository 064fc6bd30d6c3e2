package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// blockedAVX2 looks up a group in two halves of four hashes. Its constants are in memory, since there
// are too few registers.
func blockedAVX2() {
	number := func(name string, n uint64) Mem {
		m := GLOBL(name, RODATA|NOPTR)
		for i := range 4 {
			DATA(8*i, U64(n))
		}
		return m
	}
	mix, mixHigh := number("mix", mixFirst), number("mixHigh", mixFirst>>32)
	one, stripe := number("one", 1), number("stripe", stripes-1)
	low48, sixty := number("low48", 48), number("sixty", overflowLow)

	k := begin("batchAVX2", "batchAVX2 needs AVX2 and BMI2.", false)
	constant := func(off int, right uint64) Mem {
		m, y := AllocLocal(32), YMM()
		VPBROADCASTQ(Mem{Base: RAX, Disp: off}, y)
		if right > 0 {
			VPSRLQ(U8(right), y, y)
		}
		VMOVDQU(y, m)
		return m
	}
	values, highs, lanes := constant(offValues, 0), constant(offHighs, 0), constant(offLanes, 0)
	ones, onesHigh := constant(offOnes, 0), constant(offOnes, 32)

	gather := func(base Register, disp int, index VecVirtual) VecVirtual {
		w, all := YMM(), YMM()
		VPXOR(w, w, w)
		VPCMPEQQ(w, w, all)
		VPGATHERQQ(all, Mem{Base: base, Disp: disp, Index: index, Scale: 8}, w)
		return w
	}
	epoch := func() VecVirtual {
		y := YMM()
		VPBROADCASTQ(Mem{Base: k.runtime}, y)
		return y
	}
	// times multiplies by a constant modulo 2^64; x is below 2^32.
	times := func(x VecVirtual, low, high Mem) VecVirtual {
		p, q := YMM(), YMM()
		VPMULUDQ(high, x, q)
		VPMULUDQ(low, x, p)
		VPSLLQ(U8(32), q, q)
		VPADDQ(q, p, p)
		return p
	}

	k.groups(func(slot Register) (found, undecided GPVirtual) {
		found, undecided = GP64(), GP64()
		for half := range 2 {
			line, rest := YMM(), YMM()
			VMOVDQU(k.ring.Offset(32*half).Idx(slot, 1), line)
			VMOVDQU(k.ring.Offset(ringBytes+32*half).Idx(slot, 1), rest)

			Comment("fp = 1 + (rest<<3 * values) >> 64, by halves.")
			fp, high := YMM(), YMM()
			VPSLLQ(U8(3), rest, fp)
			VPSRLQ(U8(32), fp, high)
			VPMULUDQ(values, fp, fp)
			VPSRLQ(U8(32), fp, fp)
			VPMULUDQ(values, high, high)
			VPADDQ(high, fp, fp)
			VPSRLQ(U8(32), fp, fp)
			VPADDQ(one, fp, fp)

			Comment("The two buckets; the words of the line that they are.")
			m := times(fp, mix, mixHigh)
			b1, b2, step := YMM(), YMM(), YMM()
			VPSRLQ(U8(61), rest, b1)
			VPSLLQ(U8(16), m, step)
			VPSRLQ(U8(48), step, step)
			VPSLLQ(U8(3), step, b2)
			VPSUBQ(step, b2, step)
			VPSRLQ(U8(16), step, step)
			VPADDQ(one, step, step)
			VPXOR(b1, step, b2)
			at1, at2, counter := YMM(), YMM(), YMM()
			VPAND(stripe, line, counter)
			VPSLLQ(U8(3), line, at1)
			VPOR(b2, at1, at2)
			VPOR(b1, at1, at1)

			Comment("The loads, in the order of the argument: counters, words, counters.")
			epoch1 := epoch()
			before := gather(k.runtime, counters*8, counter)
			w1 := gather(k.region, 0, at1)
			w2 := gather(k.region, 0, at2)
			after := gather(k.runtime, counters*8, counter)
			epoch2 := epoch()

			Comment("open: what is odd, or is not what it was.")
			open := YMM()
			VPOR(before, epoch1, open)
			VPAND(one, open, open)
			VPXOR(before, after, after)
			VPXOR(epoch1, epoch2, epoch2)
			VPOR(after, open, open)
			VPOR(epoch2, open, open)

			Comment("Both overflow bits.")
			over := func(b, w VecVirtual) VecVirtual {
				s := YMM()
				VPADDQ(b, b, s)
				VPADDQ(low48, s, s)
				VPSRLVQ(s, m, s)
				VPSLLQ(U8(62), s, s)
				VPSRLQ(U8(62), s, s)
				VPADDQ(sixty, s, s)
				VPSRLVQ(s, w, s)
				return s
			}
			o1, o2 := over(b1, w1), over(b2, w2)
			VPAND(o1, o2, o2)
			VPAND(one, o2, o2)
			VPOR(o2, open, open)

			Comment("A lane of zero where a slot has the fingerprint.")
			pattern := times(fp, ones, onesHigh)
			match := func(w VecVirtual) VecVirtual {
				x := YMM()
				VPXOR(pattern, w, w)
				VPAND(lanes, w, w)
				VPSUBQ(ones, w, x)
				VPANDN(x, w, w)
				return w
			}
			x1, x2 := match(w1), match(w2)
			VPOR(x1, x2, x1)
			VPAND(highs, x1, x1)

			zero, notFound, decided := YMM(), GP64(), GP64()
			VPXOR(zero, zero, zero)
			VPCMPEQQ(zero, x1, x1)
			VPCMPEQQ(zero, open, open)
			VMOVMSKPD(x1, notFound.As32())
			VMOVMSKPD(open, decided.As32())
			ANDNL(notFound.As32(), decided.As32(), decided.As32())
			XORL(U8(0xF), notFound.As32())
			if half == 0 {
				MOVQ(notFound, found)
				MOVQ(decided, undecided)
			} else {
				SHLL(U8(4), notFound.As32())
				SHLL(U8(4), decided.As32())
				ORL(notFound.As32(), found.As32())
				ORL(decided.As32(), undecided.As32())
			}
		}
		return found, undecided
	})
}
