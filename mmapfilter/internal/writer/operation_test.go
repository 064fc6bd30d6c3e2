package writer

import (
	"math/rand/v2"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/tabletest"
)

// TestFullKnowsWhatIsPending: a line that is full in the file is not, when an item has left
// that is not durable yet, or not even appended.
func TestFullKnowsWhatIsPending(t *testing.T) {
	for _, s := range tabletest.Shapes() {
		t.Run(s.String(), func(t *testing.T) {
			w, rng := mustWriter(t, s.Volume(t, s.Lines(20)), 0), rand.New(rand.NewPCG(5, 6))
			full := func(line uint64) bool { return w.mu.op.Full(line) }
			var there []uint64 // in their home lines
			for h := rng.Uint64(); w.Insert(h) == nil; h = rng.Uint64() {
				there = append(there, h)
			}
			if err := w.Sync(); err != nil {
				t.Fatal(err)
			}
			for _, h := range there {
				home := w.table.Split(h)
				var l layout.Line
				if w.loadLine(home.Line, &l); !full(home.Line) || layout.Copies(w.table, l, home) != 1 {
					continue
				}
				if _, inLine, _ := w.mu.placer.Remove(home); !inLine || full(home.Line) {
					t.Error("full, with an item on its way out")
				}
				w.mu.op.reset()
				if !full(home.Line) {
					t.Error("not full any more, though nothing was done")
				}
				if deleted, err := w.Delete(h); !deleted || err != nil || !w.fullMapped(home.Line) || full(home.Line) {
					t.Errorf("%t, %v: full, with a deletion that is pending", deleted, err)
				}
				return
			}
			t.Error("no line is full")
		})
	}
}
