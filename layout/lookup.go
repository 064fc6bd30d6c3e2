package layout

import (
	"sync"
	"sync/atomic"

	"github.com/mmapfilter/mmapfilter/layout/kernel"
)

// Lookups: rule R2, in one place. A layout contributes how to look in one line (LookAt
// and Look) and, where it has kernels, first looks (FirstLook and FirstLooks); the order
// of loads and what may be concluded from them stand here, once for words that come
// from anywhere (Lookup) and once for a view, for single keys and for batches.
//
// An item that a writer moves is at its destination before it leaves its source, so at
// any instant it is in one of its places; or it moves inside a block, whose removal
// counter is odd meanwhile. But a lookup reads its places one after the other. If it
// finds nothing, it has missed the item only if the item moved meanwhile, from a place
// not yet read to one already read; and the place it left has a counter that went up
// after the item had reached the other. So a lookup loads the counter of every place
// before the first slot of any place, and once more at the end.
//
// If the home line turns out not to be enough, the lookup therefore starts again. To
// load the counters of the other line then and go on would miss an item that came home,
// and left the other line, between the two looks.
//
// In full: let every counter be even at its first load and the same at its last, so that no removal
// it stands for lies between the two (a counter only goes up). Take an item that is in the table
// all the time, and the instant after the first loads. It is in one of its places then, and stays
// there until that place is read, since it would leave by a removal. So the lookup finds it there;
// or it goes no further than the home line, and then the item is in another place. But before an
// item leaves home its overflow bits are set there: they were set at that instant. If they are ever
// cleared, no item that is elsewhere needs them, so this one has come home since; and a layout that
// clears them guards that it comes. So they were read as well. The same holds for the marks of the
// stash, which are cleared when no entry beyond them is left. A move inside a line is a removal
// from a word of it, and is seen like the others. A layout whose words only tell together what is
// in a line guards every change of it: where its counter stood still, the words are those of one
// instant. A recovery stores in no such order and leaves even counters alone; it has the epoch,
// which is odd from before its first store to after its last.
//
// As to memory: a writer's stores are seen in their order, and the loads here are done in
// theirs. All are atomic, of aligned words, and Go orders these sequentially. Less would
// do: whoever sees a word that something was taken from sees from then on that its
// counter is odd or higher (release and acquire), and whoever sees a counter after a
// removal sees the copy that came before it. Nothing here waits for a store of a reader
// to be seen, as there are none. A writer in another process stores to the same pages
// through its own mapping, and the processor orders accesses to memory, whatever address
// they go through.
//
// "Maybe" needs no argument: an item that was found ends a lookup at once.

// LookupTries is how many looks a lookup takes before it answers "maybe". The first may only
// show that the home line is not enough. A removal disturbs one of the other seven if its
// counter is one of those of the two lines, at most 4 of 256. So with ten removals during
// each look, all seven are disturbed less than once in 100,000 lookups. More looks would
// only cost time where a dead writer has left a counter odd, which disturbs them all.
const LookupTries = 8

// Lookup looks a hash up in words that come from anywhere: at returns the word of a file
// with that number, from the runtime page on. It reports true if the hash may be in the
// table, and false only if it certainly is not, whatever a writer does meanwhile (rule
// R2).
func Lookup(t Table, at func(word uint64) uint64, h uint64) bool {
	home := t.Split(h)
	other := t.Alternate(home)
	var rests counters
	rests.add(RuntimeEpoch)
	rests.addLine(t.Blocks(home.Line))
	all := t.Both() // whether rests has the counters of every place
	if all {
		rests.addOthers(t.Blocks(other.Line))
	}
	for range LookupTries {
		before, odd := rests.load(at)
		found, beyond := t.LookAt(at, home)
		if found {
			return true
		}
		if beyond {
			if !all {
				rests.addOthers(t.Blocks(other.Line))
				all = true
				continue
			}
			if found, _ = t.LookAt(at, other); found || StashCountAt(at, t.Class(home)) != 0 {
				return true
			}
		}
		if after, moving := rests.load(at); after == before && !odd && !moving {
			return false
		}
	}
	return true
}

