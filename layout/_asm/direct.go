package main

import (
	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/ir"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// The fields of a Direct.
const (
	directMix      = 8 * 0 // what the two ends of a key are mixed with
	directRegion   = 8 * 2
	directRuntime  = 8 * 3
	directLines    = 8 * 4
	directLookHash = 8 * 5
	directLookKey  = 8 * 6
	directLookOwn  = 8 * 7
	directStash    = 8 * 8
	directBytes    = 8 * 14
)

// What a Shards has behind its Direct.
const (
	shardsTables = directBytes
	shardsCount  = directBytes + 8*3
)

// What stands behind them in a direct of Blocked, and in one of Compact.
const (
	blockedConstants = directBytes

	compactDirectTable    = directBytes
	compactDirectLow      = directBytes + 8*1 // a slotted
	compactDirectInUse    = directBytes + 8*2
	compactDirectInCounts = directBytes + 8*3
	compactDirectR        = directBytes + 8*4
	compactDirectLines64  = directBytes + 8*5
	compactDirectSlots    = directBytes + 8*18 // a slotVectors
)

// direct writes directHash and directKey, which jump to the look of a Direct. One more call around it,
// or a test of which look it is, would add six instructions to a lookup; blockedOne says what those
// cost.
func direct() {
	begin := func(name, signature, doc string, at int) {
		TEXT(name, NOSPLIT, signature)
		Doc(doc)
		Pragma("noescape")
		Load(Param("d"), RAX) // where all that is jumped to looks for it
		jump(Mem{Base: RAX, Disp: at})
	}
	begin("directHash", "func(d *Direct, hash uint64) bool", "directHash is ContainsHash of a Direct. It needs what its look does.", directLookHash)
	begin("directKey", "func(d *Direct, key []byte) bool", "directKey is Contains of a Direct. It needs what its look does.", directLookKey)
	shards := func(name, needs string, hash func(d Register)) {
		TEXT(name, NOSPLIT, "func(d *Direct, key []byte) bool")
		Doc(name + " is Contains of the Direct of a Shards. It needs " + needs + " and what the looks of its tables do, and is only jumped to.")
		Pragma("noescape")
		hash(RAX)
		Comment("The table of the shard, and what stands for the hash there.")
		number := GP64()
		MULXQ(Mem{Base: RAX, Disp: shardsCount}, RDX, number)
		MOVQ(Mem{Base: RAX, Disp: shardsTables}, RAX)
		MOVQ(Mem{Base: RAX, Index: number, Scale: 8}, RAX)
		jump(Mem{Base: RAX, Disp: directLookOwn})
		Label("inGo")
		jump(inText("KeyInGo"))
	}
	shards("keyInShards", "BMI2", hashKey)
	shards("keyInShardsWide", "AVX-512 DQ and VL and BMI2", hashKeyWide)
	TEXT("lookAddresses", NOSPLIT, "func() (hash, key, shards, shardsWide uintptr)")
	Doc("lookAddresses gives where the looks in Go are, and those of a Shards.")
	for i, name := range []string{"HashInGo", "KeyInGo", "keyInShards", "keyInShardsWide"} {
		address := GP64()
		LEAQ(inText(name), address)
		Store(address, ReturnIndex(i))
	}
	RET()
}

// A look is the code of a Direct. What it leaves open goes to the label "inGo", and with AVX-512 so
// does everything during which a counter moved, even what has been found. d is the Direct, and hash
// puts the hash into RDX.
type look struct {
	name  string
	needs string
	look  func(d Register, hash func(d Register))
	key   func(d Register) // hashes a key into RDX
}

func region(d Register) Mem  { return Mem{Base: d, Disp: directRegion} }
func runtime(d Register) Mem { return Mem{Base: d, Disp: directRuntime} }

// settled is an ending with one result; what is not settled is left open.
func settled(settled bool) {
	if !settled {
		JEQ(LabelRef("inGo"))
	}
	SETNE(result(0))
	RET()
}

func blockedLooks() {
	looks("narrow, wide *code", []look{
		{"Narrow", "AVX2, BMI1 and BMI2", func(d Register, hash func(d Register)) {
			hash(d)
			lookBlocked(Mem{Base: d, Disp: blockedConstants}, region(d), runtime(d), settled)
		}, hashKey},
		{"Wide", "AVX-512 F, BW, DQ and VL, BMI1, BMI2 and POPCNT", func(d Register, hash func(d Register)) {
			hash(d)
			lookBlockedWide(d)
		}, hashKey},
	})
}

func compactLooks() {
	const vbmi = "AVX-512 F, BW, DQ, VL and VBMI, BMI1, BMI2 and POPCNT"
	looks("narrow, short, long *code", []look{
		{"Narrow", "BMI1, BMI2 and POPCNT", func(d Register, hash func(d Register)) {
			hash(d)
			lookCompact(move(Mem{Base: d, Disp: compactDirectTable}), region(d), runtime(d), settled)
		}, hashKey},
		{"Short", vbmi, func(d Register, hash func(d Register)) { hash(d); lookCompactWide(d, 1) }, hashKeyWide},
		{"Long", vbmi, func(d Register, hash func(d Register)) { hash(d); lookCompactWide(d, 2) }, hashKeyWide},
	})
}

// looks writes the functions of some looks, and lookAddresses, which returns where they are. What they
// leave open goes to a function in Go with the arguments on the stack and the same result.
func looks(codes string, all []look) {
	begin := func(name, signature, doc string) {
		TEXT(name, NOSPLIT, signature)
		Doc(doc)
		Pragma("noescape")
	}
	for _, l := range all {
		begin("hash"+l.name, "func(d *base, hash uint64) bool", "hash"+l.name+" needs "+l.needs+", and is only jumped to.")
		l.look(RAX, func(Register) { Load(Param("hash"), RDX) })
		Label("inGo")
		jump(inText("hashInGo"))
		begin("key"+l.name, "func(d *base, key []byte) bool", "key"+l.name+" needs what hash"+l.name+" does, and is only jumped to.")
		l.look(RAX, l.key)
		Label("inGo")
		jump(inText("keyInGo"))
		begin("own"+l.name, "func(d *base, key []byte) bool", "own"+l.name+" is key"+l.name+" in a set: the hash in DX and the Direct in AX are those of the shard. The arguments are those of the set, for what is left to Go.")
		l.look(RAX, func(Register) {})
		Label("inGo")
		jump(inText("keyInGo"))
	}
	begin("lookAddresses", "func("+codes+")", "lookAddresses stores the addresses of the functions that are only jumped to.")
	for i, l := range all {
		to := Load(ParamIndex(i), GP64())
		for at, name := range []string{"hash" + l.name, "key" + l.name, "own" + l.name} {
			address := GP64()
			LEAQ(inText(name), address)
			MOVQ(address, Mem{Base: to, Disp: 8 * at})
		}
	}
	RET()
}

// inText returns the address of a function of the package.
func inText(name string) Mem { return Mem{Symbol: Symbol{Name: "·" + name}, Base: StaticBase} }

// jump ends a function with a tail call of one with the same arguments and results.
func jump(to Mem) {
	Instruction(&ir.Instruction{Opcode: "JMP", Operands: []Op{to}, IsTerminal: true})
}

// hashKey hashes a key of 9 to 16 bytes into RDX.
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

// shortKey loads the address of a key and its length. Keys of other lengths are left to Go.
func shortKey() (key, n Register) {
	n = Load(Param("key").Len(), GP64())
	CMPQ(n, U8(9))
	JCS(LabelRef("inGo"))
	CMPQ(n, U8(16))
	JHI(LabelRef("inGo"))
	return Load(Param("key").Base(), GP64()), n
}

// hashKeyWide is hashKey in vector registers for the most part: it writes 6 general registers
// instead of 16, with 2 more instructions. A lookup in a Compact is short of them: see blockedOne.
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

// A beyond is what a second look takes from the first: the number of lines, the address of the home
// line and the fingerprint. inClass adds the lower bucket to the first word of a class; match compares
// a line, and sets the zero flag if it does not have the fingerprint.
type beyond struct {
	name     string
	lines    Mem // how many there are
	home, fp GPVirtual
	inClass  func(class GPVirtual)
	match    func(line GPVirtual)
}

// look ends a function with the second look of Lookup, for keys whose overflow bits are set in the
// home line. It loads the removal counters of all places before the first place, and again after
// the last; nothing that the first look has loaded counts. Items that moved, and what may be in the
// stash, are left to Go. All of it in Go would hash the key and look at the home line again, and
// only then ask for the other line.
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
	MULXQ(b.lines, mixed, second)
	class := number(b.home)
	SUBQ(class, second)
	SBBQ(wrap, wrap)
	ANDQ(b.lines, wrap)
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
	Comment("The counters: while they are even they only ever go up, and stand still if their sum does.")
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
	odd = GP64()
	XORL(odd.As32(), odd.As32())
	eachCounter(func(counter Mem) {
		n := move(counter)
		SUBQ(n, sum)
		ORQ(n, odd)
	})
	ANDL(U8(1), odd.As32())
	ORQ(odd, sum)
	JNE(LabelRef("inGo"))
	MOVB(U8(0), result(0))
	RET()
	Label(b.name + "Found")
	MOVB(U8(1), result(0))
	RET()
}
