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
	directLookHash = 8 * 18
	directLookKey  = 8 * 19
	directLow      = 8 * 20 // a compactSlotted
	directInUse    = 8 * 21
	directInCounts = 8 * 22
	directR        = 8 * 23
	directLines64  = 8 * 24
	directSlots    = 8 * 31 // a slotVectors
	directMasks    = 8 * (31 + 4*8)
)

// A directLook is one of the looks that a Direct may have. What it leaves open gets to the label
// "inGo". So does, with AVX-512, all that a counter has moved for, even what has been found. d is the
// Direct, and hash puts the hash into RDX.
type directLook struct {
	name  string
	needs string
	look  func(d Register, hash func(d Register))
	key   func(d Register) // makes the hash of a key
}

// directLooks are in the order of the numbers that package layout has for them.
func directLooks() []directLook {
	region := func(d Register) Mem { return Mem{Base: d, Disp: directRegion} }
	runtime := func(d Register) Mem { return Mem{Base: d, Disp: directRuntime} }
	end := func(settled bool) {
		if !settled {
			JEQ(LabelRef("inGo"))
		}
		SETNE(result(0))
		RET()
	}
	const wide, vbmi, narrow, compact = "AVX-512 F, BW, DQ and VL, BMI1, BMI2 and POPCNT",
		"AVX-512 F, BW, DQ, VL and VBMI, BMI1, BMI2 and POPCNT", "AVX2, BMI1 and BMI2", "BMI1, BMI2 and POPCNT"
	return []directLook{
		{"Slotted", vbmi, func(d Register, hash func(d Register)) { hash(d); lookCompactWide(d, 1, hash) }, hashKeyWide},
		{"Wide", wide, func(d Register, hash func(d Register)) { hash(d); lookBlockedWide(d) }, hashKey},
		{"Twice", vbmi, func(d Register, hash func(d Register)) { hash(d); lookCompactWide(d, 2, hash) }, hashKeyWide},
		{"Narrow", narrow, func(d Register, hash func(d Register)) {
			hash(d)
			lookBlocked(d, region(d), runtime(d), end)
		}, hashKey},
		{"AtCompact", compact, func(d Register, hash func(d Register)) {
			hash(d)
			lookCompact(move(Mem{Base: d, Disp: directCompact}), region(d), runtime(d), end)
		}, hashKey},
	}
}

// direct makes directHash and directKey, which jump to the look of a Direct, and the looks: with one
// more call around it, or with questions which look it is, a lookup has six instructions more, and
// blockedOne says what those cost. What they leave open they leave to a function in Go, of the same
// arguments and result.
func direct() {
	const hash, key = "func(d *Direct, hash uint64) bool", "func(d *Direct, key []byte) bool"
	// The Direct is in RAX for all that is jumped to.
	begin := func(name, signature, doc string) {
		TEXT(name, NOSPLIT, signature)
		Doc(doc)
		Pragma("noescape")
	}
	begin("directHash", hash, "directHash is ContainsHash of a Direct. It needs what its look does.")
	Load(Param("d"), RAX)
	jump(Mem{Base: RAX, Disp: directLookHash})
	begin("directKey", key, "directKey is Contains of a Direct. It needs what its look does.")
	Load(Param("d"), RAX)
	jump(Mem{Base: RAX, Disp: directLookKey})

	for _, l := range directLooks() {
		begin("hash"+l.name, hash, "hash"+l.name+" needs "+l.needs+", and is only jumped to.")
		l.look(RAX, func(Register) { Load(Param("hash"), RDX) })
		Label("inGo")
		jump(inText("directHashInGo"))
		begin("key"+l.name, key, "key"+l.name+" needs what hash"+l.name+" does, and is only jumped to.")
		l.look(RAX, l.key)
		Label("inGo")
		jump(inText("directKeyInGo"))
	}

	TEXT("lookAddresses", NOSPLIT, "func(hash, key *[6]uintptr)")
	Doc("lookAddresses gives where the looks are, in their order, those in Go last.")
	Pragma("noescape")
	hashes, keys := Load(Param("hash"), GP64()), Load(Param("key"), GP64())
	store := func(name string, at Mem) {
		address := GP64()
		LEAQ(inText(name), address)
		MOVQ(address, at)
	}
	looks := directLooks()
	for i, l := range looks {
		store("hash"+l.name, Mem{Base: hashes, Disp: 8 * i})
		store("key"+l.name, Mem{Base: keys, Disp: 8 * i})
	}
	store("directHashInGo", Mem{Base: hashes, Disp: 8 * len(looks)})
	store("directKeyInGo", Mem{Base: keys, Disp: 8 * len(looks)})
	RET()
}

// inText is a function of the package.
func inText(name string) Mem { return Mem{Symbol: Symbol{Name: "·" + name}, Base: StaticBase} }

// jump ends a function with one of as many arguments and results.
func jump(to Mem) {
	Instruction(&ir.Instruction{Opcode: "JMP", Operands: []Op{to}, IsTerminal: true})
}

// hashKey makes the hash of a key of 9 to 16 bytes, in RDX.
func hashKey(d Register) {
	key, n := shortKey()
	Comment("XXH3 of the key.")
	high, fold, product := GP64(), GP64(), GP64()
	MOVQ(Mem{Base: key}, RDX)
	XORQ(Mem{Base: d, Disp: directMix}, RDX)
	MOVQ(Mem{Base: key, Index: n, Scale: 1, Disp: -8}, high)
	XORQ(Mem{Base: d, Disp: directMix + 8}, high)
	MULXQ(high, product, fold)
	BSWAPQ(RDX)
	ADDQ(RDX, n)
	ADDQ(high, n)
	XORQ(product, fold)
	ADDQ(fold, n)
	MOVQ(n, RDX)
	SHRQ(U8(37), n)
	XORQ(n, RDX)
	IMULQ(avalanche(), RDX)
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

// hashKeyWide is hashKey with vector registers for most of it: it writes 6 general registers in place of
// 16, with 2 instructions more: a lookup of a Compact would take a fifth longer with hashKey.
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
	XORQ(product, fold)
	VMOVQ(fold, sum)
	VPADDQ(high, sum, sum)
	VPADDQ(ends, sum, sum)
	VPADDQ_BCST(addressOf(Param("key").Len()), sum, sum)
	VPSRLQ(U8(37), sum, x)
	VPXOR(x, sum, sum)
	VPMULLQ_BCST(avalanche(), sum, sum)
	VPSRLQ(U8(32), sum, x)
	VPXOR(x, sum, sum)
	VMOVQ(sum, RDX)
}

func avalanche() Mem { return inMemory("avalanche", 0x165667919E3779F9) }

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
// All of it in Go would hash the key again and look at the home line again, and only then ask for
// the other one.
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
