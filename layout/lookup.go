package layout

import (
	"sync/atomic"

	"github.com/mmapfilter/mmapfilter/layout/kernel"
)

// Lookups: rule R2, in one place. Each of these functions leaves to the next one the
// lookups that it cannot answer:
//
//	Filter.Contains → Direct.Contains    assembly hashes the key and looks in the home line, and where
//	                                     it can in the other line; what it leaves open goes to
//	                                     openFile.contains, and from there to
//	Contains → Looks.FirstLook           the home line: with the kernel "one", or FirstLook below
//	  → containsBeyond → Looks.Look      both lines, with the counters of all places
//	    → Lookup → Looks.LookAt          the stash too; again after a removal, up to lookupTries times
//
// In a file that is open for writing, Direct.Contains goes to openFile.contains at once, which goes
// to Writer.Contains of package writer. Writer.Contains calls Contains; or, while operations are
// pending, FirstLook and Lookup. A batch goes from ContainsHashes to FirstLooks, and from there to
// containsBeyond.
//
// Batches have three drivers, since they look in different places. containsPart (batch.go) looks in
// one table; containsIn (shards.go) looks for each hash in the table of its shard; containsPartUnder
// (package writer) looks in the pending words before the file. The last two load no counter and no
// slot themselves: they use FirstLooks or inBursts, and then containsBeyond or a whole lookup. So
// neither has a part of R2. Count (count.go) has a loop of its own, because it must count in every
// place, while Lookup ends at the first find.
//
// A layout contributes how to look in one line (LookAt and Look) and, where it has kernels, first looks
// (FirstLook and FirstLooks). The order of loads, and what may be concluded from it, is in this
// file: in the type counters for words that come from anywhere (Lookup and Count), and in FirstLook
// and containsBeyond for a view. Three kernels of compact load the counters themselves: the function
// "one", the kernels for batches of a set, and the code of a [Direct]. The kernels for batches of a
// table load none: all counters of the file are loaded before a part of a batch and after it, and if
// a counter has moved, each key that was not found is looked up alone. Kernels look in the home line
// alone. Tests (package layout/all) compare the first looks with FirstLook, and batches and sets
// with Contains.
//
// # Why a lookup misses no item
//
// A lookup reads its places one after the other. It could miss an item that moves meanwhile, from a
// place that the lookup has yet to read to a place that it has read. So it loads the counter of every
// place before the first slot of any place, and all counters again at the end. It answers "certainly
// not" only if each counter was even and has not changed. Then, for an item that is in the table all
// the time:
//
//  1. A counter only rises, and is odd during a removal. So nothing was removed from the places of the
//     lookup between the first loads of the counters and the second loads.
//  2. At every instant the item is in one of its places, since a writer that moves it stores it at its
//     destination before it removes it from its source. A move inside a block is the exception; it is
//     a removal too, and 1 excludes it.
//  3. Take the place where the item is right after the first loads. It leaves that place only by a
//     removal. So by 1 it is still there when the lookup reads that place, and the lookup finds it.
//  4. Step 3 fails if the lookup ends at the home line and the item is elsewhere. But the overflow
//     bits of an item are set in its home line before it leaves, and are cleared only when no item
//     elsewhere needs them. If the lookup had read the bits as clear, the item would have come home
//     meanwhile. A layout that clears overflow bits guards coming home, so 1 excludes this. So the
//     lookup has read the bits as set, and has gone on.
//  5. The same holds for the group marks of the stash: one is cleared when no entry beyond it is left.
//  6. In some layouts, only all words of a line together tell what is in it. These layouts guard
//     every change of a line. So by 1 the words that the lookup has read are those of one instant.
//  7. A recovery stores in another order, and does not make counters odd. But the epoch is odd from
//     before its first store to after its last, and every lookup has the epoch among its counters.
//
// If the home line turns out not to be enough, the lookup starts again, with the counters of all its
// places. If it only loaded the other counters and went on, it would miss an item that moved from
// the other line to the home line between the two looks.
//
// The steps need loads and stores in order. All are atomic, of aligned words, and Go orders these
// sequentially. Less order would do. A reader that sees a word after a removal must also see its
// counter odd or higher (release and acquire). A reader that sees a counter after a removal must
// also see the copy of the item that was stored before the removal. Readers store nothing, so no
// writer waits for them. A writer in another process stores to the same pages through its own
// mapping, and the processor orders accesses to the same memory through different addresses
// too.
//
// "Maybe" needs no argument: an item that was found ends a lookup at once.

