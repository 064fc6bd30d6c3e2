package rebuild

import (
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/engine"
)

// TestGrowth covers K5: a filter grows when it has 90 % of its capacity, and shrinks when it has less
// than an eighth of one above 65,536.
func TestGrowth(t *testing.T) {
	w, _, err := engine.Open(shape.Volume(t, 100), engine.LogSize{})
	if err != nil {
		t.Fatal(err)
	}
	for w.Len() < 90 {
		if err := w.Insert(hashOf(w.Len())); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		capacity uint64
		next     uint64 // capacity
		inserted bool   // a rebuild is due
		deleted  bool
	}{
		{100, 200, true, false},
		{50, 180, true, false}, // it has had more than its capacity when it was opened
		{1, 180, true, false},
		{101, 202, true, false},
		{102, 0, false, false},
		{8 * 91, 0, false, false}, // small anyway
		{LeastShrunk, 0, false, false},
		{LeastShrunk + 1, LeastShrunk, false, true},
	} {
		var sb layout.Superblock
		sb.SetCapacity(c.capacity)
		if g := GrowthOf(&sb); g != (Growth{}) || g.Grows() || g.Inserted(w) || g.Deleted(w) {
			t.Errorf("%d: it grows although it is not to: %+v", c.capacity, g)
		} else if _, due := g.Next(w); due {
			t.Errorf("%d: it grows although it is not to", c.capacity)
		}
		sb.SetKeepsHashes(true)
		g := GrowthOf(&sb)
		next, due := g.Next(w)
		if !g.Grows() || g.Inserted(w) != c.inserted || g.Deleted(w) != c.deleted || due != (c.inserted || c.deleted) || next != c.next {
			t.Errorf("%d: %t after an insert, %t after a delete, %t for a capacity of %d", c.capacity, g.Inserted(w), g.Deleted(w), due, next)
		}
	}
}
