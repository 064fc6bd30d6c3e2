// Program asm writes the assembly of package layout and of the packages below it: the
// kernels that look up one, four or eight hashes at once. In this directory, for one of
// the packages:
//
//	go run . -out ../blocked/kernel_amd64.s -stubs ../blocked/stubs_amd64.go -pkg blocked
package main

import (
	"log"
	"os"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// packages says what is written for each of them.
var packages = map[string]func(){
	"kernel": func() {
		testBitsAVX512()
		splitLinesAVX512()
		cpuid()
	},
	"layout": direct,
	"blocked": func() {
		blockedAVX512()
		blockedAVX2()
		blockedOne()
		blockedLooks()
		blockedFullAVX512()
	},
	"compact": func() {
		compactOne()
		compactLooks()
		compactAVX512()
	},
}

func main() {
	name := os.Args[len(os.Args)-1] // Generate parses the flags, and empties what is loaded before
	write, ok := packages[name]
	if !ok {
		log.Fatalf("nothing is written for a package %q, the last argument", name)
	}
	path := "github.com/mmapfilter/mmapfilter/layout"
	if name != "layout" {
		path += "/" + name
	}
	Package(path)
	ConstraintExpr("amd64")
	write()
	Generate()
}

// What package layout calls by these names, but for two.
const (
	mixFirst      = 0x9E3779B97F4A7C15
	mixSecond     = 0xBB67AE8584CAA73B
	overflowLow   = 60
	stripes       = 256 // counterStripes
	counters      = 256 // runtimeCounters
	stashCounter  = 8   // RuntimeStashCounter
	stashGroups   = 192
	stashLineBits = 56

	group = 8 // hashes

	// ahead is how many groups' lines are on their way: 32 cache misses. With 8 groups, a small
	// batch has few looks left while it waits. Large batches lose nothing.
	ahead = 4
)

// A kernel has the registers that all kernels for batches start with. The ring keeps, for
// the hashes whose lines are on their way, the eight line numbers of each group and,
// ringBytes further on, the rests of the hashes.
type kernel struct {
	region, runtime, hashes, found, undecided, left, spread Register

	ring Mem
}

const ringBytes = ahead * group * 8

// begin loads the fields with which the batches of all layouts begin.
func begin(name, doc string) *kernel {
	TEXT(name, 0, "func(b *batch)")
	Doc(doc)
	Pragma("noescape")
	Load(Param("b"), RAX)
	field := func(i int) Register {
		r := GP64()
		MOVQ(Mem{Base: RAX, Disp: 8 * i}, r)
		return r
	}
	k := &kernel{ring: AllocLocal(2 * ringBytes)}
	k.region, k.runtime, k.hashes, k.found, k.undecided, k.left = field(0), field(1), field(2), field(3), field(4), field(5)
	MOVQ(Mem{Base: RAX, Disp: 8 * 6}, RDX) // the lines, for MULX
	k.spread = GP64()
	MOVQ(U64(0x0101010101010101), k.spread)
	return k
}

// Where a batch has the constants of a table; the first three belong to both layouts.
const (
	offValues = 8 * 7
	offOnes   = 8 * 8
	offHighs  = 8 * 9

	offLanes = 8 * 10 // of a batch of Blocked

	offCounts = 8 * 10 // of one of Compact
	offR      = 8 * 11
	offF      = 8 * 12
	offMasks  = 8 * 13
)

// ask splits the eight hashes of a group and prefetches their lines. slot is the place of
// the group in the ring, in bytes.
func (k *kernel) ask(hashes Mem, slot Register) {
	Comment("Split eight hashes, and ask for their lines.")
	for i := range group {
		line, rest := GP64(), GP64()
		MULXQ(hashes.Offset(8*i), rest, line)
		MOVQ(line, k.ring.Offset(8*i).Idx(slot, 1))
		MOVQ(rest, k.ring.Offset(ringBytes+8*i).Idx(slot, 1))
		SHLQ(U8(6), line)
		PREFETCHT0(Mem{Base: k.region, Index: line, Scale: 1})
	}
}

// groups writes the loop over the groups. answer looks up the group at a slot of the ring
// and returns the bits of the hashes that are found, and of those that stay open, each in a
// byte.
func (k *kernel) groups(answer func(slot Register) (found, undecided GPVirtual)) {
	slot, hashes, asked := GP64(), GP64(), GP64()
	Comment("The lines of the first groups.")
	XORQ(slot, slot)
	MOVQ(k.hashes, hashes)
	MOVQ(k.left, asked)
	Label("first")
	k.ask(Mem{Base: hashes}, slot)
	ADDQ(U8(8*group), hashes)
	ADDQ(U8(8*group), slot)
	DECQ(asked)
	JZ(LabelRef("asked"))
	CMPQ(slot, U32(ringBytes))
	JNE(LabelRef("first"))
	Label("asked")
	XORQ(slot, slot)

	Label("next")
	found, undecided := answer(slot)
	Comment("One byte for each bit.")
	PDEPQ(k.spread, found, found)
	MOVQ(found, Mem{Base: k.found})
	MOVB(undecided.As8(), Mem{Base: k.undecided})
	ADDQ(U8(group), k.found)
	INCQ(k.undecided)
	TESTQ(asked, asked)
	JZ(LabelRef("all"))
	k.ask(Mem{Base: hashes}, slot)
	ADDQ(U8(8*group), hashes)
	DECQ(asked)
	Label("all")
	ADDQ(U8(8*group), slot)
	ANDQ(U32(ringBytes-1), slot)
	DECQ(k.left)
	JNZ(LabelRef("next"))
	VZEROUPPER()
	RET()
}

var constants = map[string]Mem{}

// inMemory returns a constant of some words that stays in memory.
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

// cpuid writes the instruction that identifies the processor.
func cpuid() {
	TEXT("cpuid", NOSPLIT, "func(leaf uint32) (eax, ebx uint32)")
	Doc("cpuid is the instruction, for subleaf 0.")
	Load(Param("leaf"), EAX)
	XORL(ECX, ECX)
	CPUID()
	Store(EAX, ReturnIndex(0))
	Store(EBX, ReturnIndex(1))
	RET()
}
