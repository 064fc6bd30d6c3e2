package recovery

import (
	"fmt"
	"sync/atomic"

	"github.com/mmapfilter/mmapfilter/layout"
)

// Adopt has w count its operations on from where another writer is. The next commit says so.
func (w *Writer) Adopt(from *Writer) { w.userSeq, w.operation = from.userSeq, from.operation }

// LastTime returns the time of the last commit, in nanoseconds since 1970. No commit may end meanwhile.
func (w *Writer) LastTime() uint64 { return w.lastTime }

// HoldGrowth waits for the end of a GrowLog, forgets a larger log that is not in use, and has GrowLog do
// nothing from then on, or again if held is false.
func (w *Writer) HoldGrowth(held bool) {
	g := &w.growth
	g.Lock()
	defer g.Unlock()
	g.held = held
	if held && g.larger != nil { // its name goes to another log, or does not matter any more
		g.larger.Close()
		g.larger = nil
	}
}

// TakePlace puts the file of w in the place of that of another writer, which must be live (K3,
// K4). Both must have no checkpoint under way. All operations of the old one must be in w, and durable
// there. None may go on meanwhile. If it fails, nothing has changed.
//
// The old file says that it is superseded before it loses its name, so that readers who have it
// say "maybe" before the new one can get items that it lacks. If the process dies in between, the
// old file has its name still, and its recovery makes the epoch even again, as that of every file
// that needs recovery.
//
// A fault in the old file fails old, not w.
func (w *Writer) TakePlace(old *Writer) error {
	if err := old.vol.Named(); err != nil {
		return old.Fail(err) // W9: what is under the name belongs to another filter
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

// swapEpoch stores an epoch and returns the one before. A fault fails w.
func (w *Writer) swapEpoch(epoch uint64) (before uint64, err error) {
	err = w.Catch(func() error {
		runtime := layout.NewView(w.Words()[layout.WordRuntime:], w.geometry).Runtime
		before = atomic.LoadUint64(&runtime[layout.RuntimeEpoch])
		w.storeRuntime(layout.RuntimeEpoch, epoch)
		return nil
	})
	return before, err
}
