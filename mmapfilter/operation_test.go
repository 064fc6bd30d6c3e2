package mmapfilter

import (
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
)

// TestFullKnowsWhatIsPending: a line that is full in the file is not, when an item has left
// that is not durable yet, or not even appended.
func TestFullKnowsWhatIsPending(t *testing.T) {
	for _, s := range shapes() {
		t.Run(s.String(), func(t *testing.T) {
			f := createLines(t, filepath.Join(t.TempDir(), "f"), s, s.lines(20), Options{CommitInterval: -1})
			defer f.Close()
			w, rng := writerOf(f), rand.New(rand.NewPCG(5, 6))
			full := func(line uint64) bool { return w.mu.op.Full(line) }
			var there []uint64 // in their home lines
			for h := rng.Uint64(); f.InsertHash(h) == nil; h = rng.Uint64() {
				there = append(there, h)
			}
			if err := f.Sync(); err != nil {
				t.Fatal(err)
			}
			for _, h := range there {
				home := w.table.Split(h)
				var l layout.Line
				if w.loadLine(home.Line, &l); !full(home.Line) || w.table.Copies(&l, home) != 1 {
					continue
				}
				if _, inLine, _ := w.mu.placer.Remove(home); !inLine || full(home.Line) {
					t.Error("full, with an item on its way out")
				}
				w.mu.op.reset()
				if !full(home.Line) {
					t.Error("not full any more, though nothing was done")
				}
				if deleted, err := f.DeleteHash(h); !deleted || err != nil || !w.fullMapped(home.Line) || full(home.Line) {
					t.Errorf("%t, %v: full, with a deletion that is pending", deleted, err)
				}
				return
			}
			t.Error("no line is full")
		})
	}
}