// counters are those a lookup rests on, as words of the runtime page: the epoch, those of
// both lines, each of which may be in two blocks, and that of the stash.
type counters struct {
	words [maxCounters]uint64
	n     int
}

const maxCounters = 6

func (c *counters) add(word uint64) {
	c.words[c.n] = word
	c.n++
}

func (c *counters) addLine(first, last uint64) {
	if c.add(blockCounter(first)); last != first {
		c.add(blockCounter(last))
	}
}

func (c *counters) addOthers(first, last uint64) {
	c.addLine(first, last)
	c.add(RuntimeStashCounter)
}

// load returns the sum of the counters and whether one of them is odd. While none is, counters only
// rise: then they are what they were if their sum is. (The epoch of a file that is superseded is odd,
// and falls again if the other file cannot take its place.)
func (c *counters) load(at func(word uint64) uint64) (sum uint64, odd bool) {
	any := uint64(0)
	for _, word := range c.words[:c.n] {
		n := at(WordRuntime + word)
		sum, any = sum+n, any|n
	}
	return sum, any&1 != 0
}

// Contains is Lookup in a view. Most keys are settled by the first look.
func Contains(t Table, v *View, h uint64) bool {
	if !t.Both() {
		if found, open := t.FirstLook(v, h); !open {
			return found
		}
	}
	b := blocks.Get().(*block)
	p := &b.places[0]
	t.Places(h, p)
	kernel.Prefetch(&v.Region[p.OtherFirst*BlockWords])
	found := containsBeyond(t, v, h, p)
	blocks.Put(b)
	return found
}

// containsBeyond is Contains for a hash that the first look does not settle. It loads
// the counters of all places first. What does not come to an end is left to Lookup.
func containsBeyond(t Table, v *View, h uint64, p *Places) bool {
	w := watchPlaces(v, p)
	found, beyond := t.Look(v.Region, p.Home)
	if !found && beyond {
		found, _ = t.Look(v.Region, p.Other)
		if !found && mayStash(v.Stash, p.Class) {
			return Lookup(t, v.source(), h)
		}
	}
	return found || w.moved() && Lookup(t, v.source(), h)
}

// A watch is the counters of a lookup in a view. It starts before the first place is
// read. A line in one block has its counter twice, which is harmless and spares a branch.
type watch struct {
	counters [maxCounters]*uint64
	sum, odd uint64
}

func watchPlaces(v *View, p *Places) (w watch) {
	runtime := (*[RuntimeWords]uint64)(v.Runtime)
	w.counters = [maxCounters]*uint64{
		&runtime[RuntimeEpoch], &runtime[RuntimeStashCounter],
		&runtime[blockCounter(p.HomeFirst)], &runtime[blockCounter(p.HomeLast)],
		&runtime[blockCounter(p.OtherFirst)], &runtime[blockCounter(p.OtherLast)],
	}
	for _, c := range w.counters {
		n := atomic.LoadUint64(c)
		w.sum, w.odd = w.sum+n, w.odd|n
	}
	return w
}

// moved reports whether a counter has changed, or is or was odd.
func (w *watch) moved() bool {
	sum, odd := w.sum, w.odd
	for _, c := range w.counters {
		n := atomic.LoadUint64(c)
		sum, odd = sum-n, odd|n
	}
	return sum|odd&1 != 0
}

// mayStash reports whether the stash may have an entry of a class: whether the group that
// it is looked for in is not empty.
func mayStash(stash []uint64, c Class) bool {
	group := (*[groupWords]uint64)(stash[c.firstGroup():])
	used := atomic.LoadUint64(&group[0]) & groupMark
	for i := 1; i < groupWords; i += 2 {
		used |= atomic.LoadUint64(&group[i])
	}
	return used != 0
}

// A batch is looked up in blocks, each in three passes. The first asks for the home
// lines, prefetchAhead hashes before it looks at them, so that many cache misses overlap,
// and settles nearly all hashes. The second asks for the other lines of those that are
// still open, and the third looks them up.
//
// A prefetch stays in the reorder buffer of the processor until its address has been
// translated, which may take as long as a cache miss; those of a burst are translated
// at the same time.
const (
	lookupBlock   = 512
	prefetchAhead = 64
	prefetchBurst = 16
)

