package place

import (
	"math"

	"github.com/mmapfilter/mmapfilter/layout"
)

// MaxStores bounds the words that one operation changes. Each move of a path sets overflow bits,
// removes an item, clears overflow bits and places another item; the end of the path places one
// more; then there are the overflow bits of the new item, the words of the stash, and the delete
// whose room is used.
func MaxStores(t layout.Table) int {
	b := t.Bounds()
	move := b.OverflowStores + b.RemoveStores + b.OverflowStores + b.PlaceStores
	return b.PathMoves*move + b.PlaceStores + b.OverflowStores + layout.MaxStashStores + b.RemoveStores + b.OverflowStores
}

// KeysOf returns how many keys a filter has for the limit on keys (C4). All items that one stash
// entry counts are one key, since they match no more than one key does. inStash of the items are
// counted in entries of the stash. Only damage can make the difference negative.
func KeysOf(items, inStash uint64, entries int) uint64 {
	return max(items+uint64(entries), inStash) - inStash
}

// A Placer places items in its Lines and removes them, by the rules of the package essay. After
// each word that it changes, every item that was there can be found. Only one goroutine at a
// time may use it.
type Placer struct {
	table  layout.Table
	hosts  layout.Hosts // the table, or nil
	bounds layout.Bounds
	lines  Lines

	changed layout.Stores // words changed in the current line
	queue   []step        // the search for a path
	visited lineSet
	victims []layout.Item
	outlook *Outlook // of the current insert
}

// New returns a Placer that works on lines of a table.
func New(t layout.Table, lines Lines) *Placer {
	b := t.Bounds()
	hosts, _ := t.(layout.Hosts)
	return &Placer{table: t, hosts: hosts, bounds: b, lines: lines, outlook: &unknown, visited: newLineSet(2 + b.SearchLines*t.SlotsPerLine())}
}

// Insert places an item, given in its home line (P1). It reports false if there is no room for
// it.
func (p *Placer) Insert(home layout.Item) bool {
	o := p.outlook
	if (!o.home || p.hosts != nil) && p.putInLine(home) { // a full line with guests may not stay full
		return true
	}
	other := p.table.Alternate(home)
	takes := !p.bounds.ChooseFirst && other.Line != home.Line && !o.other
	if takes && (o.home || !p.lines.Full(other.Line)) && p.putInLine(other) { // if o.home is set, o knows the other line
		p.markOverflow(home)
		return true
	}
	if at, ok := p.putByMoves(home, other); ok {
		if at != home.Line {
			p.markOverflow(home)
		}
		return true
	}
	if !layout.StashAdd(p.lines.Stash(), p.table.Class(home), p.lines.ChangeStash) {
		return false
	}
	p.markOverflow(home)
	return true
}

// CountUp puts an item into the stash if its class has an entry there.
func (p *Placer) CountUp(home layout.Item) bool {
	c := p.table.Class(home)
	if layout.StashCount(p.lines.Stash(), c) == 0 || !layout.StashAdd(p.lines.Stash(), c, p.lines.ChangeStash) {
		return false
	}
	p.markOverflow(home)
	return true
}

// Remove deletes an item, given in its home line (P5). It returns the line that now has room, if
// any: see BringHome.
func (p *Placer) Remove(home layout.Item) (freed uint64, inLine, ok bool) {
	if p.takeFromLine(home) {
		return home.Line, true, true
	}
	if !p.table.Overflowed(p.lines.Load(home.Line), home) {
		return 0, false, false
	}
	if layout.StashCount(p.lines.Stash(), p.table.Class(home)) != 0 {
		p.takeFromStash(home)
		return 0, false, true
	}
	if other := p.table.Alternate(home); p.takeFromLine(other) {
		p.unmarkOverflow(home, false)
		return other.Line, true, true
	}
	return 0, false, false
}

// Settle places an item that is in neither of its lines and whose overflow bits are set in its
// home line. It reports false if there is no room for it.
func (p *Placer) Settle(it layout.Item) bool {
	if p.hosts != nil && p.hosts.IsGuest(it) {
		it = p.table.Alternate(it)
	}
	return p.putInEither(it, true) || layout.StashAdd(p.lines.Stash(), p.table.Class(it), p.lines.ChangeStash)
}

