package mmapfilter

import (
	"math/bits"
	"slices"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/kernel"
)

// maxOperationStores bounds the words that one operation stores. A move along a path
// sets the overflow bits of an item, removes it and puts another in; the end of the
// path takes one; then there are the overflow bits of the new item, the words of the
// stash, and the delete whose room is used.
func maxOperationStores(t layout.Table) int {
	b := t.Bounds()
	move := b.OverflowStores + b.RemoveStores + b.PlaceStores
	return b.PathMoves*move + b.PlaceStores + b.OverflowStores + layout.MaxStashStores + b.RemoveStores
}

// A space is the lines and the stash that a placer works on.
type space interface {
	// load returns the image of a line, with everything stored to it so far, to read
	// and change. It is valid until the next load.
	load(line uint64) *layout.Line
	// prefetch prefetches what load reads of a line.
	prefetch(line uint64)
	// full reports whether a line is known to have no free slot, faster than load.
	// False says nothing.
	full(line uint64) bool
	// store keeps the changes to the image that was loaded last. s lists the words that
	// changed, in an order in which they may be stored.
	store(s *layout.Stores)
	// stash returns the stash as it was before the operation in progress.
	stash() []uint64
	// storeStash stores a word of the stash.
	storeStash(word, value uint64, guarded bool)
}

// A direct space is a view that nothing else reads or writes: that of a file under
// construction.
type direct struct {
	table layout.Table
	view  layout.View
	line  uint64 // loaded last
	image layout.Line
}

func newDirect(t layout.Table, v layout.View) *direct { return &direct{table: t, view: v} }

func (d *direct) load(line uint64) *layout.Line {
	d.line = line
	d.table.Load(d.view.Region, line, &d.image)
	return &d.image
}

func (d *direct) prefetch(line uint64) {
	first, n := d.table.Words(line)
	kernel.Prefetch(&d.view.Region[first])
	kernel.Prefetch(&d.view.Region[first+uint64(n)-1])
}

func (d *direct) full(line uint64) bool { return d.table.Full(d.view.Region, line) }

func (d *direct) store(*layout.Stores) { d.table.Store(d.view.Region, d.line, &d.image) }

func (d *direct) stash() []uint64 { return d.view.Stash }
func (d *direct) storeStash(word, value uint64, guarded bool) {
	d.view.Stash[word-layout.WordStash] = value
}

// A placer puts items into a space and removes them. It loses none: if it refuses an
// item, nothing has changed. It stores in an order in which every item that was there
// can be found after each store.
type placer struct {
	table  layout.Table
	bounds layout.Bounds
	space  space

	stores  layout.Stores // the words that changed of the line being worked on
	queue   []placing     // the search for a path
	visited lineSet
	victims []layout.Item
	outlook *outlook         // of the insert under way
	byMarks [3][]layout.Item // for listVictims: a move sets up to two bits
}

// A placing is a step of a path: its item goes to item.Line, and its removal from the
// line of the step before makes room for the item of that step.
type placing struct {
	item  layout.Item
	from  int // the step before, or -1
	moves int // up to here
}

func newPlacer(t layout.Table, s space) *placer {
	b := t.Bounds()
	return &placer{table: t, bounds: b, space: s, outlook: &unknown, visited: newLineSet(2 + b.SearchLines*t.SlotsPerLine())}
}

// insert finds room for an item, given from its home line, in this order: the home
// line, with moves inside it; the alternate line, likewise; a path of moves between
// lines; the stash. It reports false if there is none. If the table chooses which item
// moves, the alternate line is one of many where a path may lead.
func (p *placer) insert(home layout.Item) bool {
	o := p.outlook
	if !o.home && p.putInLine(home) {
		return true
	}
	other := p.table.Alternate(home)
	takes := !p.bounds.ChooseFirst && other.Line != home.Line && !o.other
	if takes && (o.home || !p.space.full(other.Line)) && p.putInLine(other) { // o.home: then o knows of the other line
		p.markOverflow(home)
		return true
	}
	if at, ok := p.putByMoves(home, other); ok {
		if at != home.Line {
			p.markOverflow(home)
		}
		return true
	}
	if !layout.StashAdd(p.space.stash(), p.table.Class(home), p.space.storeStash) {
		return false
	}
	p.markOverflow(home)
	return true
}

// countUp puts an item into the stash if its class has an entry there.
func (p *placer) countUp(home layout.Item) bool {
	c := p.table.Class(home)
	if layout.StashCount(p.space.stash(), c) == 0 || !layout.StashAdd(p.space.stash(), c, p.space.storeStash) {
		return false
	}
	p.markOverflow(home)
	return true
}

