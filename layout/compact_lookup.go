package layout

import (
	"sync/atomic"

	"github.com/mmapfilter/mmapfilter/layout/mistake"
)

// The lookups of Compact. A line is eight words, of which a lookup reads five or
// six, and only all together they tell what is in the line. So every change but that
// of overflow bits is guarded, and where the counters stood still the words are those
// of one instant, but for overflow bits. With that the argument of blocked.Lookup
// holds word for word: who finds nothing in the home line at that instant finds the
// two overflow bits of an item that was elsewhere, since they were set before it left,
// in the one word that has them.
//
// An item that was found needs none of this: "maybe" always holds.

// Contains ends with the home line for most keys. It then has loaded what the first
// look of Lookup loads, in that order.
func (t *compact) Contains(v *View, h uint64) bool {
	found, open := t.FirstLook(v, h)
	if open {
		return t.containsBeyond(v, h)
	}
	return found
}

// FirstLook is that of Blocked. Its kernel leaves very long runs open.
func (t *compact) FirstLook(v *View, h uint64) (found, open bool) {
	if t.countWords == 2 && compactKernel() != pureGo {
		return compactOne(t, v, h)
	}
	return t.firstLook(v, h)
}

func (t *compact) firstLook(v *View, h uint64) (found, open bool) {
	line, rest := SplitHash(h, t.lines)
	runtime := (*[RuntimeWords]uint64)(v.Runtime)
	epoch, counter := &runtime[RuntimeEpoch], &runtime[blockCounter(line)]
	e, c := atomic.LoadUint64(epoch), atomic.LoadUint64(counter)
	match, both := t.lookInGo(lineAt(v.Region, line), rest>>(t.shift%64))
	moved := (atomic.LoadUint64(epoch) ^ e) | (atomic.LoadUint64(counter) ^ c) | (e|c)&1
	none := (match|-match)>>63 ^ 1
	return none == 0, (both|moved)&-none != 0
}

// containsBeyond is the second look of Lookup, as in Blocked.
func (t *compact) containsBeyond(v *View, h uint64) bool {
	it := t.Split(h)
	second := t.Alternate(it).Line
	Prefetch(&lineAt(v.Region, second)[0])
	w := watchPlaces(v, it.Line, second)
	found, beyond := t.look(lineAt(v.Region, it.Line), uint64(it.Fp))
	if beyond {
		found, _ = t.look(lineAt(v.Region, second), uint64(it.Fp))
		if !found && mayStash(v.Stash, t.Class(it)) {
			return t.Lookup(v.At, h)
		}
	}
	return found || w.moved() && t.Lookup(v.At, h)
}

// lookAt is look for a line whose words come from anywhere. It asks for each that it
// needs, and once: those of the counts, the last one, and those of the remainders that
// the counts say.
func (t *compact) lookAt(at func(word uint64) uint64, line, fp uint64) (found, beyond bool) {
	var l Line
	load := func(i uint64) { l[i] = at(WordRegion + line*BlockWords + i) }
	for i := range t.countWords {
		load(uint64(i))
	}
	load(lastWord)
	first, n := t.run(&l, fp>>t.r)
	from, to := t.counts+first*t.r, t.counts+(first+n)*t.r
	for i := max(from/64, uint64(t.countWords)); 64*i < to && i < lastWord; i++ {
		load(i)
	}
	return t.look(&l, fp)
}

func (t *compact) Lookup(at func(word uint64) uint64, h uint64) bool {
	it := t.Split(h)
	fp, second := uint64(it.Fp), t.Alternate(it).Line
	counters := [4]uint64{WordRuntime + RuntimeEpoch, WordRuntime + blockCounter(it.Line), WordRuntime + blockCounter(second), WordRuntime + RuntimeStashCounter}
	n := 2
	for range lookupTries {
		var before [4]uint64
		unstable := uint64(0)
		for i, c := range counters[:n] {
			before[i] = at(c)
			unstable |= before[i] & 1
		}
		found, beyond := t.lookAt(at, it.Line, fp)
		if found {
			return true
		}
		if beyond {
			if n == 2 {
				n = 4 // the counters of the further places come before the home line
				if !mistake.Made(mistake.LazyCounters) {
					continue
				}
				before[2], before[3] = at(counters[2]), at(counters[3])
			}
			if found, _ = t.lookAt(at, second, fp); found || StashCountAt(at, t.Class(it)) != 0 {
				return true
			}
		}
		for i, c := range counters[:n] {
			unstable |= at(c) ^ before[i]
		}
		if unstable == 0 {
			return false
		}
	}
	return true
}

func (t *compact) ContainsHashes(v *View, hashes []uint64, found []bool) {
	found = found[:len(hashes)]
	for len(hashes) > 0 {
		n := min(len(hashes), lookupBlock)
		t.containsBlock(v, hashes[:n], found[:n])
		hashes, found = hashes[n:], found[n:]
	}
}

