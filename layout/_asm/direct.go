package main

import (
	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/ir"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// What a Direct has behind the fields of a blocked.
const (
	directMix      = 8 * 12 // what the two ends of a key are mixed with
	directRegion   = 8 * 14
	directRuntime  = 8 * 15
	directStash    = 8 * 16
	directCompact  = 8 * 17
	directLook     = 8 * 18
	directLow      = 8 * 19 // a compactSlotted
	directHigh     = 8 * 20
	directInUse    = 8 * 21
	directInCounts = 8 * 22
	directR        = 8 * 23
	directSlots    = 8 * 31 // a slotVectors
	directMasks    = 8 * (31 + 5*8)
)

// Which look directLook says, in the order in which those that can spare the least come first.
const (
	lookSlotted = iota
	lookWide
	lookTwice
	lookNarrow
	lookAtCompact
)

// directHash has a look for each layout and processor: one function for all, since one
// more call around it would be a tenth of what a lookup is. What they leave open, and all that
// none of them is for, it leaves to a function in Go.
func directHash() {
	TEXT("directHash", NOSPLIT, "func(d *Direct, hash uint64) bool")
	Doc("directHash is ContainsHash of a Direct. It needs what the look that the Direct says does.")
	Pragma("noescape")
	load := func(Register) { Load(Param("hash"), RDX) }
	lookDirect(Load(Param("d"), GP64()), load, load)
	jumpTo("directHashInGo")
}

// directKey is directHash with the hash of a key of 9 to 16 bytes before it.
func directKey() {
	TEXT("directKey", NOSPLIT, "func(d *Direct, key []byte) bool")
	Doc("directKey is Contains of a Direct. It needs what the look that the Direct says does.")
	Pragma("noescape")
	lookDirect(Load(Param("d"), GP64()), hashKey, hashKeyWide)
	jumpTo("directKeyInGo")
}

// jumpTo ends a function with one in Go, of as many arguments and results.
func jumpTo(name string) {
	Instruction(&ir.Instruction{Opcode: "JMP", Operands: []Op{LabelRef("·" + name + "(SB)")}, IsTerminal: true})
}

// lookDirect returns what the looks say; what they leave open gets to what follows. So does, with
// AVX-512, all that a counter has moved for, even what has been found. hash puts the hash into RDX,
// and so does hashSlotted, with fewer general registers.
func lookDirect(d Register, hash, hashSlotted func(d Register)) {
	region, runtime := Mem{Base: d, Disp: directRegion}, Mem{Base: d, Disp: directRuntime}
	end := func(settled bool) {
		if !settled {
			JEQ(LabelRef("inGo"))
		}
		SETNE(result(0))
		RET()
	}
	look := Mem{Base: d, Disp: directLook}
	CMPQ(look, U8(lookWide))
	JHI(LabelRef("others"))
	JEQ(LabelRef("wide"))
	hashSlotted(d)
	lookCompactWide(d, 1, hashSlotted)
	Label("wide")
	hash(d)
	lookBlockedWide(d)
	Label("others")
	CMPQ(look, U8(lookNarrow))
	JHI(LabelRef("compact"))
	JEQ(LabelRef("narrow"))
	hashSlotted(d)
	lookCompactWide(d, 2, hashSlotted)
	Label("narrow")
	hash(d)
	lookBlocked(d, region, runtime, end)
	Label("compact")
	CMPQ(look, U8(lookAtCompact))
	JNE(LabelRef("inGo"))
	hash(d)
	lookCompact(move(Mem{Base: d, Disp: directCompact}), region, runtime, end)
	Label("inGo")
}

// hashKey makes the hash of a key of 9 to 16 bytes, in RDX.
func hashKey(d Register) {
	key, n := shortKey()
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

// shortKey loads where a key is and its length. One of another length is for Go.
func shortKey() (key, n Register) {
	n = Load(Param("key").Len(), GP64())
	CMPQ(n, U8(9))
	JCS(LabelRef("inGo"))
	CMPQ(n, U8(16))
	JHI(LabelRef("inGo"))
	return Load(Param("key").Base(), GP64()), n
}

// hashKeyWide is hashKey in vector registers, as far as it can be: it writes 7 general registers in
// place of 20, with 4 instructions more. In Compact, which is short of such registers, a lookup out
// of the cache takes 55 ns with it and 66 without; in Blocked, which is not, 53 and 51.5.
func hashKeyWide(d Register) {
	key, n := shortKey()
	Comment("XXH3 of the key.")
	ends, high, sum, x := XMM(), XMM(), XMM(), XMM()
	fold, product := GP64(), GP64()
	VMOVQ(Mem{Base: key}, ends)
	VMOVHPS(Mem{Base: key, Index: n, Scale: 1, Disp: -8}, ends, ends)
	VPXOR(Mem{Base: d, Disp: directMix}, ends, ends)
	VMOVQ(ends, RDX)
	VPUNPCKHQDQ(ends, ends, high)
	VPSHUFB(inMemory("swapped", 0x0001020304050607, 0), ends, ends)
	VMOVQ(high, product)
	MULXQ(product, product, fold)
	VMOVQ(product, sum)
	VMOVQ(fold, x)
	VPXOR(x, sum, sum)
	VPADDQ(high, sum, sum)
	VPADDQ(ends, sum, sum)
	VMOVQ(n, x)
	VPADDQ(x, sum, sum)
	VPSRLQ(U8(37), sum, x)
	VPXOR(x, sum, sum)
	VPMULLQ_BCST(inMemory("avalanche", 0x165667919E3779F9), sum, sum)
	VPSRLQ(U8(32), sum, x)
	VPXOR(x, sum, sum)
	VMOVQ(sum, RDX)
}

// A beyond is what a second look takes from the first one: the address of the home line and the
// fingerprint. inClass adds the lower bucket to the first word of a class; match compares a line,
// and leaves a flag of zero where it does not have the fingerprint.
type beyond struct {
	name     string
	home, fp GPVirtual
	inClass  func(class GPVirtual)
	match    func(line GPVirtual)
}

// look ends a function with the second look of Lookup, for where the overflow bits of the home line
// lead on. The removal counters of all places are loaded before the first of them, and again after
// the last: nothing that the first look has loaded counts. What moves, and what may be in the stash,
// is left to Go.
//
// A second look out of the cache took 165 ns when all of it was in Go, which hashed the key again,
// looked at the home line again, and only then asked for the other one. With this, lookups of which
// 4 % go on take 2.3 ns less, each.
func (b beyond) look(d Register) {
	of := func(at int) Mem { return Mem{Base: d, Disp: at} }
	number := func(line GPVirtual) GPVirtual {
		n := move(line)
		SUBQ(of(directRegion), n)
		SHRQ(U8(6), n)
		return n
	}
	Comment("The alternate line.")
	mixed, second, wrap := GP64(), GP64(), GP64()
	MOVQ(b.fp, mixed)
	IMULQ(inMemory("mixFirst", mixFirst), mixed)
	MOVQ(mixed, RDX)
	SHRQ(U8(32), RDX)
	XORQ(mixed, RDX)
	IMULQ(inMemory("mixSecond", mixSecond), RDX)
	MULXQ(of(blockedLines), mixed, second)
	class := number(b.home)
	SUBQ(class, second)
	SBBQ(wrap, wrap)
	ANDQ(of(blockedLines), wrap)
	ADDQ(wrap, second)
	CMPQ(second, class)
	CMOVQCS(second, class)
	SHLQ(U8(6), second)
	ADDQ(of(directRegion), second)
	PREFETCHT0(Mem{Base: second})

	Comment("The class, of the lower line, and its group of the stash.")
	group, low := GP64(), GP64()
	b.inClass(class)
	IMULQ(inMemory("mixSecond", mixSecond), b.fp)
	XORQ(b.fp, class)
	IMULQ(inMemory("mixFirst", mixFirst), class)
	MOVQ(U32(stashGroups), RDX)
	MULXQ(class, low, group)
	SHLQ(U8(6), group)
	ADDQ(of(directStash), group)

	eachCounter := func(each func(counter Mem)) {
		runtime := move(of(directRuntime))
		each(Mem{Base: runtime})
		each(Mem{Base: runtime, Disp: stashCounter * 8})
		for _, line := range []GPVirtual{b.home, second} {
			n := number(line)
			MOVBLZX(n.As8(), n.As32())
			each(Mem{Base: runtime, Disp: counters * 8, Index: n, Scale: 8})
		}
	}
	Comment("The counters: they only ever go up, and stand still if their sum does.")
	sum, odd := GP64(), GP64()
	XORL(sum.As32(), sum.As32())
	XORL(odd.As32(), odd.As32())
	eachCounter(func(counter Mem) {
		n := move(counter)
		ADDQ(n, sum)
		ORQ(n, odd)
	})
	TESTB(U8(1), odd.As8())
	JNE(LabelRef("inGo"))
	VMOVQ(sum, X30) // there are not enough general registers
	VMOVQ(group, X31)

	Comment("Both lines, one after the other.")
	line := move(b.home)
	Label(b.name + "Look")
	b.match(line)
	JNE(LabelRef(b.name + "Found"))
	CMPQ(line, second)
	MOVQ(second, line)
	JNE(LabelRef(b.name + "Look"))

	sum, group = GP64(), GP64()
	VMOVQ(X30, sum)
	VMOVQ(X31, group)
	Comment("The group: its mark, and whether an entry is in use.")
	used := GP64()
	MOVQ(inMemory("groupMark", 1<<63), used)
	ANDQ(Mem{Base: group}, used)
	for entry := range 4 {
		ORQ(Mem{Base: group, Disp: 16*entry + 8}, used)
	}
	JNE(LabelRef("inGo"))
	eachCounter(func(counter Mem) { SUBQ(counter, sum) })
	JNE(LabelRef("inGo"))
	MOVB(U8(0), result(0))
	RET()
	Label(b.name + "Found")
	MOVB(U8(1), result(0))
	RET()
}
