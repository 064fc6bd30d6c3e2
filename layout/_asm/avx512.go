package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// Truth tables of VPTERNLOGQ, of the destination A, then B, then C.
const (
	xorAnd = 0x28 // (A ^ B) & C
	notAnd = 0x08 // ^A & B & C
	orXor  = 0xF6 // A | (B ^ C)
	andAnd = 0x80 // A & B & C
	norAnd = 0x02 // ^A & ^B & C
)

// constant loads a constant of a batch into every lane.
func constant(off int) VecVirtual {
	z := ZMM()
	VPBROADCASTQ(Mem{Base: RAX, Disp: off}, z)
	return z
}

// gather loads eight words by their numbers.
func gather(base Register, disp int, index VecVirtual) VecVirtual {
	w, all := ZMM(), K()
	KXNORB(all, all, all)
	VPXORQ(w, w, w)
	VPGATHERQQ(Mem{Base: base, Disp: disp, Index: index, Scale: 8}, all, w)
	return w
}

// number puts a number into every lane.
func number(n uint64) VecVirtual {
	x, z := GP64(), ZMM()
	MOVQ(U64(n), x)
	VPBROADCASTQ(x, z)
	return z
}

// epoch loads the recovery epoch into every lane.
func (k *kernel) epoch() VecVirtual {
	z := ZMM()
	VPBROADCASTQ(Mem{Base: k.runtime}, z)
	return z
}