// remove deletes an item, given from its home line: from there, else from the stash,
// else from its alternate line. It returns the line that has room now, if any.
//
// The stash comes before the alternate line because a copy in the alternate line may be
// a twin, an equal item whose home is that line: if no overflow bits are set there, the
// twin would be looked for nowhere else.
func (p *placer) remove(home layout.Item) (freed uint64, inLine, ok bool) {
	if p.takeFromLine(home) {
		return home.Line, true, true
	}
	if !p.table.Overflowed(p.space.load(home.Line), home) {
		return 0, false, false
	}
	if layout.StashRemove(p.space.stash(), p.table.Class(home), p.space.storeStash) {
		return 0, false, true
	}
	if other := p.table.Alternate(home); p.takeFromLine(other) {
		return other.Line, true, true
	}
	return 0, false, false
}

// settle finds room for an item that is in neither of its lines and whose overflow bits
// are set in its home line.
func (p *placer) settle(it layout.Item) bool {
	return p.putInEither(it, true) || layout.StashAdd(p.space.stash(), p.table.Class(it), p.space.storeStash)
}

// unstash moves an item of a class from the stash into a line. Its overflow bits were
// set in its home line when it went to the stash, and stay. Entries that only damage
// can have left stay too.
func (p *placer) unstash(it layout.Item, search bool) bool {
	if !layout.Stashed(p.table, p.space.stash(), layout.Class(it)) {
		return false
	}
	ok := p.putInEither(it, search)
	if ok && !layout.StashRemove(p.space.stash(), p.table.Class(it), p.space.storeStash) {
		panic("mmapfilter: an item of the stash is not in the stash")
	}
	return ok
}

// putInEither puts an item into one of its lines and, if search is set, makes room by
// moves.
func (p *placer) putInEither(it layout.Item, search bool) bool {
	other := p.table.Alternate(it)
	if p.putInLine(it) || other.Line != it.Line && p.putInLine(other) {
		return true
	}
	if !search {
		return false
	}
	_, ok := p.putByMoves(it, other)
	return ok
}

// store keeps one change of the line being worked on.
func (p *placer) store() {
	p.space.store(&p.stores)
	p.stores = layout.Stores{}
}

func (p *placer) putInLine(it layout.Item) bool {
	if !p.table.Place(p.space.load(it.Line), it, &p.stores) {
		return false
	}
	p.store()
	return true
}

func (p *placer) takeFromLine(it layout.Item) bool {
	if !p.table.Remove(p.space.load(it.Line), it, &p.stores) {
		return false
	}
	p.store()
	return true
}

func (p *placer) markOverflow(it layout.Item) {
	if p.table.Both() {
		return // there are no bits: every lookup goes on
	}
	p.table.SetOverflow(p.space.load(it.Line), it, &p.stores)
	p.store()
}

// searchAhead is how many lines a search prefetches while it looks at one: at 95 % load
// a line has room with a probability of 0.4.
const searchAhead = 4

// putByMoves looks, breadth first from both lines of an item, for a path of moves that
// ends at a line with room, and carries the path out from its end. It returns the line
// that took the item. It stores nothing before the path is complete.
//
// If the table chooses which item moves, the search starts in the home line alone, and
// its first move may be that of the item itself to its other line. Moves that set the
// fewest overflow bits are tried first, so that fewer lookups of absent keys go on to a
// second line.
func (p *placer) putByMoves(home, other layout.Item) (line uint64, ok bool) {
	if !p.bounds.ChooseFirst && p.moveOne(home, other) {
		return home.Line, true
	}
	return p.search(home, other)
}

// search is putByMoves for a path of any length.
func (p *placer) search(home, other layout.Item) (line uint64, ok bool) {
	p.queue = append(p.queue[:0], placing{item: home, from: -1})
	p.visited.clear()
	p.visited.add(home.Line)
	if !p.bounds.ChooseFirst && other.Line != home.Line {
		p.queue = append(p.queue, placing{item: other, from: -1})
		p.visited.add(other.Line)
	}
	for head := 0; head < len(p.queue) && head < p.bounds.SearchLines; head++ {
		step := p.queue[head]
		if step.moves == p.bounds.PathMoves {
			break
		}
		for all, more := false, true; more; all = true {
			more = p.listVictims(p.space.load(step.item.Line), step.item, head == 0, all)
			if last, ok := p.moveVictim(head, step.moves+1); ok {
				return p.moveAlong(last), true
			}
		}
	}
	return 0, false
}

// moveOne puts an item into its home line by moving one of the first victims there.
// Most searches end with that and need no queue. It does what search would, or nothing.
func (p *placer) moveOne(home, other layout.Item) bool {
	victims, open := p.firstVictims(home)
	for i, victim := range victims {
		to := p.table.Alternate(victim)
		if to.Line == other.Line {
			continue
		}
		if !(open && i == 0) && p.space.full(to.Line) {
			if i+searchAhead < len(victims) {
				p.prefetchOther(victims[i+searchAhead])
			}
			continue
		}
		if p.putInLine(to) {
			p.queue = append(p.queue[:0], placing{item: home, from: -1})
			p.moveAlong(placing{item: to})
			return true
		}
		return false // search tries a line once
	}
	return false
}

