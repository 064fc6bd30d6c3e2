package layout

import (
	"math/bits"
)

// A batch is looked up in blocks, each in three passes. The first asks for the home
// lines, prefetchAhead hashes before it looks at them, or half as many in assembly: so many
// cache misses are under way at once. It answers what a home line settles, which is nearly all; for
// the rest, the open ones, the second pass asks for their second lines, and the
// third looks them up.
//
// A prefetch stays in the reorder buffer of the processor until its address has been
// translated, which may take as long as a cache miss; of a burst of them that is under
// way at the same time.
const (
	lookupBlock   = 512
	prefetchAhead = 64
	prefetchBurst = 16
)

// A blockedBatch is what a kernel needs. Its fields are in the order in which the
// assembly loads them.
type blockedBatch struct {
	region, runtime *uint64
	hashes          *uint64
	found           *bool  // what the home lines say
	open            *uint8 // a bit for each hash that they do not settle
	groups          uint64 // of 8 hashes, at least one

	lines, values, ones, highs, lanes uint64 // those of blocked
}

func (t *blocked) Kernel() string { return Kernel() }

func (t *blocked) ContainsHashes(v *View, hashes []uint64, found []bool) {
	found = found[:len(hashes)]
	for len(hashes) > 0 {
		n := min(len(hashes), lookupBlock)
		t.containsBlock(v, hashes[:n], found[:n])
		hashes, found = hashes[n:], found[n:]
	}
}

func (t *blocked) containsBlock(v *View, hashes []uint64, found []bool) {
	var bitmap [lookupBlock / openBits]uint8
	open := bitmap[:(len(hashes)+openBits-1)/openBits]
	t.FirstLooks(v, hashes, found, open)
	EachOpen(open, func(i int) { Prefetch(&v.Region[t.Alternate(t.Split(hashes[i])).Line*buckets]) })
	EachOpen(open, func(i int) { found[i] = t.containsBeyond(v, hashes[i]) })
}

// openBits is how many hashes a byte has the bits of that says which are open. It
// is also how many a kernel does at once.
const openBits = 8

func bit(set bool) uint8 {
	if set {
		return 1
	}
	return 0
}

// EachOpen calls do for each bit that is set, starting with the lowest of open[0].
func EachOpen(open []uint8, do func(i int)) {
	for i, set := range open {
		for ; set != 0; set &= set - 1 {
			do(i*openBits + bits.TrailingZeros8(set))
		}
	}
}

func (t *blocked) FirstLooks(v *View, hashes []uint64, found []bool, open []uint8) {
	done := 0
	if k := kernel(inUse.Load()); k != pureGo && len(hashes) >= openBits {
		groups := len(hashes) / openBits
		batch := blockedBatch{
			region: &v.Region[0], runtime: &v.Runtime[0],
			hashes: &hashes[0], found: &found[0], open: &open[0], groups: uint64(groups),
			lines: t.lines, values: t.values, ones: t.ones, highs: t.highs, lanes: t.lanes,
		}
		batch.run(k)
		done = groups * openBits
	}
	for i, asked := done, done; i < len(hashes); i++ {
		if (i-done)%prefetchBurst == 0 {
			for ; asked < min(i+prefetchAhead, len(hashes)); asked++ {
				line, _ := SplitHash(hashes[asked], t.lines)
				Prefetch(&v.Region[line*buckets])
			}
		}
		isFound, isOpen := t.FirstLook(v, hashes[i])
		found[i] = isFound
		open[i/openBits] |= bit(isOpen) << (i % openBits)
	}
}

func (t *blocked) HomeBlocks(hashes, blocks []uint64) { splitLines(hashes, blocks, t.lines) }
