package recovery

import "github.com/mmapfilter/mmapfilter/layout"

// next returns the next superblock, in the given state, with everything up to the last operation.
func (w *Writer) next(state layout.State) layout.Superblock {
	sb := *w.sb
	sb.SetGeneration(max(sb.Generation(), w.LogGeneration()) + 1) // during a checkpoint, the log is one generation ahead
	sb.SetState(state)
	sb.SetCheckpointLSN(w.LSN())
	sb.SetLength(w.length)
	sb.SetUserSeq(w.userSeq)
	sb.SetOperation(w.operation)
	sb.SetLogSalt(0)
	sb.SetLogBytes(0)
	if sb.HasHistory() {
		sb.SetKept(w.history)
	}
	if w.kept.on {
		sb.SetHashes(w.kept.counted)
		sb.SetLastTime(w.lastTime)
		sb.SetExpireAfter(w.expireAfter.Load())
		sb.SetExpiredBefore(w.expiredBefore.Load())
	}
	if state == layout.Live {
		sb.SetLogSalt(w.vol.Random())
	} else if w.history.Set == layout.Departed { // not in a live file: its commits still have a position
		if sb.AgesFrom() == 0 {
			sb.ForgetSource()
		}
		if sb.IsReplica() {
			sb.ForgetHashes()
		}
	}
	return sb
}

// putSuperblock makes a superblock durable in the slot whose loss matters least. Until then,
// the newest superblock stays intact. sb must not be changed afterwards.
func (w *Writer) putSuperblock(sb *layout.Superblock) error {
	if err := w.whole(); err != nil {
		return err
	}
	slot := w.spareSlot()
	if err := w.scrub(slotSet(1) << slot); err != nil {
		return err
	}
	sb.Sign()
	w.storeSuperblock(slot, sb)
	if err := w.syncSuperblocks(sb); err != nil {
		return err
	}
	w.slot, w.sb = slot, sb
	w.shown.Store(sb)
	w.known |= 1 << slot
	w.kept.stored()
	return nil
}

// copySuperblock makes copies of the newest superblock durable in other slots.
func (w *Writer) copySuperblock(slots slotSet) error {
	if err := w.scrub(slots); err != nil {
		return err
	}
	for slot := range layout.SuperblockSlots {
		if slots.has(slot) {
			w.storeSuperblock(slot, w.sb)
		}
	}
	if err := w.syncSuperblocks(w.sb); err != nil {
		return err
	}
	w.known |= slots
	return nil
}

// settle makes the newest superblock durable unless this process has already done so: the
// superblock may be only in the cache, left by a writer that died before its sync or whose
// sync failed. Until it is durable, no other slot may be written and no log removed.
//
// settle stores the superblock again in its own slot. Any other slot, even one that shows
// the same or an older superblock, may have the only durable superblock; the cache does not
// show this. The rest of a file at rest becomes durable too, since the file may be a copy that
// nobody has synced. The rest of a live file becomes durable in its recovery, once the epoch is odd.
func (w *Writer) settle() error {
	if w.known.has(w.slot) {
		return nil
	}
	w.storeSuperblock(w.slot, w.sb)
	sync := w.syncRegion
	if w.sb.State() == layout.Live {
		sync = func() error { return w.syncSuperblocks(w.sb) }
	}
	if err := sync(); err != nil {
		return err
	}
	w.known |= 1 << w.slot
	return nil
}

// scrub durably removes the checksums of the given slots, except those whose state on the
// disk is known. Whatever the cache shows, the disk may have a half-written superblock
// there, left by a crash or by a failed sync. If another superblock is stored over it, the
// part in which both agree could complete the half-written one. Without its checksum,
// nothing can complete it.
func (w *Writer) scrub(slots slotSet) error {
	if err := w.settle(); err != nil {
		return err
	}
	if slots &^= w.known; slots == 0 {
		return nil
	}
	for slot := range layout.SuperblockSlots {
		if slots.has(slot) {
			w.unsign(slot)
		}
	}
	return w.syncSuperblocks(w.sb)
}

const superblockWords = layout.SuperblockBytes / 8

// unsign removes the checksum of a slot, which is in its last word.
func (w *Writer) unsign(slot int) { w.filter.Store(uint64((slot+1)*superblockWords-1), 0) }

// storeSuperblock stores a superblock. Unless the slot has the newest superblock,
// storeSuperblock removes the checksum first, so that a killed writer leaves no half-stored
// superblock with a checksum.
func (w *Writer) storeSuperblock(slot int, sb *layout.Superblock) {
	if slot != w.slot {
		w.unsign(slot)
	}
	storeRun(w.filter)(uint64(slot*superblockWords), Words(sb[:]))
}

// spareSlot returns where the next superblock goes.
func (w *Writer) spareSlot() int { return layout.SpareSlot(w.head(), w.slot) }

// head returns the superblock slots of the file.
func (w *Writer) head() []byte { return Bytes(w.filter.Words()[:layout.OffRuntime/8]) }

// syncSuperblocks makes the superblocks durable, and the runtime page, which has a promise.
// The rest of the file may be dirty. newest is the newest superblock in the cache.
func (w *Writer) syncSuperblocks(newest *layout.Superblock) error {
	sync := func() error { return syncRange(w.filter, 0, layout.WordStash) }
	return w.syncFilter("the superblock", sync, newest)
}