// lookupTries is the number of looks after which a lookup answers "maybe". The first look may
// only show that the home line is not enough. A removal disturbs one of the other seven
// looks if its counter is a counter of the two lines; at most 4 of the 256 counters are. So
// with ten removals during each look, all seven are disturbed less than once in 100,000
// lookups. More looks would only take time if a dead writer has left a counter odd, because
// an odd counter disturbs every look.
const lookupTries = 8

// Looks are what lookups need of a table.
type Looks interface {
	// Split returns the item of a hash, seen from its home line.
	Split(h uint64) Item
	// Alternate returns the same item seen from its other line, or from the same line if
	// the item has only one. Alternate is its own inverse.
	Alternate(it Item) Item
	// Class returns the class of the item, as in Classes.
	Class(it Item) Class
	// Words returns the words of the region that hold a line: n of them, starting with
	// first. They lie in one block of 64 bytes, or in two.
	Words(line uint64) (first uint64, n int)
	// LookAt looks an item up in the line it is seen from. found reports whether a slot has the
	// item; beyond reports whether the line says that the item may be elsewhere. at returns a
	// word of the file by its number. LookAt asks for each word at most once.
	LookAt(at func(word uint64) uint64, it Item) (found, beyond bool)
	// Look is LookAt in the words of the line: at least the words that Words names.
	Look(words []uint64, it Item) (found, beyond bool)
	// FirstLook looks a hash up in its home line alone. If open is false, found is what
	// Lookup would report. A layout without overflow bits leaves all hashes open, because
	// each of its lookups goes on to the second line, and looking in both lines at once is
	// faster.
	FirstLook(v *View, h uint64) (found, open bool)
}

// Lookup looks a hash up in words that come from anywhere: at returns a word of the file
// by its number; the first word that Lookup may ask for is in the runtime page. Lookup
// reports true if the hash may be in the table, and false only if it certainly is not,
// whatever a writer does meanwhile (rule R2).
func Lookup(t Looks, at func(word uint64) uint64, h uint64) bool {
	home := t.Split(h)
	other := t.Alternate(home)
	var rests counters
	rests.addHome(t, home)
	_, ends := t.(Hosts)
	all := !ends // whether rests has the counters of all places
	if all {
		rests.addOthers(t, other)
	}
	for range lookupTries {
		rests.begin(at)
		found, beyond := t.LookAt(at, home)
		if found {
			return true
		}
		if beyond {
			if !all {
				rests.addOthers(t, other)
				all = true
				continue
			}
			if found, _ = t.LookAt(at, other); found || StashCountAt(at, t.Class(home)) != 0 {
				return true
			}
		}
		if !rests.moved(at) {
			return false
		}
	}
	return true
}

// counters names the counters that must not change during a lookup, as words of the runtime
// page: the epoch, the counters of both lines, each of which may be in two blocks, and the
// counter of the stash. A look is between begin and moved.
type counters struct {
	words [maxCounters]uint64
	n     int
	sum   uint64 // of the counters when the look began
	odd   uint64 // in bit 0: whether one of them was odd then
}

const maxCounters = 6

func (c *counters) add(word uint64) {
	c.words[c.n] = word
	c.n++
}

func (c *counters) addHome(t Looks, home Item) {
	c.add(RuntimeEpoch)
	c.addLine(t.Words(home.Line))
}

func (c *counters) addOthers(t Looks, other Item) {
	c.addLine(t.Words(other.Line))
	c.add(RuntimeStashCounter)
}

func (c *counters) addLine(word uint64, n int) {
	first, last := blocksOf(word, n)
	if c.add(blockCounter(first)); last != first {
		c.add(blockCounter(last))
	}
}

// blocksOf returns the blocks that hold the first and the last of n words of the region.
func blocksOf(first uint64, n int) (from, to uint64) {
	return first / BlockWords, (first + uint64(n) - 1) / BlockWords
}

// begin begins a look, before the first load of any place.
func (c *counters) begin(at func(word uint64) uint64) { c.sum, c.odd = c.load(at) }

// moved ends a look, and reports whether a counter has changed, or is or was odd.
func (c *counters) moved(at func(word uint64) uint64) bool {
	sum, odd := c.load(at)
	return sum != c.sum || (odd|c.odd)&1 != 0
}