// Unstash moves an item of a class from the stash into a line (P6). If search is set, it makes
// room by moves. It keeps an entry that only damage can have left.
func (p *Placer) Unstash(it layout.Item, search bool) bool {
	if !layout.Stashed(p.table, p.lines.Stash(), layout.Class(it)) {
		return false
	}
	if !p.putInEither(it, search) {
		return false
	}
	p.takeFromStash(it)
	return true
}

// BringHome brings a guest of another line home to a line that has room (P8). It does nothing if
// no guest has that home, or if lines do not know their guests.
func (p *Placer) BringHome(line uint64) {
	guest, others, ok := p.mostAlone(line)
	if !ok {
		return
	}
	if home := p.table.Alternate(guest); p.putInLine(home) {
		if others == 0 { // lookups find it at home: one record has both changes of the line
			p.clearOverflow(home, false)
		}
		if !p.takeFromLine(guest) {
			panic("mmapfilter: a guest is not where it was")
		}
	}
}

// mostAlone chooses the guest that comes home to a line: one that shares its overflow bits with the
// fewest other guests, since these bits are cleared when the last of those guests has come home.
// others is their number. Items of the stash need overflow bits too, but are no guests.
func (p *Placer) mostAlone(line uint64) (guest layout.Item, others int, ok bool) {
	if p.hosts == nil {
		return guest, 0, false
	}
	absent := p.hosts.Absent(p.victims, p.lines.Load(line), line)
	p.victims = absent // they are in its memory
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

// putInEither puts an item into one of its lines. If search is set, it makes room by moves.
func (p *Placer) putInEither(it layout.Item, search bool) bool {
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

// keep keeps one change of the current line.
func (p *Placer) keep() {
	p.lines.Change(&p.changed)
	p.changed = layout.Stores{}
}

func (p *Placer) putInLine(it layout.Item) bool {
	if !p.table.Place(p.lines.Load(it.Line), it, &p.changed) {
		return false
	}
	p.keep()
	return true
}

func (p *Placer) takeFromLine(it layout.Item) bool {
	if !p.table.Remove(p.lines.Load(it.Line), it, &p.changed) {
		return false
	}
	p.keep()
	return true
}

// takeFromStash removes from the stash an item that is given in its home line. First it clears
// the overflow bits that the item needed there: the item is being deleted, or is already
// elsewhere.
func (p *Placer) takeFromStash(home layout.Item) {
	p.unmarkOverflow(home, true)
	if !layout.StashRemove(p.lines.Stash(), p.table.Class(home), p.lines.ChangeStash) {
		panic("mmapfilter: an item of the stash is not in the stash")
	}
}

// unmarkOverflow clears the overflow bits that an item, given in its home line, needed while it
// was elsewhere, unless other items need them (P4): guests of its alternate line, or items of
// the stash. leaves means that the item is still in the stash and is about to leave it.
func (p *Placer) unmarkOverflow(home layout.Item, leaves bool) {
	if p.hosts == nil {
		return
	}
	other := p.table.Alternate(home)
	if _, n := p.hosts.Related(p.lines.Load(other.Line), other); n > 0 && p.hosts.IsGuest(other) {
		return
	}
	p.clearOverflow(home, leaves)
}

// clearOverflow is unmarkOverflow where no guest needs the bits.
func (p *Placer) clearOverflow(home layout.Item, leaves bool) {
	needed := false
	if p.lines.StashLen() > 0 {
		own := p.table.Class(home)
		layout.StashClasses(p.lines.Stash(), func(c layout.Class, items uint64) {
			if leaves && c == own {
				items--
			}
			needed = needed || items > 0 && c.Line == home.Line && p.hosts.SameBits(c.Fp, home.Fp)
		})
	}
	if needed {
		return
	}
	p.hosts.ClearOverflow(p.lines.Load(home.Line), home, &p.changed)
	p.keep()
}

func (p *Placer) markOverflow(it layout.Item) {
	if p.table.Both() {
		return // there are no bits: every lookup reads both lines
	}
	p.table.SetOverflow(p.lines.Load(it.Line), it, &p.changed)
	p.keep()
}
