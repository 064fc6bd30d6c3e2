package main

import (
	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/ir"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// The fields of a blocked, and of a View.
const (
	blockedLines  = 8 * 0
	blockedValues = 8 * 1
	blockedOnes   = 8 * 2 // twice, for two lanes; so are the lanes and the highs
	blockedLanes  = 8 * 4
	blockedMarks  = 8 * 6
	blockedHighs  = 8 * 10

	viewRegion  = 8 * 0
	viewRuntime = 8 * 6
)

// What a Direct has behind the fields of a blocked.
const (
	directMix      = 8 * 12 // what the two ends of a key are mixed with
	directRegion   = 8 * 14
	directRuntime  = 8 * 15
	directCompact  = 8 * 16
	directWide     = 8 * 17
	directSlotted  = 8 * 18
	directNarrow   = 8 * 19
	directTwice    = 8 * 20
	directBuckets  = 8 * 21 // a bucketVectors
	directSlots    = 8 * 22 // a slotVectors
	directLow      = 8 * 23
	directHigh     = 8 * 24
	directInUse    = 8 * 25
	directInCounts = 8 * 26
	directMasks    = 8 * 27
)

// blockedOne is the first look of one lookup. Out of the cache, what counts is how
// many lookups the processor has begun while it waits for the line of one, and so how
// few instructions a lookup has: they all stay in its reorder buffer until the line is
// there. With 448 places, as in Zen 5, there is room for the loads of four lookups of up to
// 149 places or five of up to 112, what calls them included, and some instructions take two; so
// what an instruction costs goes in steps. (30 more, of any kind, made 87 ns of 65.)
//
// The two words are the lanes of a register; constants are operands in memory.
// What a home line does not settle is jumped for: it is rare.
func blockedOne() {
	TEXT("blockedOne", NOSPLIT, "func(t *blocked, v *View, hash uint64) (found, open bool)")
	Doc("blockedOne needs AVX2, BMI1 and BMI2.")
	Pragma("noescape")
	t := Load(Param("t"), GP64())
	view := Load(Param("v"), GP64())
	Load(Param("hash"), RDX)
	lookBlocked(t, Mem{Base: view, Disp: viewRegion}, Mem{Base: view, Disp: viewRuntime}, both)
}

// An ending returns what a first look has found, which is what the flag of zero is not, and
// whether it is settled.
type ending func(settled bool)

// both returns them as the two results of a function; what is found is not open.
func both(settled bool) {
	found := result(0)
	SETNE(found)
	open := result(1)
	if settled {
		MOVB(U8(0), open)
	} else {
		SETEQ(open)
	}
	RET()
}

// result is where a result of the function is.
func result(i int) Mem {
	r, err := ReturnIndex(i).Resolve()
	if err != nil {
		panic(err)
	}
	return r.Addr
}

// directHash is blockedOne, in one of two ways, or compactOne: one function for all, since one
// more call around it would be a tenth of what a lookup is. What they leave open, and all that
// none of them is for, it leaves to a function in Go.
func directHash() {
	TEXT("directHash", NOSPLIT, "func(d *Direct, hash uint64) bool")
	Doc("directHash is ContainsHash of a Direct.")
	Pragma("noescape")
	lookDirect(Load(Param("d"), GP64()), func(Register) { Load(Param("hash"), RDX) })
	jumpTo("directHashInGo")
}

// directKey is directHash with the hash of a key of 9 to 16 bytes before it.
func directKey() {
	TEXT("directKey", NOSPLIT, "func(d *Direct, key []byte) bool")
	Doc("directKey is Contains of a Direct.")
	Pragma("noescape")
	lookDirect(Load(Param("d"), GP64()), hashKey)
	jumpTo("directKeyInGo")
}

// jumpTo ends a function with one in Go, of as many arguments and results.
func jumpTo(name string) {
	Instruction(&ir.Instruction{Opcode: "JMP", Operands: []Op{LabelRef("·" + name + "(SB)")}, IsTerminal: true})
}

// lookDirect returns what a first look says; what it leaves open gets to what follows.
// prepare puts the hash into RDX.
func lookDirect(d Register, prepare func(d Register)) {
	region, runtime := Mem{Base: d, Disp: directRegion}, Mem{Base: d, Disp: directRuntime}
	end := func(settled bool) {
		if !settled {
			JEQ(LabelRef("inGo"))
		}
		SETNE(result(0))
		RET()
	}
	CMPQ(Mem{Base: d, Disp: directSlotted}, d) // first, since it can spare the least
	JNE(LabelRef("wide"))
	prepare(d)
	lookCompactWide(d, region, runtime, 1, end)
	Label("wide")
	CMPQ(Mem{Base: d, Disp: directWide}, d)
	JNE(LabelRef("twice"))
	prepare(d)
	lookBlockedWide(d, region, runtime, end)
	Label("twice")
	CMPQ(Mem{Base: d, Disp: directTwice}, d)
	JNE(LabelRef("narrow"))
	prepare(d)
	lookCompactWide(d, region, runtime, 2, end)
	Label("narrow")
	CMPQ(Mem{Base: d, Disp: directNarrow}, d)
	JNE(LabelRef("compact"))
	prepare(d)
	lookBlocked(d, region, runtime, end)
	Label("compact")
	t := move(Mem{Base: d, Disp: directCompact})
	TESTQ(t, t)
	JEQ(LabelRef("inGo"))
	prepare(d)
	lookCompact(t, region, runtime, end)
	Label("inGo")
}

// hashKey makes the hash of a key of 9 to 16 bytes, in RDX.
func hashKey(d Register) {
	n, beyond9 := Load(Param("key").Len(), GP64()), GP64()
	LEAQ(Mem{Base: n, Disp: -9}, beyond9)
	CMPQ(beyond9, U8(16-9))
	JHI(LabelRef("inGo"))
	key := Load(Param("key").Base(), GP64())
	of := func(at int) Mem { return Mem{Base: d, Disp: at} }

	Comment("XXH3 of the key.")
	high, fold, product := GP64(), GP64(), GP64()
	MOVQ(Mem{Base: key}, RDX)
	XORQ(of(directMix), RDX)
	MOVQ(Mem{Base: key, Index: n, Scale: 1, Disp: -8}, high)
	XORQ(of(directMix+8), high)
	MULXQ(high, product, fold)
	BSWAPQ(RDX)
	ADDQ(RDX, n)
	ADDQ(high, n)
	XORQ(product, fold)
	ADDQ(fold, n)
	MOVQ(n, RDX)
	SHRQ(U8(37), n)
	XORQ(n, RDX)
	IMULQ(inMemory("avalanche", 0x165667919E3779F9), RDX)
	last := move(RDX)
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

// places makes an address of a line number, and finds the counters.
func places(line GPVirtual, regionAt, runtimeAt Mem) (address, runtime GPVirtual, count Mem) {
	runtime = move(runtimeAt)
	counter := GP64()
	MOVBLZX(line.As8(), counter.As32())
	SHLQ(U8(6), line)
	ADDQ(regionAt, line)
	return line, runtime, Mem{Base: runtime, Disp: counters * 8, Index: counter, Scale: 8}
}

// lookBlocked ends a function with the first look of the hash in RDX.
func lookBlocked(t Register, regionAt, runtimeAt Mem, end ending) {
	of := func(at int) Mem { return Mem{Base: t, Disp: at} }

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
		return Mem{Base: t, Disp: blockedMarks, Index: s, Scale: 8}
	}
	VMOVQ(mark(b1), bits)
	VMOVHPS(mark(b2), bits, bits)
	IMULQ(of(blockedOnes), fp)
	VMOVQ(fp, pattern)
	VPBROADCASTQ(pattern, pattern)

	Comment("The loads, in the order of the argument: counters, words, counters.")
	line, runtime, count := places(line, regionAt, runtimeAt)
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

// lookBlockedWide is lookBlocked with AVX-512: the line is one register, and what has to do
// with a bucket is done for all eight, in fewer instructions than for two by themselves.
// The registers are among the 16 that no instruction without AVX-512 has, so that
// none has to wait for their upper halves.
func lookBlockedWide(t Register, regionAt, runtimeAt Mem, end ending) {
	of := func(at int) Mem { return Mem{Base: t, Disp: at} }
	bucket, mix, pattern, step, over, words, lower := Z16, Z17, Z18, Z19, Z20, Z21, Z22
	buckets, second, marked, found := K1, K2, K3, K4
	vectors := move(of(directBuckets))
	vector := func(i int) Mem { return Mem{Base: vectors, Disp: lineBytes * i} }

	Comment("Split the hash.")
	line, rest, fp := splitBlocked(of)

	Comment("The two buckets: those whose number has no difference to the first, or d.")
	VPBROADCASTQ(rest, bucket)
	VPBROADCASTQ(fp, pattern)
	VPMULLQ_BCST(inMemory("mixFirst", mixFirst), pattern, mix)
	VPMULLQ_BCST(of(blockedOnes), pattern, pattern)
	VPSLLQ(U8(16), mix, step)
	VPMULHUW(vector(0), step, step)
	VPADDQ_BCST(inMemory("oneStep", 1<<61), step, step)
	VPXORQ(vector(1), bucket, bucket)
	VPXORQ(bucket, step, step)
	top := inMemory("bucketBits", 7<<61)
	VPTESTNMQ_BCST(top, bucket, buckets)
	VPTESTNMQ_BCST(top, step, second)
	KORB(buckets, second, buckets)
	Comment("How far their overflow bits are from the top.")
	VPSRLVQ(vector(2), mix, over)
	VPANDNQ_BCST(inMemory("three", 3), over, over)

	Comment("The loads, in the order of the argument: counters, words, counters.")
	line, runtime, count := places(line, regionAt, runtimeAt)
	epoch, before := move(Mem{Base: runtime}), move(count)
	VMOVDQU64(Mem{Base: line}, words)
	jumpIfMoved(Mem{Base: runtime}, count, epoch, before, "wideOpen")

	Comment("Both overflow bits; a lane of zero where a slot has the fingerprint.")
	VPSLLVQ(over, words, over)
	VPMOVQ2M(over, marked)
	KTESTB(buckets, marked)
	JCS(LabelRef("wideOpen"))
	match := func() {
		VPTERNLOGQ_BCST(U8(xorAnd), of(blockedLanes), pattern, words)
		VPSUBQ_BCST(of(blockedOnes), words, lower)
		VPANDNQ(lower, words, lower)
		VPTESTMQ_BCST(of(blockedHighs), lower, buckets, found)
		KORTESTB(found, found)
	}
	match()
	end(true)

	Label("wideOpen")
	match()
	end(false)
}