// load returns the sum of the counters, and in bit 0 of odd whether one of them is odd. Even
// counters only rise. So if none is odd and the sum is the same as before, no counter has
// changed. (The epoch of a file that is superseded is odd, and falls again if the other file
// cannot take its place.)
func (c *counters) load(at func(word uint64) uint64) (sum, odd uint64) {
	for _, word := range c.words[:c.n] {
		n := at(WordRuntime + word)
		sum, odd = sum+n, odd|n
	}
	return sum, odd
}

// Contains is Lookup in a view. The first look answers for most keys.
func Contains(t Looks, v *View, h uint64) bool {
	if found, open := t.FirstLook(v, h); !open {
		return found
	}
	var p places
	p.set(t, h, linesAreBlocks(t))
	kernel.Prefetch(&v.Region[p.other.first])
	return containsBeyond(t, v, h, &p)
}

// places are the two lines in which an item may be.
type places struct{ home, other place }

// A place is an item in a line, and the words of the region that hold the line.
type place struct {
	item  Item
	first uint64
	n     int
}

func (p *place) set(t Looks, it Item) {
	p.item = it
	p.first, p.n = t.Words(it.Line)
}

// set sets p to the places of a hash. blocks is linesAreBlocks of the table, which a batch calls once.
func (p *places) set(t Looks, h uint64, blocks bool) {
	home := t.Split(h)
	other := t.Alternate(home)
	if blocks {
		p.home = place{home, home.Line * BlockWords, BlockWords}
		p.other = place{other, other.Line * BlockWords, BlockWords}
		return
	}
	p.home.set(t, home)
	p.other.set(t, other)
}

// linesAreBlocks reports whether each line of a table is a block.
func linesAreBlocks(t Looks) bool {
	_, n := t.Words(0)
	return n == BlockWords
}

func (p *place) look(t Looks, region []uint64) (found, beyond bool) {
	return t.Look(region[p.first:p.first+uint64(p.n)], p.item)
}

// containsBeyond is Contains for a hash that the first look leaves open. It loads the
// counters of all places first. It leaves a hash to Lookup if the stash may have it, or if
// a removal disturbed the look.
func containsBeyond(t Looks, v *View, h uint64, p *places) bool {
	sum, odd := p.load(v)
	found, beyond := p.home.look(t, v.Region)
	if !found && beyond {
		found, _ = p.other.look(t, v.Region)
		if !found && mayStash(v.Stash, t.Class(p.home.item)) {
			return Lookup(t, v.source(), h)
		}
	}
	if found {
		return true
	}
	again, oddAgain := p.load(v)
	return (again != sum || (odd|oddAgain)&1 != 0) && Lookup(t, v.source(), h)
}

// load is counters.load for a view: call it before the first place is read, and after the last. If a
// line is in one block, load loads its counter twice, which is harmless and avoids a branch.
func (p *places) load(v *View) (sum, odd uint64) {
	runtime := (*[RuntimeWords]uint64)(v.Runtime)
	e, s := atomic.LoadUint64(&runtime[RuntimeEpoch]), atomic.LoadUint64(&runtime[RuntimeStashCounter])
	home, homeLast := p.home.load(runtime)
	other, otherLast := p.other.load(runtime)
	return e + s + home + homeLast + other + otherLast, e | s | home | homeLast | other | otherLast
}

// load loads the counters of the blocks in which a line starts and ends.
func (p *place) load(runtime *[RuntimeWords]uint64) (first, last uint64) {
	from, to := blocksOf(p.first, p.n)
	return atomic.LoadUint64(&runtime[blockCounter(from)]), atomic.LoadUint64(&runtime[blockCounter(to)])
}

// FirstLook looks a hash up in its home line alone, with the loads in the order of
// Lookup. If open is false, found is what Lookup would report. If open is true, the caller
// goes on with a lookup that starts over. So the proof for Lookup holds for FirstLook too.
// The kernels do the same. No branch depends on what is found: it would mispredict half the
// time.
func FirstLook(t Looks, v *View, h uint64) (found, open bool) {
	var home place
	home.set(t, t.Split(h))
	runtime := (*[RuntimeWords]uint64)(v.Runtime)
	e := atomic.LoadUint64(&runtime[RuntimeEpoch])
	c, n := home.load(runtime)
	found, beyond := home.look(t, v.Region)
	again := atomic.LoadUint64(&runtime[RuntimeEpoch])
	c2, n2 := home.load(runtime)
	moved := (again ^ e) | (c2 ^ c) | (n2 ^ n) | (e|c|n)&1
	return found, (bit(beyond)|bit(moved != 0))&^bit(found) != 0
}

func bit(set bool) uint8 {
	if set {
		return 1
	}
	return 0
}
