package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// An ending writes the return of a first look: the key has been found if the zero flag is clear;
// settled says whether this result is final.
type ending func(settled bool)

// both is an ending with two results, found and open. A lookup that has found its key is
// not open.
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

// jumpIfMoved jumps if the counter or the epoch has changed or is odd.
func jumpIfMoved(epochAt, countAt Mem, epoch, before GPVirtual, label string) {
	CMPQ(epochAt, epoch)
	JNE(LabelRef(label))
	CMPQ(countAt, before)
	JNE(LabelRef(label))
	TESTB(U8(1), epoch.As8())
	JNE(LabelRef(label))
	TESTB(U8(1), before.As8())
	JNE(LabelRef(label))
}

// places turns a line number into the address of the line, and finds the counters of the
// line.
func places(line GPVirtual, regionAt, runtimeAt Mem) (address, runtime GPVirtual, count Mem) {
	runtime = move(runtimeAt)
	counter := GP64()
	MOVBLZX(line.As8(), counter.As32())
	RORXQ(U8(64-6), line, line) // a shift by 6, but unlike SHL it sets no flags
	ADDQ(regionAt, line)
	return line, runtime, Mem{Base: runtime, Disp: counters * 8, Index: counter, Scale: 8}
}