// ContainsHashes sets found[i] to Contains of hashes[i]. found must not be shorter than
// hashes.
func ContainsHashes(t Table, v *View, hashes []uint64, found []bool) {
	found = found[:len(hashes)]
	for len(hashes) > 0 {
		n := min(len(hashes), lookupBlock)
		containsBlock(t, v, hashes[:n], found)
		hashes, found = hashes[n:], found[n:]
	}
}

// A block is the memory for one of a batch: which hashes are open, and the places of those.
// As local variables they would be moved to the heap each time, since they are passed to
// methods of an interface.
type block struct {
	open   [lookupBlock / kernel.Group]uint8
	places [lookupBlock]Places
}

var blocks = sync.Pool{New: func() any { return new(block) }}

func containsBlock(t Table, v *View, hashes []uint64, found []bool) {
	b := blocks.Get().(*block)
	open := b.open[:(len(hashes)+kernel.Group-1)/kernel.Group]
	clear(open)
	FirstLooks(t, v, hashes, found, open)
	n := 0
	kernel.EachBit(open, func(i int) {
		p := &b.places[n]
		t.Places(hashes[i], p)
		kernel.Prefetch(&v.Region[p.OtherFirst*BlockWords])
		n++
	})
	n = 0
	kernel.EachBit(open, func(i int) {
		found[i] = containsBeyond(t, v, hashes[i], &b.places[n])
		n++
	})
	blocks.Put(b)
}

// FirstLooks is the first look for many hashes: found[i] is for hashes[i], and it sets
// bit i%8 of open[i/8], which must be 0 before, if that hash is open.
func FirstLooks(t Table, v *View, hashes []uint64, found []bool, open []uint8) {
	done := t.FirstLooks(v, hashes, found, open)
	for i, asked := done, done; i < len(hashes); i++ {
		if (i-done)%prefetchBurst == 0 {
			for ; asked < min(i+prefetchAhead, len(hashes)); asked++ {
				first, n := t.Words(t.Split(hashes[asked]).Line)
				kernel.Prefetch(&v.Region[first])
				kernel.Prefetch(&v.Region[first+uint64(n)-1])
			}
		}
		isFound, isOpen := t.FirstLook(v, hashes[i])
		found[i] = isFound
		open[i/kernel.Group] |= bit(isOpen) << (i % kernel.Group)
	}
}

// FirstLook looks a hash up in its home line alone, with the loads in the order of
// Lookup. If open is false, found is what Lookup would report; otherwise Lookup starts
// over, and so what holds for Lookup holds for both. It is the twin of the kernels. No
// branch depends on what is found: it would mispredict half the time.
func FirstLook(t Table, v *View, h uint64) (found, open bool) {
	home := t.Split(h)
	first, last := t.Blocks(home.Line)
	runtime := (*[RuntimeWords]uint64)(v.Runtime)
	epoch, counter, next := &runtime[RuntimeEpoch], &runtime[blockCounter(first)], &runtime[blockCounter(last)]
	e, c, n := atomic.LoadUint64(epoch), atomic.LoadUint64(counter), atomic.LoadUint64(next)
	found, beyond := t.Look(v.Region, home)
	moved := (atomic.LoadUint64(epoch) ^ e) | (atomic.LoadUint64(counter) ^ c) | (atomic.LoadUint64(next) ^ n) | (e|c|n)&1
	return found, (bit(beyond)|bit(moved != 0))&^bit(found) != 0
}

func bit(set bool) uint8 {
	if set {
		return 1
	}
	return 0
}

// HomeBlocks sets blocks[i] to the block of 64 bytes of the region in which the home line
// of hashes[i] starts.
func HomeBlocks(t Table, hashes, blocks []uint64) {
	kernel.SplitLines(hashes, blocks, t.Lines())
	if last, _ := t.Blocks(t.Lines() - 1); last == t.Lines()-1 {
		return // every line is a block
	}
	for i, line := range blocks[:len(hashes)] {
		blocks[i], _ = t.Blocks(line)
	}
}
