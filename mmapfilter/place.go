package mmapfilter

import (
	"math/bits"
	"slices"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/mistake"
)

// maxOperationStores bounds the words that one operation stores. A move along a
// path sets the overflow bits of an item, removes it, and puts another in; the
// end of the path takes one; then there are the overflow bits of the new item,
// the words of the stash, and the delete whose room is used.
func maxOperationStores(t layout.Table) int {
	b := t.Bounds()
	move := b.OverflowStores + b.RemoveStores + b.PlaceStores
	return b.PathMoves*move + b.PlaceStores + b.OverflowStores + layout.MaxStashStores + b.RemoveStores
}

// A space is the lines and the stash that a placer works on.
type space interface {
	// load gives the image of a line, with all that has been stored to it, to
	// read and to change. It is good until the next load.
	load(line uint64) *layout.Line
	// prefetch asks for what load reads of a line.
	prefetch(line uint64)
	// full reports that a line has no free slot, in less time than load takes. False says
	// nothing.
	full(line uint64) bool
	// store keeps what has been done to the image that was loaded last. s lists
	// the words that changed, in the order in which they may be stored.
	store(s *layout.Stores)
	// stash is the stash, as it was before the operation that is under way.
	stash() []uint64
	// storeStash stores a word of the stash.
	storeStash(word, value uint64, guarded bool)
}

// A direct space is a view that nothing else reads or writes: that of a file
// under construction.
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
	layout.Prefetch(&d.view.Region[first])
	layout.Prefetch(&d.view.Region[first+uint64(n)-1])
}

func (d *direct) full(line uint64) bool { return d.table.Full(d.view.Region, line) }

func (d *direct) store(*layout.Stores) { d.table.Store(d.view.Region, d.line, &d.image) }

func (d *direct) stash() []uint64 { return d.view.Stash }
func (d *direct) storeStash(word, value uint64, guarded bool) {
	d.view.Stash[word-layout.WordStash] = value
}

// A placer puts items into a space and takes them out. It loses none: an item
// that it refuses has changed nothing. What it stores is in an order in which
// every item that was there can be found after each store.
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

// A placing is a step of a path: the item is to be put into item.Line, where
// its copy in the line of the step before it makes room for that step's item.
type placing struct {
	item  layout.Item
	from  int // the step before, or -1
	moves int // up to here
}

func newPlacer(t layout.Table, s space) *placer {
	b := t.Bounds()
	return &placer{table: t, bounds: b, space: s, outlook: &unknown, visited: newLineSet(2 + b.SearchLines*t.SlotsPerLine())}
}

// insert finds room for an item given from its home line, in this order: the
// home line, with moves inside it; the alternate line likewise; a path of moves
// between lines; the stash. It reports false when there is none. Where the table
// chooses who goes, the alternate line is one of many where a path may lead.
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

// remove takes an item out, given from its home line: from there, else from the
// stash, else from its second line. It gives the line in which there is room
// now, if any.
//
// The stash comes before the second line because a copy there may be that of a
// twin, an equal item whose home that line is: with no overflow bits set in it,
// the twin would be looked for nowhere else.
func (p *placer) remove(home layout.Item) (freed uint64, inLine, ok bool) {
	if p.takeFromLine(home) {
		return home.Line, true, true
	}
	if !p.table.Overflowed(p.space.load(home.Line), home) {
		return 0, false, false
	}
	other := p.table.Alternate(home)
	if mistake.Made(mistake.SecondLineFirst) && p.takeFromLine(other) {
		return other.Line, true, true
	}
	if layout.StashRemove(p.space.stash(), p.table.Class(home), p.space.storeStash) {
		return 0, false, true
	}
	if p.takeFromLine(other) {
		return other.Line, true, true
	}
	return 0, false, false
}

// settle finds room for an item that is in neither of its lines, with its overflow bits
// set in its home.
func (p *placer) settle(it layout.Item) bool {
	return p.putInEither(it, true) || layout.StashAdd(p.space.stash(), p.table.Class(it), p.space.storeStash)
}

// unstash moves an item of a class from the stash into a line. Its overflow bits
// were set in its home line when it went to the stash, and stay. What damage has left in
// the stash stays there.
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

// putInEither puts an item into one of its lines, if need be by moves.
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

// searchAhead is how many lines of a search are on their way while one is looked at: at
// 95 % load a line has room with a probability of 0.4.
const searchAhead = 4

// putByMoves looks, breadth first from both lines of an item, for a line with
// room at the end of a path of moves, and carries the path out from its end. It
// gives the line that took the item. Nothing is stored before the path is
// complete.
//
// Where the table chooses who goes, the search begins in the home line alone, and its
// first move may be that of the item itself to the other line. The moves that set the fewest
// overflow bits are tried first. (At 98 % load 5.7 % of the lookups of absent keys go on then, in
// Compact with f=14, and 13.5 % where the item itself goes.)
func (p *placer) putByMoves(home, other layout.Item) (line uint64, ok bool) {
	if !p.bounds.ChooseFirst && p.moveOne(home, other) {
		return home.Line, true
	}
	return p.search(home, other)
}

// search is putByMoves, for a path of any length.
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

// moveOne puts an item into its home line by one move, of one of the first victims there. Most
// searches end with that, and need no queue. It does what search does, or nothing.
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

// firstVictims gives the first of a home line that may go, from the first on that may go to a
// line that is not full, by the outlook; and whether that line was open.
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

// prefetchOthers asks for the lines that the first victims may go to.
func (p *placer) prefetchOthers(victims []layout.Item) {
	for _, victim := range victims[:min(len(victims), searchAhead)] {
		p.prefetchOther(victim)
	}
}

// listVictims makes victims those of a line that could make room for an item. Where the
// table chooses, those whose move sets the fewest overflow bits come first, and the item is
// one of them, if it is the first of the search.
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

// moveVictim looks for a victim of a step of the search that its other line takes; the
// others become steps.
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

// moveAlong ends a path whose last item has just been put: back along the
// path, each copy that was put elsewhere leaves its old line, with overflow
// bits for it there, and the item of that step takes the room. It gives the line
// where the path began.
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
// Beyond them there is a hash table with open addressing, at most half in use. Each entry
// has the round that it was added in above the number of its line, so that the table is
// emptied by a new round.
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

// add reports whether a line was not there.
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
