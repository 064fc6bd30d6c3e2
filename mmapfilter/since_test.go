package mmapfilter

import (
	"sync/atomic"
	"testing"

	"github.com/mmapfilter/mmapfilter/layout"
)

// TestLookupLooksAgain bears R2 for lookups of the writer's process: what the
// mapping says of a home line is a no only where the removal counter was even and
// has not moved since before the overlay was loaded.
func TestLookupLooksAgain(t *testing.T) {
	w := mustWriter(t, newMemoryVolume(t, blocked12, 60), 0)
	h := seeded(t, 1).Uint64()
	block := w.block(w.table.Split(h).Line)
	before := w.counter(block)
	counter := &w.runtime[layout.CounterOf(block*blockWords)]
	overlay := w.overlay.Load()
	if err := w.insert(h); err != nil {
		t.Fatal(err)
	}
	// The overlay is an old one, and the mapping has no item that is pending.
	if w.containsSince(overlay, h, block, before) {
		t.Fatal("a lookup that began before the insert finds it; then this test shows nothing")
	}
	if !w.containsSince(w.overlay.Load(), h, block, before) {
		t.Error("a lookup does not find what is pending")
	}
	atomic.AddUint64(counter, 1)
	if !w.containsSince(overlay, h, block, before+1) {
		t.Error("a lookup says no while something is being removed")
	}
	atomic.AddUint64(counter, 1)
	if !w.containsSince(overlay, h, block, before) {
		t.Error("a lookup says no although something was removed meanwhile")
	}
}
