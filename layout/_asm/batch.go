package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

const (
	group = 8 // hashes

	// ahead is how many hashes ahead of the look lines are prefetched.
	ahead = 16
)

// compactBatch writes the first look for many hashes, one after the other. A look is the code that
// looks in a line. A batch uses the looks for single keys, but no branch depends on what a look
// finds. In a single table, the caller checks whether a counter has moved. In a set, each hash
// belongs to one of many tables. These differ in their number of lines and have their own counters;
// all else is the same.
func compactBatch(w width, shards bool) {
	name := "batch" + w.name
	if shards {
		name = "shards" + w.name
	}
	TEXT(name, 0, "func(b *batch)")
	Doc(name + " needs " + w.needs + ".")
	Pragma("noescape")
	b := Load(Param("b"), GP64())
	of := func(at int) Mem { return Mem{Base: b, Disp: at} }
	local := func(from GPVirtual) Mem {
		m := AllocLocal(8)
		MOVQ(from, m)
		return m
	}
	table, hashes, found := move(of(batchTable)), move(of(batchHashes)), move(of(batchFound))
	open := local(move(of(batchOpen)))
	last := move(of(batchGroups)) // the address of the last hash
	SHLQ(U8(3+3), last)
	LEAQ(Mem{Base: hashes, Index: last, Scale: 1, Disp: -8}, last)
	lastAt := local(last)
	k := ring{shards: shards, table: table, last: lastAt}
	if shards {
		k.tables, k.count = local(move(of(batchTables))), local(move(of(batchShards)))
	} else {
		k.region = local(move(of(batchRegion)))
	}
	var v wide
	if w.looks > 0 {
		v = vectorsOf(move(Mem{Base: table, Disp: tableVectors}), w.looks)
	}

	Comment("The lines of the first hashes.")
	next := move(hashes)
	first := GP64()
	LEAQ(Mem{Base: hashes, Disp: 8 * ahead}, first)
	Label("first")
	k.ask(next)
	ADDQ(U8(8), next)
	CMPQ(next, first)
	JNE(LabelRef("first"))

	Label("group")
	Comment("Shift the open bit of this hash in from above; the lowest bit falls out.")
	undecided := GP64()
	MOVL(U32(1<<(group-1)), undecided.As32())
	Label("next")
	LEAQ(Mem{Base: hashes, Disp: 8 * ahead}, next)
	k.ask(next)
	MOVQ(Mem{Base: hashes}, RDX)
	runtimeAt, lines, regionAt := k.file()
	line, q, fraction := split(table, lines)
	remainder := remainderOf(table, fraction)
	var loaded []counter
	if shards {
		Comment("Load in the order of the proof in lookup.go: counters, words, counters.")
		at, runtime, count := places(line, regionAt, runtimeAt)
		line, loaded = at, []counter{load(Mem{Base: runtime}), load(count)}
	} else {
		SHLQ(U8(6), line)
		ADDQ(regionAt, line)
	}

	var matches GPVirtual
	if w.looks > 0 {
		matches = v.matches(table, line, remainder, fraction)
		var high GPVirtual
		matches, high = matchesOfRun(line, q, matches, Mem{Base: table, Disp: tableInSecond})
		ORQ(high, matches)
	} else {
		var run GPVirtual
		matches, run = lookInRun(table, line, remainder, q)
		BZHIQ(run, matches, matches)
	}
	bits := overflowBits(line)

	if shards {
		Comment("Load the counters again.")
		for _, c := range loaded {
			now := move(Mem{Base: move(c.at)})
			CMPQ(c.value, now)
			JNE(LabelRef("again"))
			TESTB(U8(1), now.As8())
			JNE(LabelRef("again"))
		}
	}

	Comment("Found; or open if the overflow bit is set.")
	isFound, isOpen := GP64(), GP64()
	BTW(remainder.As16(), bits.As16())
	SETCS(isOpen.As8())
	TESTQ(matches, matches)
	SETNE(isFound.As8())
	MOVB(isFound.As8(), Mem{Base: found})
	ANDNL(isOpen.As32(), isFound.As32(), isOpen.As32())
	SHRL(U8(1), isOpen.As32())
	Label("noted")
	INCQ(found) // which leaves the carry flag alone
	LEAQ(Mem{Base: hashes, Disp: 8}, hashes)
	RCRB(U8(1), undecided.As8())
	JCC(LabelRef("next"))
	to := move(open)
	MOVB(undecided.As8(), Mem{Base: to})
	INCQ(to)
	MOVQ(to, open)
	CMPQ(lastAt, hashes)
	JCC(LabelRef("group"))
	if w.looks > 0 {
		VZEROUPPER()
	}
	RET()

	if shards || w.looks == 0 {
		Comment("A counter moved, or the run is long: open, and maybe at home.")
		Label("again")
		Label("long")
		MOVB(U8(1), Mem{Base: found})
		STC()
		JMP(LabelRef("noted"))
	}
}

// A counter is the address and the value of a counter that has been loaded. They are on the
// stack, since there are not enough general registers.
type counter struct{ at, value Mem }

func load(from Mem) counter {
	c := counter{AllocLocal(8), AllocLocal(8)}
	at := GP64()
	LEAQ(from, at)
	MOVQ(at, c.at)
	MOVQ(move(Mem{Base: at}), c.value)
	return c
}

// A ring has what a batch needs to find the lines: of one table, or of a set.
type ring struct {
	shards        bool
	table         Register
	last          Mem // the address of the last hash
	region        Mem
	tables, count Mem
}

// ask prefetches the line of the hash at an address, or the line of the last hash if the
// address is beyond it.
func (k *ring) ask(next GPVirtual) {
	at := move(next)
	CMPQ(at, k.last)
	CMOVQHI(k.last, at)
	MOVQ(Mem{Base: at}, RDX)
	_, lines, region := k.file()
	line := GP64()
	MULXQ(lines, RDX, line)
	SHLQ(U8(6), line)
	ADDQ(region, line)
	PREFETCHT0(Mem{Base: line})
}

// file returns where the fields of the table of the hash in RDX are. In a set, it also replaces the
// hash in RDX by the hash that stands for it in the shard.
func (k *ring) file() (runtimeAt, lines, regionAt Mem) {
	if !k.shards {
		return Mem{}, Mem{Base: k.table, Disp: tableLines}, k.region
	}
	d := GP64()
	MULXQ(k.count, RDX, d)
	SHLQ(U8(3), d)
	ADDQ(k.tables, d)
	MOVQ(Mem{Base: d}, d)
	return runtime(d), Mem{Base: d, Disp: directLines}, region(d)
}
