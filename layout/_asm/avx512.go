package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

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
