package recovery

import (
	"fmt"
	"sync/atomic"

	"github.com/mmapfilter/mmapfilter/layout"
)

// A Count is a user sequence, and how many operations have been counted since it was set.
type Count struct{ Seq, Operations uint64 }

// Count returns the Count after all operations appended so far.
func (w *Writer) Count() Count { return Count{w.userSeq, w.operation} }

// Adopt makes w continue the Count of another writer. The next commit records it.
func (w *Writer) Adopt(c Count) { w.userSeq, w.operation = c.Seq, c.Operations }

// LastTime returns the time of the last commit, in nanoseconds since 1970. No commit may end meanwhile.
func (w *Writer) LastTime() uint64 { return w.lastTime }

// HoldGrowth waits for the end of a GrowLog. If held is true, it also closes a larger log that is not
// in use yet, and GrowLog does nothing from then on. If held is false, GrowLog works again.
func (w *Writer) HoldGrowth(held bool) {
	g := &w.growth
	g.Lock()
	defer g.Unlock()
	g.held = held
	if held && g.larger != nil { // the name goes to another log, or does not matter any more
		g.larger.Close()
		g.larger = nil
	}
}

// TakePlace puts the file of w in the place of the file of old, which must be live (K3, K4). No
// checkpoint may be under way in either writer. All operations of old must be in w, and durable there.
// No operation may go on meanwhile. If TakePlace fails, nothing has changed.
//
// The epoch of the old file becomes Superseded before the file loses its name. So readers that
// have the old file say "maybe" before the new file can get items that the old one lacks. If the
// process dies in between, the old file still has its name, and its recovery makes the epoch
// even, as every recovery does.
//
// A fault in the old file fails old, not w.
func (w *Writer) TakePlace(old *Writer) error {
	if err := old.vol.Named(); err != nil {
		return old.Fail(err) // W9: the file under the name belongs to another filter
	}
	epoch, err := old.swapEpoch(layout.Superseded)
	if err != nil {
		return err
	}
	placed, err := w.vol.TakePlace(old.vol)
	if !placed {
		old.swapEpoch(epoch) // after a fault, old has failed
		return err
	}
	if err != nil {
		w.Fail(fmt.Errorf("take the place of the old file: %w", err))
	}
	old.growth.Lock() // a GrowLog may have begun
	defer old.growth.Unlock()
	old.growth.live = false
	return nil
}

// swapEpoch stores an epoch and returns the epoch before. A fault fails w.
func (w *Writer) swapEpoch(epoch uint64) (before uint64, err error) {
	err = w.Catch(func() error {
		runtime := layout.NewView(w.Words()[layout.WordRuntime:], w.geometry).Runtime
		before = atomic.LoadUint64(&runtime[layout.RuntimeEpoch])
		w.storeRuntime(layout.RuntimeEpoch, epoch)
		return nil
	})
	return before, err
}
