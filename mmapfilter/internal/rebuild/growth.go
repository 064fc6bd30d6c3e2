package rebuild

import (
	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/engine"
	"github.com/mmapfilter/mmapfilter/recovery"
)

// A filter that holds growShare of its capacity is rebuilt for growFactor times as many keys (K5). One
// that holds less than 1 in shrinkShare of its capacity, if that is above LeastShrunk, is rebuilt for
// growFactor times its items, but at least LeastShrunk.
const (
	growShare   = 0.9
	growFactor  = 2
	shrinkShare = 8
	LeastShrunk = 1 << 16
)

// A Growth says when a filter that grows by itself is to be rebuilt. The zero value is that of a filter
// that does not.
type Growth struct {
	capacity uint64
	growAt   uint64 // items from which on it grows; 0 if it does not
	shrinkAt uint64 // items below which it shrinks; 0 if it does not
}

// GrowthOf returns the Growth of the filter that has the superblock.
func GrowthOf(sb *layout.Superblock) (g Growth) {
	if !sb.Grows() {
		return Growth{}
	}
	g.capacity = sb.Capacity()
	g.growAt = max(uint64(growShare*float64(g.capacity)), 1)
	if g.capacity > LeastShrunk {
		g.shrinkAt = g.capacity / shrinkShare
	}
	return g
}

// Grows reports whether the filter grows by itself.
func (g Growth) Grows() bool { return g.growAt > 0 }

// Inserted reports whether a rebuild is due after an insert.
func (g Growth) Inserted(w *engine.Writer) bool {
	return g.Grows() && (w.Len() >= g.growAt || longTail(w))
}

// Deleted reports whether a rebuild is due after a delete.
func (g Growth) Deleted(w *engine.Writer) bool { return g.shrinkAt > 0 && w.Len() < g.shrinkAt }

// Next reports whether a rebuild is due, and returns the capacity of the new file: 0 means that of the
// old one.
func (g Growth) Next(w *engine.Writer) (capacity uint64, due bool) {
	if !g.Grows() {
		return 0, false
	}
	switch items := w.Len(); {
	case items >= g.growAt:
		return growFactor * max(g.capacity, items), true
	case items < g.shrinkAt:
		return max(growFactor*items, LeastShrunk), true
	}
	return 0, longTail(w)
}

// longTail reports whether NAME.hashes is much longer than the items need: many have come and gone
// since the last rebuild, which removes them.
func longTail(w *engine.Writer) bool {
	const much, least = 4, 2048 // pages
	return w.Protocol().HashesPages() > much*w.Len()/recovery.ItemsInPage+least
}
