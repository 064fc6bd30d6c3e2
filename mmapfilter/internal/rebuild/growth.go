package rebuild

import (
	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/writer"
)

// A filter that holds growShare of its capacity is rebuilt with growFactor times the capacity (K5). A
// filter with a capacity above LeastShrunk that holds fewer items than 1/shrinkShare of it is rebuilt
// with a capacity of growFactor times its items, but at least LeastShrunk. It is not made smaller if its
// items and the operations since the last rebuild together are fewer than 1/shrinkShare of the capacity:
// then it cannot have held more items since that rebuild, so it was made large for items to come. If as
// many deletes as 1/waitShare of the capacity wait for a rebuild, a filter is rebuilt with the same
// capacity. A filter with fewer items than 1/wideShare of its capacity does not grow.
const (
	growShare   = 0.9
	growFactor  = 2
	shrinkShare = 8
	waitShare   = 8
	wideShare   = 64
	LeastShrunk = 1 << 16
)

// A Growth says when to rebuild a filter that grows by itself, or whose items leave by themselves. The
// zero value is for any other filter.
type Growth struct {
	capacity uint64
	growAt   uint64 // with this number of items or more it grows; 0 if it does not
	shrinkAt uint64 // with fewer items it shrinks, once it has held as many; 0 if it does not
}

// GrowthOf returns the Growth of the filter that has the superblock.
func GrowthOf(sb *layout.Superblock) (g Growth) {
	if !sb.Grows() && sb.ExpireAfter() == 0 {
		return Growth{}
	}
	if g.capacity = sb.Capacity(); !sb.Grows() {
		return g
	}
	g.growAt = max(uint64(growShare*float64(g.capacity)), 1)
	if g.capacity > LeastShrunk {
		g.shrinkAt = g.capacity / shrinkShare
	}
	return g
}

// Grows reports whether the filter grows by itself.
func (g Growth) Grows() bool { return g.growAt > 0 }

// Compacts returns how many waiting deletes make a rebuild due, for Writer.Compact.
func (g Growth) Compacts() uint64 {
	if g == (Growth{}) {
		return 0
	}
	return max(g.capacity/waitShare, 1)
}

// Inserted reports whether a rebuild is due after an insert.
func (g Growth) Inserted(w *writer.Writer) bool {
	return g.Grows() && w.Len() >= g.growAt || w.HistoryIsLong()
}

// Deleted reports whether a rebuild is due after a delete.
func (g Growth) Deleted(w *writer.Writer) bool {
	return g.Small(w) && g.shrinks(w) || w.HistoryIsLong()
}

// Small reports whether the filter has so few items that it should be made smaller, provided that
// it has held more (see shrinks).
func (g Growth) Small(w *writer.Writer) bool { return w.Len() < g.shrinkAt }

// shrinks reports whether the filter may be made smaller, because it can have held more items
// since the last rebuild.
func (g Growth) shrinks(w *writer.Writer) bool { return w.Len()+w.Tail() >= g.shrinkAt }

// Capacity returns the capacity of the file that replaces the file of w, for a number of items. full
// says that the old file had no room for an insert.
func (g Growth) Capacity(w *writer.Writer, items uint64, full bool) uint64 {
	switch {
	case full, g.Grows() && items >= g.growAt:
		return growFactor * max(g.capacity, items)
	case items < g.shrinkAt && g.shrinks(w):
		return max(growFactor*items, LeastShrunk)
	}
	return max(g.capacity, items)
}

// Wide reports whether the filter has so few items for its capacity that another growth would not make
// room.
func (g Growth) Wide(w *writer.Writer) bool { return w.Len() < g.capacity/wideShare }
