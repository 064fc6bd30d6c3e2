package main

import (
	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/ir"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// direct writes directHash and directKey, which jump to the look of a Direct. A call instead of
// the jump, or a test that chooses the look, would add six instructions to a lookup; compactOne
// says what instructions cost.
func direct() {
	begin := func(name, signature, doc string, at int) {
		TEXT(name, NOSPLIT, signature)
		Doc(doc)
		Pragma("noescape")
		Load(Param("d"), RAX) // every look expects d in RAX
		jump(Mem{Base: RAX, Disp: at})
	}
	begin("directHash", "func(d *Direct, hash uint64) bool", "directHash is ContainsHash of a Direct. It needs the instructions that the look needs.", directLookHash)
	begin("directKey", "func(d *Direct, key []byte) bool", "directKey is Contains of a Direct. It needs the instructions that the look needs.", directLookKey)
	shards := func(name, needs string, hash func(d Register)) {
		TEXT(name, NOSPLIT, "func(d *Direct, key []byte) bool")
		Doc(name + " is Contains of the Direct of a Shards. It needs " + needs + ", and the instructions that the looks of the tables need. It is never called, only jumped to.")
		Pragma("noescape")
		hash(RAX)
		Comment("Find the table of the shard, and the hash that stands for the key there.")
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
	Doc("lookAddresses returns the addresses of the looks in Go, and of the looks of a Shards.")
	for i, name := range []string{"HashInGo", "KeyInGo", "keyInShards", "keyInShardsWide"} {
		address := GP64()
		LEAQ(inText(name), address)
		Store(address, ReturnIndex(i))
	}
	RET()
}

// A look is the code of a Direct. It jumps to the label "inGo" for a lookup that it leaves open,
// and with AVX-512 for every lookup during which a counter moved, even if it has found the key. d
// is the Direct, and hash puts the hash into RDX.
type look struct {
	name  string
	needs string
	look  func(d Register, hash func(d Register))
	key   func(d Register) // hashes a key into RDX
}

func region(d Register) Mem  { return Mem{Base: d, Disp: directRegion} }
func runtime(d Register) Mem { return Mem{Base: d, Disp: directRuntime} }

// settled is an ending with one result; a lookup that is not settled is left open.
func settled(settled bool) {
	if !settled {
		JEQ(LabelRef("inGo"))
	}
	SETNE(result(0))
	RET()
}

func compactLooks() {
	all := []look{{"Narrow", "BMI1, BMI2 and POPCNT", func(d Register, hash func(d Register)) {
		hash(d)
		table := move(Mem{Base: d, Disp: directTable})
		lookNarrow(table, region(d), runtime(d), settled)
	}, hashKey}}
	for _, w := range widths[1:] {
		all = append(all, look{w.name, w.needs, func(d Register, hash func(d Register)) {
			hash(d)
			lookWide(d, w.looks)
		}, hashKeyWide})
	}
	looks("narrow, short, long, longest *code", all)
}

// looks writes the functions of some looks, and lookAddresses, which stores their addresses. A look
// that leaves a lookup open jumps to a function in Go, with the same arguments on the stack and the
// same result.
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
		begin("key"+l.name, "func(d *base, key []byte) bool", "key"+l.name+" needs the instructions that hash"+l.name+" needs, and is only jumped to.")
		l.look(RAX, l.key)
		Label("inGo")
		jump(inText("keyInGo"))
		begin("own"+l.name, "func(d *base, key []byte) bool", "own"+l.name+" is key"+l.name+" in a set: DX has the hash that stands for the key in the shard, and AX the Direct of the shard. The arguments are those of the set, because a lookup that is left to Go starts again with these.")
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

// jump ends a function with a tail call of one with the same arguments and results.
func jump(to Mem) {
	Instruction(&ir.Instruction{Opcode: "JMP", Operands: []Op{to}, IsTerminal: true})
}
