package layout

import (
	"sync/atomic"

	"github.com/mmapfilter/mmapfilter/layout/kernel"
)

// Lookups: rule R2, in one place. Each of these leaves to the next what it cannot settle:
//
//	Filter.Contains → Direct.Contains    assembly hashes the key and looks in the home line, and where
//	                                     it can in the other line; what it leaves open goes to
//	                                     openFile.contains, and from there to
//	Contains → Looks.FirstLook           the home line: with the kernel "one", or FirstLook below
//	  → containsBeyond → Looks.Look      both lines, with the counters of all places
//	    → Lookup → Looks.LookAt          the stash too; again after a removal, up to lookupTries times
//
// In a file that is open for writing, Direct.Contains goes to openFile.contains at once, and that to
// Writer.Contains of package writer. This calls Contains; or, while operations are pending, FirstLook
// and Lookup. A batch goes from ContainsHashes to FirstLooks, and from there to containsBeyond.
//
// Batches have three drivers, since they know different things. containsPart (batch.go) has one table;
// in containsIn (shards.go) each hash has that of its shard; containsPartUnder (package writer) asks the
// pending words before the file. The last two load no counter and no slot: they use FirstLooks, or
// inBursts as it does, and then containsBeyond or a whole lookup. So neither holds a part of R2. Count
// (count.go) has a loop of its own, because it must count in every place, and Lookup ends at the first
// find.
//
// A layout contributes how to look in one line (LookAt and Look) and, where it has kernels, first looks
// (FirstLook and FirstLooks). The order of loads, and what may be concluded from them, stand here: in
// counters for words that come from anywhere (Lookup and Count), and in FirstLook and containsBeyond for
// a view. Kernels load the counters with instructions of their own: the function "one", those for
// batches of a set and the code of a [Direct], all in compact. Those for batches of a table load none:
// all counters of the file are loaded before a part of a batch and after it, and if one has moved, each
// key that was not found is looked up alone. Kernels look in the home line alone. Tests (package
// layout/all) hold the first looks against FirstLook, and batches and sets against Contains.
//
// # Why a lookup misses no item
//
// A lookup reads its places one after the other. It could miss an item that moves meanwhile, from a
// place that it has yet to read to one that it has read. So it loads the counter of every place before
// the first slot of any place, and all counters again at the end. It answers "certainly not" only if
// each was even and is the same. Then, for an item that is in the table all the time:
//
//  1. A counter only rises, and is odd during a removal. So nothing was removed from the places of the
//     lookup between the first loads of the counters and the second ones.
//  2. At every instant the item is in one of its places, since a writer that moves it stores it at its
//     destination before it removes it from its source. A move inside a block is the exception; it is
//     a removal too, and 1 excludes it.
//  3. Take the place where the item is right after the first loads. It leaves that place only by a
//     removal. So by 1 it is still there when the lookup reads that place, and the lookup finds it.
//  4. Unless the lookup ends at the home line, and the place is another. But before an item leaves home
//     its overflow bits are set there. They are cleared only when no item that is elsewhere needs them;
//     then this one has come home, which a layout that clears them guards, so 1 excludes it. So the
//     lookup has read them as set, and has gone on.
//  5. The same holds for the marks of the stash: they are cleared when no entry beyond them is left.
//  6. In some layouts, only all words of a line together tell what is in it. There every change of a
//     line is guarded. So by 1 the words that the lookup has read are those of one instant.
//  7. A recovery stores in another order, and leaves even counters alone. But the epoch is odd from
//     before its first store to after its last, and every lookup has the epoch among its counters.
//
// If the home line turns out not to be enough, the lookup starts again, with the counters of all its
// places. If it loaded the other counters then and went on, it would miss an item that left the other
// line for home between the two looks.
//
// The steps need loads and stores in order. All are atomic, of aligned words, and Go orders these
// sequentially. Less would do: a reader that sees a word that something was removed from must see that
// its counter is odd or higher (release and acquire), and one that sees a counter after a removal must
// see the copy that came before it. Nothing waits for a store of a reader to be seen, as there are none.
// A writer in another process stores to the same pages through its own mapping, and the processor orders
// accesses to memory, whatever address they go through.
//
// "Maybe" needs no argument: an item that was found ends a lookup at once.

