// Package multiset is the reference model of a filter. A [Multiset] counts keys as far as a
// table can tell them apart, and checks that a table holds exactly these keys. The tests of
// all packages, the crash explorer and TestKill share it.
//
// Two keys are in one class if a table cannot tell their items apart. A [layout.Class] is the
// name of a class, and a [Class] is its count. Keys of one class may have different home lines,
// which matters for deletes and for overflow bits, so there is a count for each of the two lines.
// The checks cover C1 (every item that is not at home has its overflow bits set there) and C7 (no
// class has an item too few or too many).
package multiset

import (
	"fmt"
	"maps"
	"slices"

	"github.com/mmapfilter/mmapfilter/layout"
)

// A Class says how many items of a [layout.Class] a table should hold.
type Class struct {
	// Seen is an item of the class, seen from each of its two lines. If the class has only
	// one line, both are the same.
	Seen [2]layout.Item
	// Items[i] is the number of items whose home is the line of Seen[i].
	Items [2]int
}

// Sum returns the number of items of the class.
func (c *Class) Sum() int { return c.Items[0] + c.Items[1] }

// Check checks that a file holds the items of a class. words returns a word of the file by
// its number.
func (c *Class) Check(t layout.Table, words func(word uint64) uint64) error {
	var l layout.Line
	load := func(line uint64) { l = layout.LineFrom(t, words, line) }
	return c.check(t, &l, load, int(layout.StashCountAt(words, t.Class(c.Seen[0]))))
}

// CheckIn is Check for a view. It uses l as a buffer.
func (c *Class) CheckIn(t layout.Table, v *layout.View, l *layout.Line) error {
	return c.checkIn(t, v, l, int(layout.StashCount(v.Stash, t.Class(c.Seen[0]))))
}

func (c *Class) checkIn(t layout.Table, v *layout.View, l *layout.Line, inStash int) error {
	load := func(line uint64) {
		first, n := t.Words(line)
		*l = layout.Line{}
		copy(l[:n], v.Region[first:])
	}
	return c.check(t, l, load, inStash)
}

// check is Check for a class with a number of items in the stash. load sets l to a line.
func (c *Class) check(t layout.Table, l *layout.Line, load func(line uint64), inStash int) error {
	copies := inStash
	for i, it := range c.Seen {
		if i == 1 && it.Line == c.Seen[0].Line {
			break
		}
		load(it.Line)
		n := layout.Copies(t, *l, it)
		copies += n
		if n < c.Items[i] && !layout.Overflowed(t, l, it) {
			return fmt.Errorf("line %d has %d copies of %+v for %d items at home there, but no overflow bits for it", it.Line, n, it, c.Items[i])
		}
	}
	if copies != c.Sum() {
		return fmt.Errorf("%+v has %d copies, %d of them in the stash, for %d items", c.Seen[0], copies, inStash, c.Sum())
	}
	return nil
}

// A Multiset has the keys that a filter should hold.
type Multiset struct {
	table   layout.Table
	numbers map[layout.Class]int // index in classes
	classes []Class
}

// New returns an empty multiset for a table.
func New(t layout.Table) *Multiset {
	return &Multiset{table: t, numbers: make(map[layout.Class]int)}
}

// Clone returns a copy.
func (m *Multiset) Clone() *Multiset {
	return &Multiset{m.table, maps.Clone(m.numbers), slices.Clone(m.classes)}
}

// A Place is where a Multiset counts a key.
type Place struct {
	Class int // number of the class
	Side  int // index of the home line of the key in Seen and Items of the class
}

// Locate returns the place of a hash. Classes are numbered from 0 as Locate meets them.
func (m *Multiset) Locate(hash uint64) Place {
	it := m.table.Split(hash)
	name := m.table.Class(it)
	n, ok := m.numbers[name]
	if !ok {
		n = len(m.classes)
		seen := layout.Item(name)
		m.numbers[name] = n
		m.classes = append(m.classes, Class{Seen: [2]layout.Item{seen, m.table.Alternate(seen)}})
	}
	if it.Line != m.classes[n].Seen[0].Line {
		return Place{n, 1}
	}
	return Place{n, 0}
}

// Classes returns the number of classes that Locate has met.
func (m *Multiset) Classes() int { return len(m.classes) }

// Class returns a class by its number.
func (m *Multiset) Class(n int) Class { return m.classes[n] }

// Add adds n keys with a hash, or removes -n.
func (m *Multiset) Add(hash uint64, n int) { m.AddAt(m.Locate(hash), n) }

// AddAt is Add for the hashes of a place. Several goroutines may call it at once for places of
// different classes.
func (m *Multiset) AddAt(p Place, n int) { m.classes[p.Class].Items[p.Side] += n }

// Clear removes all keys. Classes keep their numbers.
func (m *Multiset) Clear() {
	for i := range m.classes {
		m.classes[i].Items = [2]int{}
	}
}

// Len returns the number of keys.
func (m *Multiset) Len() (n int) {
	for i := range m.classes {
		n += m.classes[i].Sum()
	}
	return n
}

// Copies returns how many keys share the class and the home line of a hash. A caller may
// delete the hash that many times.
func (m *Multiset) Copies(hash uint64) int {
	p := m.Locate(hash)
	return m.classes[p.Class].Items[p.Side]
}

// Count returns how many keys share the class of a hash. The filter counts the same.
func (m *Multiset) Count(hash uint64) int {
	c := m.Class(m.Locate(hash).Class)
	return c.Sum()
}

// Check checks that a table is sound and holds exactly the keys of m.
func (m *Multiset) Check(v *layout.View) error {
	inLines, line, err := m.table.CheckLines(v.Region, 0, m.table.Lines())
	if err != nil {
		return fmt.Errorf("line %d: %w", line, err)
	}
	_, inStash, err := layout.CheckStash(m.table, v)
	if err != nil {
		return err
	}
	if n := m.Len(); inLines+inStash != uint64(n) {
		return fmt.Errorf("%d items in the lines and %d in the stash, not %d in all", inLines, inStash, n)
	}
	counts := make([]int, len(m.classes)) // CheckStash has checked that a lookup finds each entry
	layout.StashClasses(v.Stash, func(c layout.Class, items uint64) {
		if n, ok := m.numbers[c]; ok {
			counts[n] = int(items)
		}
	})
	var l layout.Line
	for i := range m.classes {
		if err := m.classes[i].checkIn(m.table, v, &l, counts[i]); err != nil {
			return err
		}
	}
	return nil
}

// HashOf returns the lowest hash of a key that has the buckets and the fingerprint of an item, and
// whose home is the line of the item. The hashes just above it belong to such keys, too.
func HashOf(t layout.Table, it layout.Item) uint64 {
	if _, ok := t.(layout.Hosts); ok {
		it.Bucket = 0 // not a guest
	}
	return t.Hash(it)
}
