package place

import "github.com/mmapfilter/mmapfilter/layout"

// searchAhead is how many lines a search prefetches while it looks at one line. A few are enough, since
// at design load a search mostly finds room in the second or third line.
const searchAhead = 4

// putByMoves makes room for an item by a path of moves (P2) and returns the line that took the
// item.
func (p *Placer) putByMoves(home, other layout.Item) (line uint64, ok bool) {
	p.queue = append(p.queue[:0], step{item: home, from: -1})
	p.visited.clear()
	p.visited.add(home.Line)
	if p.hosts == nil && other.Line != home.Line {
		p.queue = append(p.queue, step{item: other, from: -1})
		p.visited.add(other.Line)
	}
	for head := 0; head < len(p.queue) && head < p.bounds.SearchLines; head++ {
		at := p.queue[head]
		if at.moves == p.bounds.PathMoves {
			break
		}
		p.listVictims(at.item, head == 0)
		if last, ok := p.moveVictim(head, at.moves+1); ok {
			return p.moveAlong(last), true
		}
	}
	return 0, false
}

func (p *Placer) prefetchOther(it layout.Item) { p.lines.Prefetch(p.table.Alternate(it).Line) }

// listVictims sets p.victims to the items that could make room for an item by leaving its line. If
// lines know their guests, the victims are in order of how much their moves cost lookups, with one
// victim for each line that they could go to. In the first line of a search, the victims then
// include the item itself.
func (p *Placer) listVictims(it layout.Item, first bool) {
	l := p.lines.Load(it.Line)
	if p.hosts != nil {
		p.victims = p.hosts.Leavers(p.victims, l, it, first)
	} else {
		p.victims = p.table.Victims(p.victims, l, it)
	}
}

// moveVictim looks for a victim whose other line takes it. The other victims become steps.
func (p *Placer) moveVictim(from, moves int) (last step, ok bool) {
	for _, victim := range p.victims[:min(len(p.victims), searchAhead)] {
		p.prefetchOther(victim)
	}
	home := p.queue[0].item
	for i, victim := range p.victims {
		to := p.table.Alternate(victim)
		if !p.visited.add(to.Line) {
			continue
		}
		next := step{item: to, from: from, moves: moves}
		if from == 0 && victim == home { // the item itself goes
			next.from = -1
		}
		if p.putInLine(to) {
			return next, true
		}
		p.queue = append(p.queue, next)
		if i+searchAhead < len(p.victims) {
			p.prefetchOther(p.victims[i+searchAhead])
		}
	}
	return last, false
}

// moveAlong completes a path whose last item has just been put into its line (P3). From the last step of
// the path to the first, it sets the overflow bits of an item in its old line, removes the item there,
// and puts the item of the step before into the room. If a guest has gone home, its overflow bits may
// then be cleared. moveAlong returns the line where the path starts.
func (p *Placer) moveAlong(last step) (line uint64) {
	for last.from >= 0 {
		at := p.queue[last.from]
		old := p.table.Alternate(last.item)
		p.setOverflow(old)
		if !p.takeFromLine(old) || !p.putInLine(at.item) {
			panic("mmapfilter: a line changed after a move was planned")
		}
		if p.hosts != nil && p.hosts.IsGuest(old) {
			p.unsetOverflow(last.item, false)
		}
		last = at
	}
	return last.item.Line
}
