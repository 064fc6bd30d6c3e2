package layout

import (
	"sync"

	"github.com/mmapfilter/mmapfilter/layout/kernel"
)

// A batch is looked up in parts, each in three passes. The first pass answers for nearly all
// hashes. It prefetches a home line prefetchAhead hashes before it looks at the line, so that
// many cache misses overlap. The second pass prefetches the other lines of the hashes that
// are still open, and the third pass looks in these lines.
//
// If a kernel looks, the counters of all lines are loaded once before the passes and once after
// them, since loading the counters of each line would take as long as looking in it. If no counter
// has moved, all words that were read, except overflow bits, are from one instant, and the third
// pass need not look in the home line again. If a counter has moved, each key that was not found is
// looked up alone.
//
// A prefetch stays in the reorder buffer of the processor until its address has been
// translated, which may take as long as a cache miss. The prefetches of a burst are
// translated at the same time.
const (
	// prefetchAhead is more than the number of cache misses that a core can keep in flight, so
	// the core always has as many in flight as it can.
	prefetchAhead = 64
	// prefetchBurst is about as many prefetches as a core keeps in flight. In a longer burst, the
	// last prefetch would wait for the first; shorter bursts would be translated one after the other.
	prefetchBurst = 16
)

// LookupPart is how many lookups of a batch are in progress at once: many times prefetchAhead, since
// misses overlap less where a pass begins and ends. If all hashes of a part are open, their places
// take 32 KiB, which stay in a cache.
const LookupPart = 512

// ContainsHashes sets found[i] to Contains of hashes[i]. found must not be shorter than
// hashes.
func ContainsHashes(t Looks, v *View, hashes []uint64, found []bool) {
	found = found[:len(hashes)]
	for len(hashes) > 0 {
		n := min(len(hashes), LookupPart)
		containsPart(t, v, hashes[:n], found)
		hashes, found = hashes[n:], found[n:]
	}
}

// A scratch is the memory for one part of a batch: which hashes are open, and the places of the
// open ones. Local variables would be allocated on the heap each time, since they are passed to
// methods of an interface, and since there are too many places for a stack.
type scratch struct {
	open   [LookupPart / kernel.Group]uint8
	places [LookupPart]places
}

var scratches = sync.Pool{New: func() any { return new(scratch) }}

func containsPart(t Looks, v *View, hashes []uint64, found []bool) {
	b := scratches.Get().(*scratch)
	open := b.open[:(len(hashes)+kernel.Group-1)/kernel.Group]
	clear(open)
	var sum, odd uint64
	if len(hashes) >= kernel.Group { // otherwise no kernel looks
		sum, odd = v.counters()
	}
	done := firstLooks(t, v, hashes, found, open)
	n, blocks := 0, linesAreBlocks(t)
	kernel.EachBit(open, func(i int) {
		p := &b.places[n]
		p.set(t, hashes[i], blocks)
		kernel.Prefetch(&v.Region[p.other.first])
		n++
	})
	n = 0
	kernel.EachBit(open, func(i int) {
		if p := &b.places[n]; i < done && !found[i] {
			found[i], _ = p.other.look(t, v.Region)
			found[i] = found[i] || mayStash(v.Stash, t.Class(p.home.item)) && Lookup(t, v.source(), hashes[i])
		} else {
			found[i] = containsBeyond(t, v, hashes[i], p)
		}
		n++
	})
	if done > 0 && v.moved(sum, odd) {
		for i, h := range hashes[:done] {
			found[i] = found[i] || Contains(t, v, h)
		}
	}
	scratches.Put(b)
}

// A batchTable is a Table with a kernel for batches.
type batchTable interface {
	// FirstLooks does what FirstLook does, for all of hashes[:done] at once, where done is a
	// multiple of kernel.Group. found[i] is the answer for hashes[i]. If hash i is open,
	// FirstLooks sets bit i%8 of open[i/8], which must be 0 before; then found[i] says whether the
	// home line may have the hash. FirstLooks loads no counter.
	FirstLooks(v *View, hashes []uint64, found []bool, open []uint8) (done int)
	// Kernel returns the name of the kernel.
	Kernel() string
}

// KernelOf returns the name of the kernel that looks batches up in a table.
func KernelOf(t Looks) string {
	if t, ok := t.(batchTable); ok {
		return t.Kernel()
	}
	return kernel.Go.String()
}

// FirstLooks is the first look for many hashes. found[i] is the answer for hashes[i]. If
// hash i is open, FirstLooks sets bit i%8 of open[i/8], which must be 0 before.
func FirstLooks(t Looks, v *View, hashes []uint64, found []bool, open []uint8) {
	sum, odd := v.counters()
	if done := firstLooks(t, v, hashes, found, open); done > 0 && v.moved(sum, odd) {
		for i := range open[:done/kernel.Group] {
			open[i] = 0xff
		}
	}
}

// firstLooks is FirstLooks without the counters for hashes[:done]: the answers for these hashes hold
// only if no counter moves between a moment before the call and a moment after it.
func firstLooks(t Looks, v *View, hashes []uint64, found []bool, open []uint8) (done int) {
	look := FirstLook
	if t, ok := t.(batchTable); ok {
		done = t.FirstLooks(v, hashes, found, open)
		look = Looks.FirstLook
	}
	inBursts(done, len(hashes), func(from, to int) {
		for _, h := range hashes[from:to] {
			first, n := t.Words(t.Split(h).Line)
			prefetchWords(v, first, n)
		}
	}, func(from, to int) {
		for i, h := range hashes[from:to] {
			isFound, isOpen := look(t, v, h)
			note(found, open, from+i, isFound, isOpen)
		}
	})
	return done
}

// inBursts calls look for the numbers in [from, end), a burst at a time. It calls ask for the same
// numbers, but prefetchAhead numbers ahead of look.
func inBursts(from, end int, ask, look func(from, to int)) {
	for asked := from; from < end; from += prefetchBurst {
		if to := min(from+prefetchAhead, end); to > asked {
			ask(asked, to)
			asked = to
		}
		look(from, min(from+prefetchBurst, end))
	}
}

func prefetchWords(v *View, first uint64, n int) {
	kernel.Prefetch(&v.Region[first])
	kernel.Prefetch(&v.Region[first+uint64(n)-1])
}

// note stores the result of a first look for hash number i of a batch.
func note(found []bool, open []uint8, i int, isFound, isOpen bool) {
	found[i] = isFound
	open[i/kernel.Group] |= bit(isOpen) << (i % kernel.Group)
}

// HomeBlocks sets blocks[i] to the block of 64 bytes of the region in which the home line
// of hashes[i] starts.
func HomeBlocks(t Looks, lines uint64, hashes, blocks []uint64) {
	kernel.SplitLines(hashes, blocks, lines)
	if linesAreBlocks(t) {
		return
	}
	for i, line := range blocks[:len(hashes)] {
		first, _ := t.Words(line)
		blocks[i] = first / BlockWords
	}
}
