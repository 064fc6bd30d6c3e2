package writer

import (
	"math/rand/v2"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/tabletest"
)

// TestFullLines compares what Full knows of lines with their newest state, of which some is durable,
// some pending, and some is deletes. While an operation has an item on its way out, nothing is known.
func TestFullLines(t *testing.T) {
	for _, s := range tabletest.Shapes() {
		t.Run(s.String(), func(t *testing.T) {
			w, rng := mustWriter(t, s.Volume(t, s.Lines(400)), 0), rand.New(rand.NewPCG(11, 12))
			var there []uint64
			for slots := int(s.Lines(400)) * int(s.Slots()); len(there) < slots*97/100; {
				h := rng.Uint64()
				if err := w.Insert(h); err != nil {
					break
				}
				if there = append(there, h); len(there) == slots*90/100 {
					must(t, w.Sync())
				}
			}
			for _, h := range there[:len(there)/500] {
				if _, err := w.Delete(h); err != nil {
					t.Fatal(err)
				}
			}
			full, mapped := 0, 0 // lines, and those that are as full in the mapping
			const all = 3000
			for range all {
				line := rng.Uint64N(w.table.Lines())
				var l layout.Line
				w.loadLine(line, &l)
				is := w.table.Free(l[:], line) == 0
				if is {
					full++
				}
				if w.mu.op.Full(line) && !is {
					t.Fatalf("line %d is known to be full, and is not", line)
				}
				first, n := w.table.Words(line)
				if is == (w.table.Free(w.view.Region[first:first+uint64(n)], line) == 0) {
					mapped++
				}
			}
			if full == 0 || full == all || mapped == all {
				t.Errorf("of %d lines, %d are full, and the mapping is right about %d: not what this is about", all, full, mapped)
			}
			must(t, w.Sync())
			known := 0
			for _, h := range there[len(there)/2:][:100] {
				home := w.table.Split(h)
				if !w.mu.op.Full(home.Line) {
					continue
				}
				if _, inLine, _ := w.mu.placer.Remove(home); inLine && w.mu.op.Full(home.Line) {
					t.Error("full, with an item on its way out")
				}
				w.mu.op.reset()
				if !w.mu.op.Full(home.Line) {
					t.Error("not full any more, though nothing was done")
				}
				at := layout.Copies(w.table, layout.LineFrom(w.table, w.newest, home.Line), home) > 0
				if done, err := w.Delete(h); !done || err != nil || at && w.mu.op.Full(home.Line) {
					t.Errorf("%t, %v: full, with a delete that is pending", done, err)
				}
				known++
			}
			if known == 0 {
				t.Error("no line is known to be full")
			}
		})
	}
}
