package recovery

import (
	"errors"
	"fmt"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/wal"
)

// Checkpointing reports whether a checkpoint has begun and not ended.
func (w *Writer) Checkpointing() bool { return w.underWay.Load() != nil }

// Stuck returns the error of the last attempt to end the checkpoint under way, if the writer has
// not failed; or nil.
func (w *Writer) Stuck() error {
	if err := w.stuck.Load(); err != nil {
		return *err
	}
	return nil
}

// Moving reports whether the checkpoint that has begun moves to a larger log. Until it ends,
// no other checkpoint can begin.
func (w *Writer) Moving() bool {
	c := w.underWay.Load()
	return c != nil && c.old != nil
}

// BeginCheckpoint starts the next generation of the log, in the half that the last
// checkpoint left free or in a larger log (W5). It stores one header and waits for nothing.
// No checkpoint may be under way, and the open segment must be empty.
func (w *Writer) BeginCheckpoint() {
	c := &checkpoint{next: w.next(layout.Live), log: w.log, ended: w.log}
	c.generation, c.salt = w.lw.Generation()
	// Operations wait for BeginCheckpoint, so BeginCheckpoint does not wait for GrowLog.
	// But GrowLog waits until w.underWay says that the larger log is in use.
	if g := &w.growth; g.TryLock() {
		defer g.Unlock()
		if g.larger != nil {
			c.log, c.old, g.larger = g.larger, w.log, nil
			w.log = c.log
		}
	}
	log := c.log
	w.lw = w.lw.Next(log.Words(), storeRun(log))
	generation, salt := w.lw.Generation()
	bytes := int64(len(log.Words())) * 8
	c.next.SetLogSalt(salt) // not random: a recovery must be able to derive it from the old salt
	c.next.SetLogBytes(bytes)
	wal.PutHeader(log.Store, wal.Header{UUID: c.next.UUID(), Generation: generation, Salt: salt, Bytes: bytes})
	w.progress.Store(0)
	w.underWay.Store(c)
}

// EndCheckpoint makes the header of the next generation and the region durable, and then
// the superblock that names this generation (W5), if a checkpoint has begun. Every segment
// that ended before BeginCheckpoint must have been hardened. Operations and commits go on
// meanwhile. If EndCheckpoint fails because the hashes must be kept but cannot be kept, the
// writer has not failed.
func (w *Writer) EndCheckpoint() error {
	c := w.underWay.Load()
	if c == nil {
		return nil
	}
	if err := w.vol.Named(); err != nil {
		return w.Fail(err) // W9: the logs under that name belong to another file
	}
	if err := w.syncLog(c.log); err != nil { // its header
		return err
	}
	if err := w.kept.keepEnded(c.ended, c.generation, c.salt); err != nil {
		w.stuck.Store(&err)
		return err // nothing has changed: the checkpoint can be tried again
	}
	w.stuck.Store(nil)
	if err := w.syncRuns(); err != nil {
		return err
	}
	c.next.SetHashes(w.kept.counted)
	if err := w.putSuperblock(&c.next); err != nil {
		return err
	}
	if c.old != nil {
		c.old.Close()
		if err := w.vol.KeepLog(); err != nil {
			return w.Fail(fmt.Errorf("rename the log: %w", err))
		}
	}
	w.underWay.Store(nil)
	w.checkpoints.Add(1)
	return nil
}

// runWords is how much of the region one sync writes: a run. A run is short, since a commit
// that comes meanwhile waits until the disk has written the run. It is long enough that the
// disk seldom waits for the end of a sync.
const runWords = 4 << 20 / 8

// syncRuns makes the stash and the region durable, in the order of the file. A page that is
// stored to after its run need not be durable: these stores belong to the next generation,
// whose log has them.
func (w *Writer) syncRuns() error {
	end := layout.WordRegion + uint64(w.geometry.RegionBytes)/8
	run := uint64(runWords)
	if _, ok := w.filter.(RangeSyncer); !ok {
		run = end // the file can be synced only as a whole
	}
	for from := uint64(layout.WordStash); from < end; from += run {
		w.progress.Store(from)
		sync := func() error { return syncRange(w.filter, from, min(run, end-from)) }
		if err := w.syncFilter("the region", sync, w.sb); err != nil {
			return err
		}
	}
	w.progress.Store(end)
	return nil
}

// Progress returns how much of the region the checkpoint that is under way has made durable,
// from 0 to 1.
func (w *Writer) Progress() float64 {
	end := layout.WordRegion + uint64(w.geometry.RegionBytes)/8
	return float64(w.progress.Load()) / float64(end)
}

// GrowLog creates a log of the given size, to which the next checkpoint moves. Clean and Seal
// wait for it. If there is no room for the new log on the disk, the log keeps its size (W8).
func (w *Writer) GrowLog(bytes int64) error {
	g := &w.growth
	g.Lock()
	defer g.Unlock()
	if !g.live || g.held || g.larger != nil || w.Moving() {
		return nil
	}
	if bytes <= int64(len(w.log.Words()))*8 {
		return nil // the log has grown meanwhile
	}
	if err := w.vol.Named(); err != nil {
		return w.Fail(err) // W9
	}
	log, err := w.vol.CreateLog(bytes)
	if errors.Is(err, ErrNoRoom) || errors.As(err, new(*ForeignError)) {
		g.cramped.Store(&err)
		return nil
	}
	if err != nil {
		return w.Fail(fmt.Errorf("create the log: %w", err))
	}
	g.larger = log
	g.cramped.Store(nil)
	return nil
}

// Cramped returns the reason why the last attempt to enlarge the log found no room, or nil
// if it succeeded.
func (w *Writer) Cramped() error {
	if err := w.growth.cramped.Load(); err != nil {
		return *err
	}
	return nil
}