// containsBlock is that of Blocked.
func (t *compact) containsBlock(v *View, hashes []uint64, found []bool) {
	var bitmap [lookupBlock / openBits]uint8
	open := bitmap[:(len(hashes)+openBits-1)/openBits]
	t.FirstLooks(v, hashes, found, open)
	EachOpen(open, func(i int) { Prefetch(&lineAt(v.Region, t.Alternate(t.Split(hashes[i])).Line)[0]) })
	EachOpen(open, func(i int) { found[i] = t.containsBeyond(v, hashes[i]) })
}

// A compactBatch is what the kernel needs. Its fields are in the order in which the
// assembly loads them.
type compactBatch struct {
	region, runtime *uint64
	hashes          *uint64
	found           *bool  // what the home lines say
	open            *uint8 // a bit for each hash that they do not settle
	groups          uint64 // of 8 hashes, at least one

	lines, values, ones, highs, counts, r, f uint64 // those of compact
	masks                                    *uint64
}

// compactSlotted are what lookCompactWide takes from a compact of remainders of 6 to 15 bits,
// in the order that it knows: how each slot gets into a byte of a register. Of remainders
// of more than 8 bits the low 8 get there, and in a second look the high 8.
type compactSlotted struct {
	low      uint64 // which bits of the low word of the product with the hash are the low 8 of the fingerprint
	inUse    uint64 // which bytes have a slot
	inCounts uint64 // which bits of the second word are of the counts, but for the last, the 0 at their end
	r        uint64
	lines64  uint64 // 64 times the lines: with r above 8, what the hash is multiplied by
}

// slotVectors are those of lookCompactWide, too. Each is one load, in one cache line of a Direct.
type slotVectors struct {
	bytes       [LineBytes]byte // of the line those that get into a word
	shifts      [LineBytes]byte // the bits of a word that get into a byte
	highsShifts [LineBytes]byte // those for the high 8 bits of a remainder
	values      [LineBytes]byte // the bits of a short remainder
}

// bySlots puts into each word the bytes of as many slots as are in 8 of them, whole. It says no where
// the words do not have all. Of those whose counts are in two words, that is r=16, for one slot.
func (t *compact) bySlots() (c compactSlotted, v slotVectors, ok bool) {
	c.r = t.r
	c.lines64 = t.lines * LineBytes
	c.low = 0xFF << t.shift
	if t.r > 8 {
		c.low <<= quotientBits
	}
	c.inCounts = t.inCounts[1] >> 1
	slot := uint64(0)
	for word := range uint64(LineBytes / 8) {
		begin := t.counts + slot*t.r // its first bit in the line
		for place := range uint64(8) {
			i := 8*word + place
			v.bytes[i] = byte(begin/8 + place) // the low six bits count
			v.values[i] = byte(min(t.values, 0xFF))
			bit := begin%8 + place*t.r
			if slot < t.b && bit+t.r <= 64 {
				slot++
				c.inUse |= 1 << i
				v.shifts[i] = byte(bit)
				v.highsShifts[i] = byte(bit + max(t.r, 8) - 8)
			}
		}
	}
	return c, v, slot == t.b
}

// FirstLooks: the kernel is for tables whose counts are in two words, which is all but
// those of the shortest fingerprints.
func (t *compact) FirstLooks(v *View, hashes []uint64, found []bool, open []uint8) {
	done := 0
	if compactKernel() == avx512 && t.countWords == 2 && len(hashes) >= openBits {
		groups := len(hashes) / openBits
		batch := compactBatch{
			region: &v.Region[0], runtime: &v.Runtime[0],
			hashes: &hashes[0], found: &found[0], open: &open[0], groups: uint64(groups),
			lines: t.lines, values: t.values, ones: t.ones, highs: t.highs, counts: t.counts, r: t.r, f: t.f, masks: &t.masks[0],
		}
		batch.run()
		done = groups * openBits
	}
	for i, asked := done, done; i < len(hashes); i++ {
		if (i-done)%prefetchBurst == 0 {
			for ; asked < min(i+prefetchAhead, len(hashes)); asked++ {
				line, _ := SplitHash(hashes[asked], t.lines)
				Prefetch(&lineAt(v.Region, line)[0])
			}
		}
		isFound, isOpen := t.FirstLook(v, hashes[i])
		found[i] = isFound
		open[i/openBits] |= bit(isOpen) << (i % openBits)
	}
}

func (t *compact) HomeBlocks(hashes, blocks []uint64) { splitLines(hashes, blocks, t.lines) }

// Kernel is that of Blocked; but it is not used where PDEP is no instruction, but a program.
func (t *compact) Kernel() string { return compactKernel().String() }

func compactKernel() kernel {
	if pdepIsSlow {
		return pureGo
	}
	return kernel(inUse.Load())
}
