package rebuild

import (
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/tabletest"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/writer"
)

// TestGrowth covers K5: a filter grows when it has 90 % of its capacity, or no room for an insert. It
// shrinks if it has less than an eighth of a capacity above 65,536, but only once its items and the
// operations since the last rebuild are together an eighth of it or more. Before that, it may be about
// to be filled. The new capacity depends on the items that the history means, not on those in the file.
func TestGrowth(t *testing.T) {
	w := newRunOf(t, tabletest.Shape.CreateKeeping).job.Old.Writer
	w.Compact(1 << 62)
	remove := func(hash uint64) {
		if done, err := w.Delete(hash); !done || err != nil {
			t.Fatal(done, err)
		}
	}
	pass := func(used uint64) { // inserts and deletes a key, up to so many items and operations
		for w.Len()+w.Tail() < used {
			if err := w.Insert(hashOf(1000)); err != nil {
				t.Fatal(err)
			}
			remove(hashOf(1000))
		}
		if got := w.Len() + w.Tail(); got != used {
			t.Fatalf("%d items and operations, not %d", got, used)
		}
	}
	for number := range uint64(10) {
		remove(hashOf(number))
	}
	pass(LeastShrunk / 8)
	for _, c := range []struct {
		capacity   uint64
		next, full uint64 // next capacity for 90 items, and if an insert found no room
		compacts   uint64
		inserted   bool // a rebuild is due after an insert
		deleted    bool // a rebuild is due after a delete
		wide       bool
	}{
		{100, 200, 200, 12, true, false, false},
		{50, 180, 180, 6, true, false, false}, // it has more than its capacity already
		{1, 180, 180, 1, true, false, false},
		{101, 202, 202, 12, true, false, false},
		{102, 102, 204, 12, false, false, false},
		{8 * 91, 8 * 91, 2 * 8 * 91, 91, false, false, false}, // too small to shrink
		{64*91 - 1, 64*91 - 1, 2 * (64*91 - 1), 727, false, false, false},
		{64 * 91, 64 * 91, 2 * 64 * 91, 728, false, false, true},
		{LeastShrunk, LeastShrunk, 2 * LeastShrunk, LeastShrunk / 8, false, false, true},
		{LeastShrunk + 1, LeastShrunk, 2 * (LeastShrunk + 1), LeastShrunk / 8, false, true, true},
		{LeastShrunk + 8, LeastShrunk + 8, 2 * (LeastShrunk + 8), LeastShrunk/8 + 1, false, false, true}, // not filled yet
	} {
		var sb layout.Superblock
		sb.SetCapacity(c.capacity)
		if g := GrowthOf(&sb); g != (Growth{}) || g.Grows() || g.Inserted(w) || g.Deleted(w) || g.Compacts() != 0 {
			t.Errorf("%d: it grows although it keeps no hashes: %+v", c.capacity, g)
		}
		sb.SetKeepsHashes(true)
		g := GrowthOf(&sb)
		if !g.Grows() || g.Inserted(w) != c.inserted || g.Deleted(w) != c.deleted || g.Wide(w) != c.wide {
			t.Errorf("%d: due after an insert: %t, after a delete: %t; wide: %t", c.capacity, g.Inserted(w), g.Deleted(w), g.Wide(w))
		}
		if next, full := g.Capacity(w, 90, false), g.Capacity(w, 90, true); next != c.next || full != c.full || g.Compacts() != c.compacts {
			t.Errorf("%d: the next capacity is %d or, without room, %d; a rebuild is due at %d deletes", c.capacity, next, full, g.Compacts())
		}
	}
	var sb layout.Superblock
	sb.SetCapacity(1 << 20)
	sb.SetKeepsHashes(true)
	pass(1 << 17)
	for items, want := range map[uint64]uint64{1<<17 - 1: 1<<18 - 2, 1 << 17: 1 << 20, 943_717: 1 << 20, 943_718: 1 << 21, 1 << 21: 1 << 22} {
		if got := GrowthOf(&sb).Capacity(w, items, false); got != want {
			t.Errorf("a capacity of %d for %d items, not %d", got, items, want)
		}
	}
}

// TestGrowthOfHistory covers K7: if many deletes wait for a rebuild, a rebuild is due after any
// operation, and does not change the capacity.
func TestGrowthOfHistory(t *testing.T) {
	w, _, err := writer.Open(shape.Keeping(t, 100), writer.LogSize{})
	if err != nil {
		t.Fatal(err)
	}
	var sb layout.Superblock
	sb.SetCapacity(16)
	sb.SetKeepsHashes(true)
	g := GrowthOf(&sb)
	w.Compact(g.Compacts())
	for range 3 {
		if err := w.Insert(hashOf(1)); err != nil {
			t.Fatal(err)
		}
	}
	if added, err := w.InsertUnique(hashOf(1) ^ 1); added || err != nil {
		t.Fatal(added, err)
	}
	for n := range 3 {
		if due := n == 2; g.Inserted(w) != due || g.Deleted(w) != due {
			t.Errorf("after %d deletes: due after an insert: %t, after a delete: %t", n, g.Inserted(w), g.Deleted(w))
		}
		if done, err := w.Delete(hashOf(1)); !done || err != nil {
			t.Fatal(done, err)
		}
	}
	if w.Len() != 3 || g.Capacity(w, w.Len(), false) != 16 {
		t.Errorf("the next capacity is %d for %d items", g.Capacity(w, w.Len(), false), w.Len())
	}
}
