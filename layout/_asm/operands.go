package main

import (
	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/gotypes"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

func move(from Op) GPVirtual {
	r := GP64()
	MOVQ(from, r)
	return r
}

// result returns where a result of the function goes.
func result(i int) Mem { return addressOf(ReturnIndex(i)) }

// addressOf returns where an argument or a result of the function is.
func addressOf(c gotypes.Component) Mem {
	r, err := c.Resolve()
	if err != nil {
		panic(err)
	}
	return r.Addr
}

// inText returns the address of a function of the package.
func inText(name string) Mem { return Mem{Symbol: Symbol{Name: "·" + name}, Base: StaticBase} }

var constants = map[string]Mem{}

// inMemory returns an operand in memory that holds constant words.
func inMemory(name string, words ...uint64) Mem {
	m, ok := constants[name]
	if !ok {
		m = GLOBL(name, RODATA|NOPTR)
		for i, w := range words {
			DATA(8*i, U64(w))
		}
		constants[name] = m
	}
	return m
}
