package mmapfilter

import "testing"

// TestLookupLooksAgain: what the mapping says of a home line settles a lookup of the
// writer's process only where nothing of the line is pending, and where what is
// pending has been the same all the time.
func TestLookupLooksAgain(t *testing.T) {
	w := mustWriter(t, newMemoryVolume(t, blocked12, 60), 0)
	rng := seeded(t, 1)
	insert := func() (h uint64) {
		h = rng.Uint64()
		if err := w.insert(h); err != nil {
			t.Fatal(err)
		}
		return h
	}
	pending := insert()
	if w.table.Contains(&w.view, pending) {
		t.Fatal("the mapping has what is pending; then this test shows nothing")
	}
	before := w.overlay.Load()
	if !w.containsUnder(before, pending) {
		t.Error("a lookup does not find what is pending")
	}
	found := make([]bool, 2)
	if w.containsBlockUnder(before, new(lookupScratch), []uint64{pending, pending}, found); !found[0] || !found[1] {
		t.Errorf("a batch does not find what is pending: %v", found)
	}
	if err := w.sync(false, 0); err != nil {
		t.Fatal(err)
	}
	later := insert()
	for before.has(w.homeBlock(later)) {
		later = insert()
	}
	if !w.containsUnder(before, later) {
		t.Error("a lookup says no with an overlay that is not the newest")
	}
	clear(found)
	if w.containsBlockUnder(before, new(lookupScratch), []uint64{pending, later}, found); !found[0] || !found[1] {
		t.Errorf("in a batch they are %v", found)
	}
}
