package rebuild

import (
	"context"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/writer"
)

// A replayer repeats the operations of the old file in the new file, while more operations come.
type replayer struct {
	ctx  context.Context
	tap  *writer.Tap  // the operations of the old file
	next *writer.Work // the writer of the new file, or nil until the file is open

	// progress, if not nil, is called with the progress; it may call the filter.
	progress func(stage string, done, total uint64)

	// hashes and ops are the operations that were taken from the tap but not replayed yet.
	hashes []uint64
	ops    []layout.Op
	done   uint64 // operations that were replayed
}

// replayAtOnce is how many operations are taken from the tap at a time.
const replayAtOnce = 4096

// While operations come nearly as fast as they are replayed, each of them waits for a moment. The wait
// gets longer whenever slowEvery replays have not made the tap much shorter. The first wait is about as
// long as an operation takes; the longest lets 20,000 operations a second through.
const (
	slowEvery = 32
	slowFirst = 200    // nanoseconds
	slowMost  = 50_000 // nanoseconds
)

// catchUp replays operations. most is how many may still wait when it returns.
func (r *replayer) catchUp(most int) error {
	for before, n := r.tap.Len(), 1; r.tap.Len() > most || len(r.hashes) > 0; n++ {
		if err := context.Cause(r.ctx); err != nil {
			return err
		}
		if err := r.replay(); err != nil {
			return err
		}
		if r.progress != nil {
			r.progress("catch up", r.done, r.done+uint64(r.tap.Len()))
		}
		if n%slowEvery == 0 {
			now := r.tap.Len()
			r.tap.Slow.Store(pace(r.tap.Slow.Load(), before, now))
			before = now
		}
	}
	return context.Cause(r.ctx)
}

// pace returns how long each operation must wait from now on, in nanoseconds; slow is how long it had to
// wait so far. now is the number of operations in the tap, and before the number slowEvery replays ago.
func pace(slow int64, before, now int) int64 {
	switch done := slowEvery * replayAtOnce / 4; {
	case now > before-done: // three or more operations came for every four that were replayed
		return min(max(slow*3/2, slowFirst), slowMost)
	case now < before-2*done:
		return slow * 3 / 4
	}
	return slow
}

// replay replays some of the operations in the tap.
func (r *replayer) replay() (err error) {
	if len(r.hashes) == 0 {
		if r.hashes, r.ops, err = r.tap.Take(r.hashes[:0], r.ops[:0], replayAtOnce); err != nil {
			return err
		}
	}
	n := 0
	err = r.next.Catch(func() (err error) {
		n, err = r.next.Writer.Replay(r.hashes, r.ops)
		return err
	})
	r.hashes, r.ops = r.hashes[n:], r.ops[n:]
	r.done += uint64(n)
	return err
}
