package mmapfilter

import "github.com/mmapfilter/mmapfilter/layout"

// maxSearchLines bounds the lines that one search for a path of moves expands.
// It is for the last inserts before a table is full. With 4, 16, 64 and 256
// lines, f=12 fills to 99.15, 99.79, 99.96 and 99.99 %, and f=30, which has the
// fewest slots in a line, to 94.6, 98.0, 99.2 and 99.6 %; an insert that fails
// costs four times as much at each step.
const maxSearchLines = 64

// A placer puts items into the words of a view that nothing else reads or
// writes: that of a file under construction. It loses none: an item that it
// refuses has changed nothing.
type placer struct {
	table layout.Table
	view  layout.View

	line    layout.Line // the line being worked on
	queue   []placing   // the search for a path
	visited map[uint64]struct{}
	victims []layout.Item
}

// A placing is a step of a path: the item is to be put into item.Line, where
// its copy in the line of the step before it makes room for that step's item.
type placing struct {
	item layout.Item
	from int // the step before, or -1
}

func newPlacer(t layout.Table, v layout.View) *placer {
	return &placer{table: t, view: v, visited: make(map[uint64]struct{})}
}

// insert finds room for an item given from its home line, in this order: the
// home line, with moves inside it; the alternate line likewise; a path of moves
// between lines; the stash. It reports false when there is none.
func (p *placer) insert(home layout.Item) bool {
	return p.putInLine(home) || p.insertBeyond(home)
}

// insertBeyond is insert for an item whose home line has no room.
func (p *placer) insertBeyond(home layout.Item) bool {
	other := p.table.Alternate(home)
	if other.Line != home.Line && p.putInLine(other) {
		p.markOverflow(home)
		return true
	}
	if p.putByMoves(home, other) {
		return true
	}
	if !layout.StashAdd(p.view.Stash, p.table.Class(home)) {
		return false
	}
	p.markOverflow(home)
	return true
}

// insertAllBeyond is insertBeyond for the items of hashes; it ends at the first
// that finds no room.
func (p *placer) insertAllBeyond(hashes []uint64) bool {
	for _, h := range hashes {
		if !p.insertBeyond(p.table.Split(h)) {
			return false
		}
	}
	return true
}

func (p *placer) load(line uint64) *layout.Line {
	p.table.Load(p.view.Region, line, &p.line)
	return &p.line
}

func (p *placer) store(line uint64) { p.table.Store(p.view.Region, line, &p.line) }

func (p *placer) putInLine(it layout.Item) bool {
	if !p.table.Place(p.load(it.Line), it) {
		return false
	}
	p.store(it.Line)
	return true
}

func (p *placer) markOverflow(it layout.Item) {
	p.table.SetOverflow(p.load(it.Line), it)
	p.store(it.Line)
}

// putByMoves looks, breadth first from both lines of an item, for a line with
// room at the end of a path of moves, and carries the path out from its end.
// Nothing is stored before the path is complete.
func (p *placer) putByMoves(home, other layout.Item) bool {
	clear(p.visited)
	p.queue = append(p.queue[:0], placing{home, -1})
	p.visited[home.Line] = struct{}{}
	if other.Line != home.Line {
		p.queue = append(p.queue, placing{other, -1})
		p.visited[other.Line] = struct{}{}
	}
	for head := 0; head < len(p.queue) && head < maxSearchLines; head++ {
		it := p.queue[head].item
		p.victims = p.table.Victims(p.victims[:0], p.load(it.Line), it)
		for _, victim := range p.victims {
			to := p.table.Alternate(victim)
			if _, seen := p.visited[to.Line]; seen {
				continue
			}
			p.visited[to.Line] = struct{}{}
			if p.putInLine(to) {
				p.moveAlong(placing{to, head}, home)
				return true
			}
			p.queue = append(p.queue, placing{to, head})
		}
	}
	return false
}

// moveAlong ends a path whose last item has just been put: back along the
// path, each copy that was put elsewhere leaves its old line, with overflow
// bits for it there, and the item of that step takes the room.
func (p *placer) moveAlong(last placing, home layout.Item) {
	for last.from >= 0 {
		step := p.queue[last.from]
		old := p.table.Alternate(last.item)
		l := p.load(old.Line)
		p.table.SetOverflow(l, old)
		if !p.table.Remove(l, old) || !p.table.Place(l, step.item) {
			panic("mmapfilter: a planned move found its line changed")
		}
		p.store(old.Line)
		last = step
	}
	if last.item.Line != home.Line {
		p.markOverflow(home)
	}
}
