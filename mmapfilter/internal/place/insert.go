package place

import "github.com/mmapfilter/mmapfilter/layout"

// Insert places an item, seen from its home line (P1). It reports false if there is no room for it.
func (p *Placer) Insert(home layout.Item) bool {
	if p.putInLine(home) {
		return true
	}
	other := p.table.Alternate(home)
	if p.hosts == nil && other.Line != home.Line && p.putInLine(other) {
		p.setOverflow(home)
		return true
	}
	if at, ok := p.putByMoves(home, other); ok {
		if at != home.Line {
			p.setOverflow(home)
		}
		return true
	}
	if !layout.StashAdd(p.lines.Stash(), p.table.Class(home), p.lines.ChangeStash) {
		return false
	}
	p.setOverflow(home)
	return true
}

// CountUp adds an item to the stash if its class already has an entry there.
func (p *Placer) CountUp(home layout.Item) bool {
	c := p.table.Class(home)
	if layout.StashCount(p.lines.Stash(), c) == 0 || !layout.StashAdd(p.lines.Stash(), c, p.lines.ChangeStash) {
		return false
	}
	p.setOverflow(home)
	return true
}

// Unstash moves an item of a class from the stash into a line (P6). It leaves the entry of the class
// alone if only damage can have put the entry there.
func (p *Placer) Unstash(it layout.Item) bool {
	if !layout.Stashed(p.table, p.lines.Stash(), layout.Class(it)) || !p.putInEither(it) {
		return false
	}
	p.takeFromStash(it)
	return true
}

// putInEither puts an item into one of its lines.
func (p *Placer) putInEither(it layout.Item) bool {
	other := p.table.Alternate(it)
	return p.putInLine(it) || other.Line != it.Line && p.putInLine(other)
}
