package writer

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/recovery"
)

// A pagedVolume has large pages, which the function drop drops part by part.
type pagedVolume struct {
	recovery.Volume
	drop    func(from int64) (next int64)
	dropped int64 // the bytes that each part is said to have
}

func (v pagedVolume) DropLargePages(from int64) (next, dropped int64) { return v.drop(from), v.dropped }

// TestReadAgainWhatWasInMemory checks that a writer counts the bytes of dropped pages anew after each
// Seal. Otherwise a file that is not in memory would be read whole.
func TestReadAgainWhatWasInMemory(t *testing.T) {
	w := mustWriter(t, small.Volume(t, 100), 1<<20)
	vol := w.vol
	for hash, dropped := range []int64{4096, 0, 8192} {
		w.vol = pagedVolume{vol, func(int64) int64 { return 0 }, dropped}
		must(t, errors.Join(w.Seal(context.Background()), w.Insert(uint64(hash))))
		if w.mu.large.left || w.mu.large.dropped != dropped {
			t.Errorf("%d bytes are dropped, but the writer has %+v", dropped, w.mu.large)
		}
	}
}

// TestDropLargePages checks that the first part of a sealed file is dropped before the first store to it
// (R4), whichever call that is, and the other parts before the first commit or, if there is none, before
// the file is put to rest. Operations may run between two parts, except in the last part of Seal and of
// Clean.
func TestDropLargePages(t *testing.T) {
	insert := func(w *Writer) error { return w.Insert(1) }
	nothing := func(w *Writer) error { // stores to the file, but changes no item
		_, err := w.Delete(2)
		return err
	}
	batch := func(w *Writer) error {
		done := 0
		return w.DoAll(layout.Insert, []uint64{1}, false, &done, nil)
	}
	seal := func(w *Writer) error { return w.Seal(context.Background()) }
	pages := func(w *Writer) error { w.DropLargePages(); return nil }
	for name, c := range map[string]struct {
		first, then func(w *Writer) error
		held        bool // whether operations wait until all parts are dropped
	}{
		"SyncAt":      {(*Writer).Sync, func(w *Writer) error { return w.SyncAt(func(uint64) uint64 { return 1 }) }, false},
		"Insert":      {insert, (*Writer).Sync, false},
		"DoAll":       {batch, (*Writer).Sync, false},
		"Checkpoint":  {insert, (*Writer).Checkpoint, false},
		"pages alone": {insert, pages, false},
		"Seal":        {insert, seal, false},
		"Seal alone":  {nothing, seal, true},
		"Clean":       {insert, (*Writer).Clean, true},
		"Clean alone": {nothing, (*Writer).Clean, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := mustWriter(t, small.Volume(t, 100), 1<<20)
			must(t, seal(w))
			parts, between := 0, make(chan bool)
			w.vol = pagedVolume{w.vol, func(from int64) int64 {
				if parts++; from == 0 && (w.protocol.Superblock().State() != layout.Sealed || parts > 1) {
					t.Errorf("part %d is the first, in state %v", parts, w.protocol.Superblock().State())
				}
				if n, _ := w.protocol.Counts(); n > 0 || w.Idle() {
					t.Errorf("part %d after %d commits; operations go on: %t", parts, n, w.Idle())
				}
				if parts == 2 {
					go func() {
						w.State() // waits for w.mu
						close(between)
					}()
				}
				select {
				case <-between:
					if c.held {
						t.Error("an operation could come between two parts")
					}
					return 0
				case <-time.After(time.Millisecond):
				}
				if c.held && parts == 3 || parts == 5000 {
					return 0
				}
				return from + 1
			}, 0}
			must(t, errors.Join(c.first(w), c.then(w)))
			if parts < 3 || parts == 5000 { // there are 5000 only if no operation can run between two parts
				t.Fatalf("%d parts are dropped", parts)
			}
			<-between
		})
	}
}