// firstVictims returns the first movable items of a home line, without those whose
// other line the outlook knows to be full; open reports whether it knows that the other
// line of the first one is not.
func (p *placer) firstVictims(home layout.Item) (victims []layout.Item, open bool) {
	o := p.outlook
	line := p.space.load(home.Line)
	if o.other && *line == o.line {
		return o.victims[o.full:], o.open
	}
	p.listVictims(line, home, true, false)
	if !o.asked {
		p.prefetchOthers(p.victims)
	}
	return p.victims, false
}

func (p *placer) prefetchOther(it layout.Item) { p.space.prefetch(p.table.Alternate(it).Line) }

// prefetchOthers prefetches the lines that the first victims would move to.
func (p *placer) prefetchOthers(victims []layout.Item) {
	for _, victim := range victims[:min(len(victims), searchAhead)] {
		p.prefetchOther(victim)
	}
}

// listVictims sets p.victims to the items of a line that could make room for an item.
// If the table chooses, items whose move sets the fewest overflow bits come first; if
// this is the first line of the search, the item itself is one of them.
func (p *placer) listVictims(l *layout.Line, it layout.Item, first, all bool) (more bool) {
	p.victims, more = p.table.Victims(p.victims, l, it, all)
	if !p.bounds.ChooseFirst {
		return more
	}
	if first {
		p.victims = append(p.victims, it)
	}
	for i := range p.byMarks {
		p.byMarks[i] = p.byMarks[i][:0]
	}
	for _, v := range slices.Backward(p.victims) { // the item before others that leave as many
		n := p.table.NewMarks(l, v)
		p.byMarks[n] = append(p.byMarks[n], v)
	}
	p.victims = append(append(append(p.victims[:0], p.byMarks[0]...), p.byMarks[1]...), p.byMarks[2]...)
	return more
}

// moveVictim looks for a victim of a search step that its other line takes. The others
// become steps.
func (p *placer) moveVictim(from, moves int) (last placing, ok bool) {
	if from > 0 || p.bounds.ChooseFirst && !p.outlook.asked {
		p.prefetchOthers(p.victims)
	}
	home := p.queue[0].item
	for i, victim := range p.victims {
		to := p.table.Alternate(victim)
		if !p.visited.add(to.Line) {
			continue
		}
		next := placing{item: to, from: from, moves: moves}
		if from == 0 && victim == home { // it goes itself
			next.from = -1
		}
		if !p.space.full(to.Line) && p.putInLine(to) {
			return next, true
		}
		p.queue = append(p.queue, next)
		if i+searchAhead < len(p.victims) {
			p.prefetchOther(p.victims[i+searchAhead])
		}
	}
	return last, false
}

// moveAlong completes a path whose last item has just been put into its line. Back
// along the path, each item that was copied leaves its old line, with overflow bits for
// it there, and the item of that step takes its room. It returns the line where the
// path starts.
func (p *placer) moveAlong(last placing) (line uint64) {
	for last.from >= 0 {
		step := p.queue[last.from]
		old := p.table.Alternate(last.item)
		p.markOverflow(old)
		if !p.takeFromLine(old) || !p.putInLine(step.item) {
			panic("mmapfilter: a planned move found its line changed")
		}
		last = step
	}
	return last.item.Line
}

// A lineSet is a set of lines. Most searches add a few, which are compared one by one.
// More go to a hash table with open addressing that is at most half full. Each entry
// holds the round it was added in above the number of its line, so that a new round
// empties the table.
type lineSet struct {
	few     []uint64
	entries []uint64
	shift   uint // 64 less the bits of a place
	round   uint64
}

const (
	fewLines       = 16
	lineNumberBits = 48 // layout.MaxRegionBytes has 2^46 lines of 4 bits
)

func newLineSet(most int) lineSet {
	n := bits.Len(uint(2*most - 1))
	return lineSet{few: make([]uint64, 0, fewLines), entries: make([]uint64, 1<<n), shift: uint(64 - n)}
}

func (s *lineSet) clear() {
	s.few = s.few[:0]
	if s.round++; s.round == 1<<(64-lineNumberBits) {
		clear(s.entries)
		s.round = 1
	}
}

// add adds a line and reports whether it was not in the set.
func (s *lineSet) add(line uint64) bool {
	if slices.Contains(s.few, line) {
		return false
	}
	if len(s.few) < fewLines {
		s.few = append(s.few, line)
		return true
	}
	entry := s.round<<lineNumberBits | line
	for i := line * 0x9E3779B97F4A7C15 >> s.shift; ; i = (i + 1) & uint64(len(s.entries)-1) {
		switch {
		case s.entries[i] == entry:
			return false
		case s.entries[i]>>lineNumberBits != s.round:
			s.entries[i] = entry
			return true
		}
	}
}
