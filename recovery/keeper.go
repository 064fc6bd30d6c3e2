package recovery

import (
	"errors"
	"fmt"
	"io/fs"
	"sync/atomic"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/hashes"
	"github.com/mmapfilter/mmapfilter/layout/wal"
)

// A keeper writes the hashes of a filter to NAME.hashes (K2). One goroutine at a time uses it:
// the one that recovers the file, ends a checkpoint, or closes the file.
type keeper struct {
	vol        Volume
	on         bool // the file keeps its hashes
	file       HashFile
	counted    layout.Hashes // what the next superblock says
	at         hashes.Place  // of the next page
	operations uint64        // in the tail
	cut        bool          // the file ends before that page
	generation uint64        // the last one whose hashes are in the file
	pages      atomic.Uint64 // counted.Pages
	lost       atomic.Pointer[error]
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

// lose records why the hashes cannot be used. From the next superblock on no page counts: whatever
// is there later lacks what is done from now on.
func (k *keeper) lose(err error) {
	k.counted.Pages, k.counted.Check = 0, 0
	k.pages.Store(0)
	if !errors.Is(err, ErrHashes) {
		err = fmt.Errorf("%w: %w", ErrHashes, err)
	}
	k.lost.CompareAndSwap(nil, &err)
}

// open finds the NAME.hashes that the superblock names. If there is none, the filter can be used
// all the same.
func (k *keeper) open(vol Volume, sb *layout.Superblock) error {
	k.vol = vol
	if k.on = sb.KeepsHashes(); !k.on {
		return nil
	}
	k.counted = sb.Hashes()
	k.pages.Store(k.counted.Pages)
	if k.counted.Pages == 0 {
		k.lose(errLost)
		return nil
	}
	var wrong error // what is wrong with the file of the usual name, or else with the other one
	for _, name := range []HashesName{CurrentHashes, NextHashes} {
		f, err := k.vol.OpenHashes(name)
		if errors.Is(err, fs.ErrNotExist) && wrong != nil {
			continue
		}
		if err == nil && k.file != nil { // left by a rebuild that did not end
			if err := errors.Join(f.Close(), k.vol.RemoveHashes(name)); err != nil {
				return err
			}
			continue
		}
		if err == nil {
			k.at, k.operations, err = EndOfHashes(f, k.counted)
			if err != nil {
				f.Close()
			}
		}
		switch {
		case err != nil && (wrong == nil || errors.Is(wrong, fs.ErrNotExist)):
			wrong = err
		case err == nil:
			k.file = f
			if name == NextHashes {
				if err := k.vol.KeepHashes(); err != nil {
					return err
				}
			}
		}
	}
	if k.file == nil {
		k.lose(fmt.Errorf("K2: NAME.hashes: %w", wrong))
	}
	return nil
}

// keep appends the hashes of a generation of the log to NAME.hashes and makes them durable (K2).
// If that fails, the filter does without: nothing else depends on them.
func (k *keeper) keep(generation uint64, each func(do func(log []uint64, seg wal.Segment))) {
	if k.err() != nil || generation <= k.generation {
		return
	}
	if err := k.tryKeep(each); err != nil {
		k.lose(err)
		return
	}
	k.generation = generation
}

func (k *keeper) tryKeep(each func(do func(log []uint64, seg wal.Segment))) (err error) {
	if !k.cut {
		// A writer that died may have appended more, which no superblock counts.
		if err := k.file.Truncate(k.at.Number); err != nil {
			return err
		}
		k.cut = true
	}
	now := uint64(0) // for operations without a commit
	tail := hashes.NewTail(k.at, k.operations, k.file.WritePage)
	each(func(log []uint64, seg wal.Segment) {
		committed := seg.Time
		if committed == 0 {
			if now == 0 {
				now = k.vol.Now()
			}
			committed = now
		}
		seg.Each(log, func(r wal.Record) {
			if !r.HasHash || err != nil {
				return
			}
			kind := hashes.Insert
			if r.Grow < 0 {
				kind = hashes.Delete
			}
			err = tail.Add(kind, r.Hash, committed)
		})
	})
	if err != nil {
		return err
	}
	at, operations, err := tail.End()
	if err != nil || at == k.at {
		return err
	}
	if err := k.file.Sync(); err != nil {
		return err
	}
	k.at, k.operations = at, operations
	k.counted.Pages, k.counted.Check = at.Number, at.Before
	k.pages.Store(at.Number)
	return nil
}

// keepEnded is keep for a generation that this process has written.
func (k *keeper) keepEnded(log File, generation, salt uint64) {
	k.keep(generation, func(do func([]uint64, wal.Segment)) {
		words := log.Words()
		for seg := range wal.Ended(words, generation, salt) {
			do(words, seg)
		}
	})
}
