package place

import (
	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/kernel"
)

// Lines are the lines and the stash that a Placer works on.
type Lines interface {
	// Load returns the image of a line with all changes so far. The caller may read and change the image
	// until the next Load. Words of the image that the line does not have are zero.
	Load(line uint64) *layout.Line
	// Prefetch prefetches the memory that Load reads for a line.
	Prefetch(line uint64)
	// Change keeps the changes to the image that was loaded last. words lists the words that changed, in
	// an order in which they may be stored.
	Change(words *layout.Stores)
	// Stash returns the stash as it was before the current operation. StashLen returns how many of
	// its entries were in use.
	Stash() []uint64
	StashLen() int
	// ChangeStash changes a word of the stash. guarded means the same as in layout.StashStore.
	ChangeStash(word, value uint64, guarded bool)
}

// Unlogged is the Lines of a view that nothing else reads or writes: changes go straight
// to memory, without a log.
type Unlogged struct {
	table layout.Table
	view  layout.View
	line  uint64 // the line that was loaded last
	image layout.Line
}

// NewUnlogged returns the Lines of a view.
func NewUnlogged(t layout.Table, v layout.View) *Unlogged { return &Unlogged{table: t, view: v} }

// Load implements Lines.
func (u *Unlogged) Load(line uint64) *layout.Line {
	u.line, u.image = line, layout.Line{}
	layout.Load(u.table, u.view.Region, line, &u.image)
	return &u.image
}

// Prefetch implements Lines.
func (u *Unlogged) Prefetch(line uint64) {
	first, n := u.table.Words(line)
	kernel.Prefetch(&u.view.Region[first])
	kernel.Prefetch(&u.view.Region[first+uint64(n)-1])
}

// Change implements Lines.
func (u *Unlogged) Change(*layout.Stores) { layout.Store(u.table, u.view.Region, u.line, &u.image) }

// Stash implements Lines.
func (u *Unlogged) Stash() []uint64 { return u.view.Stash }

// StashLen implements Lines.
func (u *Unlogged) StashLen() int { return layout.StashLen(u.view.Stash) }

// ChangeStash implements Lines.
func (u *Unlogged) ChangeStash(word, value uint64, _ bool) {
	u.view.Stash[word-layout.WordStash] = value
}
