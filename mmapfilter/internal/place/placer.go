package place

import (
	"errors"

	"github.com/mmapfilter/mmapfilter/layout"
)

// ErrFull is returned if there is no room for an item, or for all items of a build.
var ErrFull = errors.New("filter is full")

// MaxStores bounds the words that one operation changes (P7). Each move of a path sets overflow bits,
// removes an item, clears overflow bits and places another item; the end of the path places one
// more; to these come the overflow bits of the new item, the words of the stash, and the delete
// whose room is used.
func MaxStores(t layout.Table) int { return maxStores(layout.BoundsOf(t.Kind(), t.Params())) }

func maxStores(b layout.Bounds) int {
	move := b.OverflowStores + b.RemoveStores + b.OverflowStores + b.PlaceStores
	return b.PathMoves*move + b.PlaceStores + b.OverflowStores + layout.MaxStashStores + b.RemoveStores + b.OverflowStores
}

// KeysOf returns how many keys a filter has for the limit on keys (C4). All items that one stash
// entry counts are one key, since they match no more than one key does. inStash is how many of
// the items are in the stash. Only damage can make items less than inStash.
func KeysOf(items, inStash uint64, entries int) uint64 {
	return max(items+uint64(entries), inStash) - inStash
}

// A Table is what a Placer needs of a table.
type Table interface {
	layout.Classes
	Alternate(it layout.Item) layout.Item
	Place(l *layout.Line, it layout.Item, s *layout.Stores) bool
	Remove(l *layout.Line, it layout.Item, s *layout.Stores) bool
	Victims(dst []layout.Item, l *layout.Line, it layout.Item) []layout.Item
	Look(words []uint64, it layout.Item) (found, beyond bool)
}

// A Placer places items in its Lines and removes them, by the rules of the package essay. After
// each word that it changes, every item that was there can be found. Only one goroutine at a
// time may use it.
type Placer struct {
	table  Table
	hosts  layout.Hosts // the table, or nil
	bounds layout.Bounds
	lines  Lines

	changed layout.Stores // words changed in the current line
	queue   []step        // the search for a path
	visited lineSet
	victims []layout.Item
}

// A step is one step of a path. Its item leaves the line of the step before and goes to
// item.Line. So a step makes room in its line for the item of the step before.
type step struct {
	item  layout.Item
	from  int // the step before, or -1
	moves int // up to here
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

// takeFromStash removes an item, given in its home line, from the stash. First it clears the
// overflow bits that the item needed there: the item is being deleted, or is already elsewhere.
func (p *Placer) takeFromStash(home layout.Item) {
	p.unsetOverflow(home, true)
	if !layout.StashRemove(p.lines.Stash(), p.table.Class(home), p.lines.ChangeStash) {
		panic("mmapfilter: an item of the stash is not in the stash")
	}
}

// unsetOverflow clears the overflow bits that an item, given in its home line, needed while it
// was elsewhere, unless other items need them (P4): guests of its alternate line, or items of
// the stash. leaves means that the item is still in the stash and is about to leave it.
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
