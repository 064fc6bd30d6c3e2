package writer

import (
	"slices"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/tabletest"
)

// inserts returns a function that inserts a random hash and returns it.
func inserts(t *testing.T, w *Writer) func() (h uint64) {
	rng := seeded(t, 1)
	return func() (h uint64) {
		t.Helper()
		h = rng.Uint64()
		must(t, w.Insert(h))
		return h
	}
}

// TestLookupLooksAgain checks that a lookup in the writer's process answers from the home line in the
// mapping only if no word of the line is pending, and if the overlay is still the newest after the
// lookup.
func TestLookupLooksAgain(t *testing.T) {
	w := mustWriter(t, usual.Volume(t, 60), 0)
	insert := inserts(t, w)
	pending := insert()
	if layout.Contains(w.table, &w.view, pending) {
		t.Fatal("the mapping has a pending item, so this test proves nothing")
	}
	before := w.overlay.Load()
	if !w.containsUnder(before, pending) {
		t.Error("a lookup does not find a pending item")
	}
	found := make([]bool, 2)
	if w.containsPartUnder(before, new(scratch), []uint64{pending, pending}, found); !found[0] || !found[1] {
		t.Errorf("a batch does not find a pending item: %v", found)
	}
	must(t, w.Sync())
	later := insert()
	for it := w.table.Split(later); w.isPending(before, it.Line) || w.isPending(before, w.table.Alternate(it).Line); it = w.table.Split(later) {
		later = insert()
	}
	if !w.containsUnder(before, later) || !w.containsBeyond(before, later) {
		t.Error("a lookup with an old overlay answers \"certainly not\"")
	}
	clear(found)
	if w.containsPartUnder(before, new(scratch), []uint64{pending, later}, found); !found[0] || !found[1] {
		t.Errorf("the answers of a batch with an old overlay are %v", found)
	}
}

// A tornTable is a table whose first looks see lines while they change: a batch becomes durable
// meanwhile, and the first looks find none of the keys.
type tornTable struct {
	layout.Table
	during func()
}

func (t tornTable) FirstLooks(_ *layout.View, _ []uint64, found []bool, _ []uint8) (done int) {
	t.during()
	clear(found)
	return len(found)
}

func (t tornTable) Kernel() string { return "torn" }

// TestBatchLooksAgain checks that a batch of lookups relies on its first looks only if the overlay is
// the same before and after them.
func TestBatchLooksAgain(t *testing.T) {
	w := mustWriter(t, usual.Volume(t, 60), 0)
	insert := inserts(t, w)
	present := insert()
	must(t, w.Sync())
	block := []uint64{w.homeBlock(present)}
	for marked := []uint8{1}; marked[0] != 0; {
		must(t, w.Sync())
		insert()
		clear(marked)
		w.overlay.Load().MayHave(block, marked)
	}
	found := make([]bool, 9) // one more than a kernel looks up at once
	hashes := slices.Repeat([]uint64{present}, len(found))
	w.looks = tornTable{w.table, func() {
		must(t, w.Sync())
	}}
	w.containsPartUnder(w.overlay.Load(), new(scratch), hashes, found)
	if slices.Contains(found, false) {
		t.Errorf("a lookup during which a commit ended does not find a key: %v", found)
	}
}

// TestLookupsDuringACommit checks that lookups, alone and in batches, find the items of a commit at each
// step of the commit: among the pending words until the mapping has them, and then in the mapping.
func TestLookupsDuringACommit(t *testing.T) {
	for _, s := range tabletest.OneEach() {
		t.Run(s.String(), func(t *testing.T) {
			w := mustWriter(t, s.Volume(t, s.Lines(60)), 0)
			rng := seeded(t, 1)
			var all []uint64
			insert := func() {
				for range 100 {
					h := rng.Uint64()
					must(t, w.Insert(h))
					all = append(all, h)
				}
			}
			check := func(when string) {
				found := make([]bool, len(all))
				w.ContainsAll(all, found)
				for i, h := range all {
					if !w.Contains(h) || !found[i] {
						t.Fatalf("%s: key %d: %t, in a batch %t", when, i, w.Contains(h), found[i])
					}
				}
			}
			insert()
			b, err := w.cut(boundary{})
			if !b.ended || err != nil {
				t.Fatal(b.ended, err)
			}
			check("the batch has ended")
			insert()
			check("another one has begun")
			must(t, w.protocol.Harden(b.Segment))
			check("it is in the mapping")
			w.mu.Lock()
			w.dropPending(b)
			w.mu.Unlock()
			check("its words are dropped")
		})
	}
}