// lookupTries is how many looks a lookup takes before it answers "maybe". The first may only
// show that the home line is not enough. A removal disturbs one of the other seven if its
// counter is one of those of the two lines, at most 4 of 256. So with ten removals during
// each look, all seven are disturbed less than once in 100,000 lookups. More looks would
// only take time where a dead writer has left a counter odd, which disturbs them all.
const lookupTries = 8

// Looks are what lookups need of a table.
type Looks interface {
	// Split returns the item of a hash, seen from its home line.
	Split(h uint64) Item
	// Alternate returns the same item seen from its other line. That is the same line
	// if the item has only one. Alternate is its own inverse.
	Alternate(it Item) Item
	// Class returns what the stash calls the item, as in Classes.
	Class(it Item) Class
	// Words returns the words of the region that hold a line: n of them, starting with
	// first. They lie in one block of 64 bytes, or in two.
	Words(line uint64) (first uint64, n int)
	// LookAt looks an item up in the line it is seen from: found reports whether a slot
	// has it, beyond whether the line says that it may be elsewhere. at returns the word
	// of a file with that number. LookAt asks for each word at most once.
	LookAt(at func(word uint64) uint64, it Item) (found, beyond bool)
	// Look is LookAt in the words of the line, which are those that Words says, or more.
	Look(words []uint64, it Item) (found, beyond bool)
	// FirstLook looks a hash up in its home line alone. If open is false, found is what
	// Lookup would report. A layout without overflow bits leaves all open: as each lookup
	// goes on to the second line, it is faster to look in both at once.
	FirstLook(v *View, h uint64) (found, open bool)
}

// Lookup looks a hash up in words that come from anywhere: at returns the word of a file
// with that number, from the runtime page on. It reports true if the hash may be in the
// table, and false only if it certainly is not, whatever a writer does meanwhile (rule
// R2).
func Lookup(t Looks, at func(word uint64) uint64, h uint64) bool {
	home := t.Split(h)
	other := t.Alternate(home)
	var rests counters
	rests.addHome(t, home)
	_, ends := t.(Hosts)
	all := !ends // whether rests has the counters of every place
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

// counters are those that a lookup rests on, as words of the runtime page: the epoch, those of
// both lines, each of which may be in two blocks, and that of the stash. A look is between
// begin and moved.
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

// blocksOf returns the blocks of the region in which words of it start and end.
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

// load returns the sum of the counters and in bit 0 whether one of them is odd. While none is,
// counters only rise: then they are what they were if their sum is. (The epoch of a file that is
// superseded is odd, and falls again if the other file cannot take its place.)
func (c *counters) load(at func(word uint64) uint64) (sum, odd uint64) {
	for _, word := range c.words[:c.n] {
		n := at(WordRuntime + word)
		sum, odd = sum+n, odd|n
	}
	return sum, odd
}

// Contains is Lookup in a view. Most keys are settled by the first look.
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

// set sets p to the places of a hash. In a batch, blocks is asked for once.
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

// containsBeyond is Contains for a hash that the first look does not settle. It loads
// the counters of all places first. It leaves a hash to Lookup if the stash may have it,
// or if a removal came between.
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

// load is counters.load for a view: call it before the first place is read, and after the last. A line
// in one block has its counter twice, which is harmless and spares a branch.
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
// Lookup. If open is false, found is what Lookup would report. Otherwise Lookup starts
// over, so what holds for Lookup holds for both. The kernels do the same. No branch
// depends on what is found: it would mispredict half the time.
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
