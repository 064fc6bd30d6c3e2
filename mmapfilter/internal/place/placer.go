package place

import (
	"errors"

	"github.com/mmapfilter/mmapfilter/layout"
)

// ErrFull is returned if there is no room for an item, or for all items of a build.
var ErrFull = errors.New("filter is full")

// MaxStores bounds the words that one operation changes (P7). Each move of a path sets overflow bits,
// removes an item, clears overflow bits and places another item. The end of the path places one more
// item. An operation may also set the overflow bits of its own item, change words of the stash, and
// first delete the item whose room another item takes.
func MaxStores(t layout.Table) int { return maxStores(layout.BoundsOf(t.Kind(), t.Params())) }

func maxStores(b layout.Bounds) int {
	move := b.OverflowStores + b.RemoveStores + b.OverflowStores + b.PlaceStores
	return b.PathMoves*move + b.PlaceStores + b.OverflowStores + layout.MaxStashStores + b.RemoveStores + b.OverflowStores
}

// KeysOf returns how many keys a filter has for the limit on keys (C4). All items of one stash entry are
// one key, since together they match no more absent keys than one item does. inStash is how many of the
// items are in the stash. Only damage can make items less than inStash.
func KeysOf(items, inStash uint64, entries int) uint64 {
	return max(items+uint64(entries), inStash) - inStash
}

// A Table has the methods of a layout.Table that a Placer needs.
type Table interface {
	layout.Classes
	Alternate(it layout.Item) layout.Item
	Place(l *layout.Line, it layout.Item, s *layout.Stores) bool
	Remove(l *layout.Line, it layout.Item, s *layout.Stores) bool
	Victims(dst []layout.Item, l *layout.Line, it layout.Item) []layout.Item
	Look(words []uint64, it layout.Item) (found, beyond bool)
}

// A Placer places items in its Lines and removes them, by the rules of the package essay. After each
// word that it changes, a lookup finds every item of the table. Only one goroutine at a time may use it.
type Placer struct {
	table  Table
	hosts  layout.Hosts // the table if lines know their guests, or nil
	bounds layout.Bounds
	lines  Lines

	changed layout.Stores // words that have changed in the current line
	queue   []step        // the search for a path
	visited lineSet
	victims []layout.Item
}

// A step is one step of a path. Its item leaves the line of the step before and goes to
// item.Line. So it makes room for the item of the step before.
type step struct {
	item  layout.Item
	from  int // index of the step before in queue, or -1
	moves int // moves of the path up to this step
}

// New returns a Placer that works on lines of a table.
func New(t layout.Table, lines Lines) *Placer {
	return newPlacer(t, layout.BoundsOf(t.Kind(), t.Params()), lines)
}

func newPlacer(t layout.Table, b layout.Bounds, lines Lines) *Placer {
	hosts, _ := t.(layout.Hosts)
	return &Placer{table: t, hosts: hosts, bounds: b, lines: lines, visited: newLineSet()}
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

// takeFromStash removes an item, seen from its home line, from the stash. First it clears the
// overflow bits that the item needed while it was in the stash, since the item is being deleted, or
// is already in a line.
func (p *Placer) takeFromStash(home layout.Item) {
	p.unsetOverflow(home, true)
	if !layout.StashRemove(p.lines.Stash(), p.table.Class(home), p.lines.ChangeStash) {
		panic("mmapfilter: an item is not in the stash")
	}
}

// unsetOverflow clears the overflow bits that an item, seen from its home line, needed while it was
// elsewhere. It does not clear bits that other items need (P4): guests of the item's alternate line, or
// items of the stash. leaves means that the item is still in the stash and is about to leave it.
func (p *Placer) unsetOverflow(home layout.Item, leaves bool) {
	if p.hosts == nil {
		return
	}
	other := p.table.Alternate(home)
	if _, n := p.hosts.Related(p.lines.Load(other.Line), other); n > 0 && p.hosts.IsGuest(other) {
		return
	}
	p.clearOverflow(home, leaves)
}

// clearOverflow clears the bits of unsetOverflow unless an item of the stash needs them.
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

func (p *Placer) setOverflow(it layout.Item) {
	if p.hosts == nil {
		return // every lookup reads both lines
	}
	p.hosts.SetOverflow(p.lines.Load(it.Line), it, &p.changed)
	p.keep()
}
