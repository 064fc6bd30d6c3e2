package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

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
