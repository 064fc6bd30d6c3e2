package place

import (
	"math"

	"github.com/mmapfilter/mmapfilter/layout"
)

// Remove deletes an item, seen from its home line (P5). It returns the line that now has room, if there
// is one, for BringHome.
func (p *Placer) Remove(home layout.Item) (freed uint64, inLine, ok bool) {
	if p.takeFromLine(home) {
		return home.Line, true, true
	}
	if _, beyond := p.table.Look(p.lines.Load(home.Line)[:], home); !beyond {
		return 0, false, false
	}
	if layout.StashCount(p.lines.Stash(), p.table.Class(home)) != 0 {
		p.takeFromStash(home)
		return 0, false, true
	}
	if other := p.table.Alternate(home); p.takeFromLine(other) {
		p.unsetOverflow(home, false)
		return other.Line, true, true
	}
	return 0, false, false
}

// BringHome moves one guest of another line home to the given line, which has room (P8). It does
// nothing if no guest has this home line, or if lines do not know their guests.
func (p *Placer) BringHome(line uint64) {
	guest, others, ok := p.mostAlone(line)
	if !ok {
		return
	}
	if home := p.table.Alternate(guest); p.putInLine(home) {
		if others == 0 { // lookups find the item at home now, so the bit may go: one record has both changes of the line
			p.clearOverflow(home, false)
		}
		if !p.takeFromLine(guest) {
			panic("mmapfilter: a guest is not where it was")
		}
	}
}

// mostAlone chooses the guest that comes home to a line. It chooses the guest that shares its overflow
// bits with the fewest other guests, since the bits are cleared when the last guest with these bits has
// come home. others is the number of these other guests. (Items of the stash need overflow bits too,
// but are not counted.)
func (p *Placer) mostAlone(line uint64) (guest layout.Item, others int, ok bool) {
	if p.hosts == nil {
		return guest, 0, false
	}
	absent := p.hosts.Absent(p.victims, p.lines.Load(line), line)
	p.victims = absent // absent uses the memory of victims, and may have enlarged it
	for _, away := range absent {
		p.lines.Prefetch(away.Line)
	}
	fewest := math.MaxInt
	for _, away := range absent {
		if g, n := p.hosts.Related(p.lines.Load(away.Line), away); n > 0 && n < fewest {
			if guest, fewest = g, n; n == 1 {
				break
			}
		}
	}
	return guest, fewest - 1, fewest < math.MaxInt
}
