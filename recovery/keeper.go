package recovery

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"sync/atomic"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/hashes"
	"github.com/mmapfilter/mmapfilter/layout/wal"
)

// A keeper writes the hashes of a filter to NAME.hashes (K2). One goroutine at a time uses it:
// the one that recovers the file, ends a checkpoint, or closes the file.
type keeper struct {
	vol        Volume
	now        func() uint64
	on         bool // the file keeps its hashes
	must       bool // operations fail if the hashes cannot be kept
	file       HashFile
	counted    layout.Hashes // for the next superblock: how much of the file counts
	tail       hashes.Tail   // goes on after the pages that count
	cut        bool          // pages after those that count have been cut off
	generation uint64        // the last generation whose hashes are in the file
	lost       atomic.Pointer[error]

	// Which page, 1 or 2, ends the tail: last according to the newest durable superblock, so only the
	// other page may be written; next according to counted.
	last, next uint64
	torn       bool // keep has failed: the file may not have the page that counted names
	header     hashes.Header
}

// err returns why the hashes cannot be used, or nil.
func (k *keeper) err() error {
	if !k.on {
		return errNotKept
	}
	if e := k.lost.Load(); e != nil {
		return *e
	}
	return nil
}

// lose records why the hashes cannot be used. From the next superblock on, no page counts: the
// file will lack the operations that are done from now on.
func (k *keeper) lose(err error) {
	k.counted = layout.Hashes{Identity: k.counted.Identity}
	if !errors.Is(err, ErrHashes) {
		err = &HashesError{Err: err}
	}
	k.lost.CompareAndSwap(nil, &err)
}

// open finds the NAME.hashes that the superblock names. Without it, the filter can still be used,
// unless it must be recovered and requires its hashes.
func (k *keeper) open(vol Volume, sb *layout.Superblock, now func() uint64) error {
	k.vol, k.now = vol, now
	if k.on = sb.KeepsHashes(); !k.on {
		return nil
	}
	required := vol.RequiresHashes()
	k.must = sb.Grows() || sb.ExpireAfter() != 0 || required
	k.counted = sb.Hashes()
	if k.counted.Pages == 0 {
		k.lose(errLost)
		return nil
	}
	kept, name, err := FindHashes(sb, vol.OpenHashes)
	if err != nil {
		if required && sb.State() == layout.Live { // a recovery without them would lose them
			return err
		}
		k.lose(err)
		return nil
	}
	k.file, k.header, k.tail = kept.File, kept.Header, *kept.Tail()
	k.last, k.next = kept.LastNumber, kept.LastNumber
	if name == NextHashes {
		return vol.KeepHashes()
	}
	if f, err := vol.OpenHashes(NextHashes); err == nil { // left by a rebuild that did not end
		return errors.Join(f.Close(), vol.RemoveHashes(NextHashes))
	}
	return nil
}

// keep appends the operations of a generation, given as segments of a log, to NAME.hashes, and makes
// them durable (K2). If this fails, a filter that need not keep its hashes goes on without them, since
// nothing else depends on them. If the filter must keep its hashes, keep returns the error, and can be
// called again, since the log still has the hashes.
func (k *keeper) keep(generation uint64, segments iter.Seq2[[]uint64, wal.Segment]) error {
	if k.err() != nil || generation <= k.generation && !k.torn {
		return nil
	}
	if generation <= k.generation {
		segments = func(func([]uint64, wal.Segment) bool) {}
	}
	err := k.tryKeep(segments)
	switch {
	case err == nil:
		k.generation = max(k.generation, generation)
	case k.must:
		return fmt.Errorf("keep the hashes: %w", err)
	default:
		k.lose(err)
	}
	return nil
}

func (k *keeper) tryKeep(segments iter.Seq2[[]uint64, wal.Segment]) (err error) {
	if !k.cut {
		// A writer that died may have appended pages after those that count.
		if err := k.file.Truncate(max(k.counted.Pages, hashes.FirstBase)); err != nil {
			return err
		}
		k.cut = true
	}
	tail, none := k.tail, true // a copy: after a failure, the next attempt begins with k.tail again
	now := uint64(0)
	for log, seg := range segments {
		committed := seg.Commit.Mark
		if committed == 0 { // the segment has no commit
			now = cmp.Or(now, k.now())
			committed = now
		}
		seg.Each(log, func(r wal.Record) {
			if r.Op != 0 && err == nil {
				err, none = tail.Add(hashes.Entry{Op: r.Op, Items: r.Grow, Hash: r.Hash, Time: committed}), false
			}
		})
	}
	if err != nil || none && !k.torn {
		return err
	}
	next := k.spare()
	counted, last := tail.End(next)
	if last != nil {
		k.torn = true
		err = k.file.WritePages(next, last[:])
	}
	if err == nil {
		err = k.file.Sync()
	}
	if err != nil {
		return err
	}
	k.tail, k.counted, k.next, k.torn = tail, counted, next, false
	return nil
}

// spare returns 1 or 2: the page that the newest durable superblock does not use.
func (k *keeper) spare() uint64 { return 3 - max(k.last, 1) }

// stored is called once the superblock with k.counted is durable.
func (k *keeper) stored() { k.last = k.next }

// keepEnded is keep for a generation that this process has written.
func (k *keeper) keepEnded(log File, generation, salt uint64) error {
	return k.keep(generation, func(yield func([]uint64, wal.Segment) bool) {
		words := log.Words()
		for seg := range wal.Ended(words, generation, salt) {
			if !yield(words, seg) {
				return
			}
		}
	})
}
