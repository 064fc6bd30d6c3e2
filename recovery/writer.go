package recovery

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/wal"
)

// A Writer owns the order of the writes to one filter. The package essay has the rules
// and a diagram.
//
// Calls must come from one goroutine at a time, with one exception: one Harden and one
// SyncRegion at a time may run concurrently with each other and with Append, Skip and
// EndSegment.
type Writer struct {
	vol      Volume
	filter   File
	geometry layout.Geometry

	slot  int               // slot of the newest superblock
	sb    layout.Superblock // the newest superblock
	known slotSet           // slots known to be the same on the disk as in the cache

	log    File        // nil while the state is not live
	lw     *wal.Writer // lays out the open segment
	record wal.Record  // scratch for Append

	// The state after all operations appended so far.
	length, userSeq, operation uint64

	// durable is the point up to which the log is known to be durable, and which the
	// mapping holds. Harden updates it.
	durable struct {
		lsn                atomic.Uint64
		userSeq, operation atomic.Uint64
	}
	turn    int      // counts promises
	odd     []uint64 // scratch for apply
	failed  atomic.Pointer[error]
	cramped error // why the last attempt to resize the log failed; nil if it succeeded

	syncing sync.Mutex // serialises syncs of the filter file

	commits, checkpoints atomic.Uint64
}

// NewWriter takes over a volume. If its last writer died, NewWriter recovers the file first.
func NewWriter(vol Volume) (*Writer, *Recovery, error) {
	w := &Writer{vol: vol, filter: vol.Filter()}
	r, err := w.open()
	if err != nil {
		return nil, nil, err
	}
	w.length, w.userSeq, w.operation = w.sb.Length(), w.sb.UserSeq(), w.sb.Operation()
	w.durable.lsn.Store(w.sb.CheckpointLSN())
	w.durable.userSeq.Store(w.userSeq)
	w.durable.operation.Store(w.operation)
	return w, r, nil
}

// Superblock returns the newest superblock.
func (w *Writer) Superblock() *layout.Superblock { return &w.sb }

// Geometry returns the geometry of the file.
func (w *Writer) Geometry() layout.Geometry { return w.geometry }

// Words returns the words of the filter file. They must not be changed.
func (w *Writer) Words() []uint64 { return w.filter.Words() }

// Length returns the number of items, counting operations that are not durable.
func (w *Writer) Length() uint64 { return w.length }

// LSN returns the LSN of the last record.
func (w *Writer) LSN() uint64 {
	if w.lw == nil {
		return w.sb.CheckpointLSN()
	}
	return w.lw.LSN()
}

// Durable returns the last durable user sequence, the number of durable operations
// after it, and the LSN up to which the log is durable.
func (w *Writer) Durable() (userSeq, operations, lsn uint64) {
	return w.durable.userSeq.Load(), w.durable.operation.Load(), w.durable.lsn.Load()
}

// Err returns ErrFailed with its cause once a write has failed (W8), or nil.
func (w *Writer) Err() error {
	if e := w.failed.Load(); e != nil {
		return fmt.Errorf("%w: %w", ErrFailed, *e)
	}
	return nil
}

// Failed reports whether Err returns an error.
func (w *Writer) Failed() bool { return w.failed.Load() != nil }

// Fail poisons the writer (W8): after an error the cache may differ from the disk, and no
// retry can tell. It returns ErrFailed with the first error that the writer failed on.
func (w *Writer) Fail(err error) error {
	w.failed.CompareAndSwap(nil, &err)
	return w.Err()
}

// syncFilter makes the filter file durable or poisons the writer. The system may report an
// error to only one of several concurrent syncs of a file. So calls run one at a time, and
// the next one sees that the writer has failed.
func (w *Writer) syncFilter(what string) error {
	w.syncing.Lock()
	defer w.syncing.Unlock()
	if err := w.Err(); err != nil {
		return err
	}
	return w.sync(what, w.filter)
}

// sync makes a file durable or poisons the writer.
func (w *Writer) sync(what string, f File) error {
	if err := f.Sync(); err != nil {
		return w.Fail(fmt.Errorf("sync %s: %w", what, err))
	}
	return nil
}

// Live reports whether the file has a log.
func (w *Writer) Live() bool { return w.log != nil }

// LogBytes returns the size of the log and how much of it is in use, or 0 if there is
// no log.
func (w *Writer) LogBytes() (size, used int64) {
	if w.log == nil {
		return 0, 0
	}
	return int64(len(w.log.Words())) * 8, int64(w.lw.End()) * 8
}

// Cramped returns the error that kept the last attempted change of the log's size from
// succeeding, or nil if it succeeded.
func (w *Writer) Cramped() error { return w.cramped }

// Begin makes the file ready for the first operation (W7): it makes a durable log of
// logBytes bytes, then stores a durable superblock that says live.
func (w *Writer) Begin(logBytes int64) error {
	if err := w.Err(); err != nil {
		return err
	}
	// CreateLog may remove the log of a dead writer, so the superblock that does not
	// need that log must be durable first.
	if err := w.settle(); err != nil {
		return err
	}
	next := w.next(layout.Live)
	if w.sb.State() == layout.Sealed {
		// The trailer and every copy of the file describe the old content.
		next.SetUUID(wal.NextUUID(w.sb.UUID(), next.LogSalt()))
	}
	return w.switchLog(&next, logBytes)
}

// next returns the superblock that follows the newest one.
func (w *Writer) next(state layout.State) layout.Superblock {
	sb := w.sb
	sb.SetGeneration(sb.Generation() + 1)
	sb.SetState(state)
	sb.SetCheckpointLSN(w.LSN())
	sb.SetLength(w.length)
	sb.SetUserSeq(w.userSeq)
	sb.SetOperation(w.operation)
	sb.SetLogSalt(0)
	sb.SetLogBytes(0)
	if state == layout.Live {
		sb.SetLogSalt(w.vol.Random())
	}
	return sb
}

// switchLog starts the generation of a live superblock, in the existing log or, if
// logBytes is not its size, in a new one. The header of the log is durable before the
// superblock that has its salt, and the log of the old superblock stays intact until the
// new superblock is durable (W5).
func (w *Writer) switchLog(next *layout.Superblock, logBytes int64) error {
	if err := w.vol.Named(); err != nil {
		return w.Fail(err) // W9: the logs under that name belong to another file
	}
	log, created := w.log, false
	if size, _ := w.LogBytes(); size != logBytes {
		larger, err := w.vol.CreateLog(logBytes)
		switch {
		case err == nil:
			log, created, w.cramped = larger, true, nil
		case log != nil && errors.Is(err, ErrNoRoom):
			logBytes, w.cramped = size, err // nothing has changed: keep the existing log
		default:
			return w.Fail(fmt.Errorf("create the log: %w", err))
		}
	}
	next.SetLogBytes(logBytes)
	wal.PutHeader(log.Store, wal.Header{
		UUID: next.UUID(), Generation: next.Generation(), Salt: next.LogSalt(), Bytes: logBytes,
	})
	err := w.sync("the log", log)
	if err == nil {
		err = w.putSuperblock(next)
	}
	if err != nil {
		if created {
			log.Close()
		}
		return err
	}
	if created && w.log != nil {
		w.log.Close()
	}
	w.log = log
	w.lw = wal.NewWriter(log.Words(), storeRun(log), next.Generation(), next.LogSalt(), next.CheckpointLSN())
	w.durable.lsn.Store(w.lw.LSN())
	if created {
		if err := w.vol.KeepLog(); err != nil {
			return w.Fail(fmt.Errorf("rename the log: %w", err))
		}
	}
	return nil
}

// putSuperblock makes a superblock durable in the slot whose loss matters least. The
// newest one stays intact until then.
func (w *Writer) putSuperblock(sb *layout.Superblock) error {
	slot := w.spareSlot()
	if err := w.scrub(slotSet(1) << slot); err != nil {
		return err
	}
	sb.Sign()
	w.storeSuperblock(slot, sb)
	if err := w.syncFilter("the superblock"); err != nil {
		return err
	}
	w.slot, w.sb = slot, *sb
	w.known |= 1 << slot
	return nil
}

// copySuperblock makes copies of the newest superblock durable in other slots.
func (w *Writer) copySuperblock(slots slotSet) error {
	if err := w.scrub(slots); err != nil {
		return err
	}
	for slot := range layout.SuperblockSlots {
		if slots.has(slot) {
			w.storeSuperblock(slot, &w.sb)
		}
	}
	if err := w.syncFilter("the superblock"); err != nil {
		return err
	}
	w.known |= slots
	return nil
}

// settle makes the newest superblock durable unless this process already has: it may be
// only in the cache, left by a writer that died before its sync or whose sync failed.
// Until it is durable, no other slot may be written and no log removed.
//
// It is stored again in its own slot. Another slot, even one that holds the same or an
// older superblock, may be the only durable one; the cache cannot tell.
func (w *Writer) settle() error {
	if w.known.has(w.slot) {
		return nil
	}
	w.storeSuperblock(w.slot, &w.sb)
	if err := w.syncFilter("the superblock"); err != nil {
		return err
	}
	w.known |= 1 << w.slot
	return nil
}

// scrub durably removes the checksums of the given slots, except those whose state on the
// disk is known. Whatever the cache shows, the disk may have a half-written superblock
// there, left by a crash or by a failed sync. Storing another over it could complete it,
// where the two agree. Without its checksum, nothing can.
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
	return w.syncFilter("the superblock")
}

// A slotSet is a set of superblock slots.
type slotSet uint8

const allSlots slotSet = 1<<layout.SuperblockSlots - 1

func (s slotSet) has(slot int) bool { return s>>slot&1 != 0 }

const superblockWords = layout.SuperblockBytes / 8

// unsign removes the checksum of a slot, which is in its last word.
func (w *Writer) unsign(slot int) { w.filter.Store(uint64((slot+1)*superblockWords-1), 0) }

// storeSuperblock stores a superblock. Unless the slot is that of the newest superblock,
// it removes the checksum first, so that a killed writer leaves none on a half-stored one.
func (w *Writer) storeSuperblock(slot int, sb *layout.Superblock) {
	if slot != w.slot {
		w.unsign(slot)
	}
	for i := range superblockWords {
		w.filter.Store(uint64(slot*superblockWords+i), sb.Word(i))
	}
}

// spareSlot returns the slot with the lowest generation, other than the slot of the newest
// superblock. A damaged slot counts as generation 0.
func (w *Writer) spareSlot() int {
	best, lowest := -1, uint64(0)
	for i := range layout.SuperblockSlots {
		if i == w.slot {
			continue
		}
		if g := layout.SlotGeneration(w.head(), i); best < 0 || g < lowest {
			best, lowest = i, g
		}
	}
	return best
}

// head returns the superblock slots of the file.
func (w *Writer) head() []byte { return Bytes(w.filter.Words()[:layout.OffRuntime/8]) }

// Room reports whether the log has room for an operation of up to n stores.
func (w *Writer) Room(n int) bool { return w.log != nil && w.lw.Room() >= uint64(n) }

// SegmentBytes returns the size of the records of the open segment.
func (w *Writer) SegmentBytes() int64 {
	if w.lw == nil {
		return 0
	}
	return int64(w.lw.End()-w.lw.Start()) * 8
}

// Append appends an operation to the log, which must have room for it. It takes at
// least one store, ordered so that no item is missing after any of them, and the change
// in the number of items, from -1 to 1. It stores only to the log (W1). Once it returns,
// the operation survives the death of the process (C2).
func (w *Writer) Append(stores []wal.Store, grow int) {
	for len(stores) > 0 {
		if stores = w.record.Gather(stores); len(stores) == 0 {
			w.record.Last, w.record.Grow, w.record.Operation = true, grow, uint32(w.operation+1)
		}
		w.lw.Append(&w.record)
	}
	w.operation++ // not earlier: after a fault in the log there is no operation to count
	w.length += uint64(int64(grow))
}

// Skip counts an operation that changes nothing: an insert that finds no room or whose
// key may already be there, or a delete of a key that is not in the filter.
func (w *Writer) Skip() { w.operation++ }

// A Segment is a segment of the log: the operations of one commit.
type Segment struct {
	log    []uint64
	start  uint64 // word of the first record
	commit wal.Commit
}

// EndSegment ends the open segment with its commit record. Later operations belong to the
// next one. If setSeq, the user sequence becomes seq, and operations are counted from
// it.
func (w *Writer) EndSegment(setSeq bool, seq uint64) Segment {
	if setSeq {
		w.userSeq, w.operation = seq, 0
	}
	b := Segment{log: w.log.Words(), start: w.lw.Start()}
	b.commit = w.lw.Commit(wal.Commit{
		UserSeq: w.userSeq, Operation: w.operation, Length: w.length, Durable: w.durable.lsn.Load(),
	})
	return b
}

// Harden makes a segment durable and then stores it to the mapping (W3). Segments are
// hardened one at a time, in order.
func (w *Writer) Harden(b Segment) error {
	if err := w.Err(); err != nil {
		return err
	}
	if err := w.vol.Named(); err != nil {
		return w.Fail(err) // W9
	}
	if err := w.sync("the log", w.log); err != nil {
		return err
	}
	w.promise(b.commit.LSN)
	w.apply(b)
	w.durable.lsn.Store(b.commit.LSN)
	w.durable.userSeq.Store(b.commit.UserSeq)
	w.durable.operation.Store(b.commit.Operation)
	w.commits.Add(1)
	return nil
}

// promise records that the log is durable up to lsn, to tell damage from a torn tail. The
// promise is in the filter file: in the log, every commit would write a page for it, and an
// older copy of the log would bring its own.
func (w *Writer) promise(lsn uint64) {
	w.turn++
	layout.PutPromise(w.storeRuntime, w.turn, w.sb.LogSalt(), lsn)
}

func (w *Writer) storeRuntime(word, value uint64) { w.filter.Store(layout.WordRuntime+word, value) }

// applyAhead is how many records ahead words are prefetched. It exceeds the number of cache
// misses that a core keeps in flight, so that the core never waits for one alone.
const applyAhead = 32

// apply stores the records of a durable segment to the mapping, in order. The removal
// counter of a guarded word is odd from before the word is stored until after the last
// store of its operation (W4). Making it odd for each word alone is not enough: when a
// bucket spans two words, one new and one old word together may hold less than either
// bucket, and a lookup between the two stores must find an odd counter.
func (w *Writer) apply(b Segment) {
	odd := w.odd[:0] // words of the counters that are odd now
	at, asked, next := b.start, uint64(0), b.start
	for i := range b.commit.Records {
		for ; asked < min(i+applyAhead, b.commit.Records); asked++ {
			w.filter.Prefetch(wal.RecordWord(b.log, next))
			next = wal.NextRecord(b.log, next)
		}
		var r wal.Record
		r, at = wal.ReadRecord(b.log, at)
		if r.Guarded {
			if counter := layout.WordRuntime + r.Counter(); !slices.Contains(odd, counter) {
				w.step(counter)
				odd = append(odd, counter)
			}
		}
		r.Each(w.put)
		if r.Last {
			for _, counter := range odd {
				w.step(counter)
			}
			odd = odd[:0]
		}
	}
	w.odd = odd
}

// step increments a removal counter.
func (w *Writer) step(counter uint64) {
	w.filter.Store(counter, w.filter.Words()[counter]+1)
}

// put is the only function that stores to the stash and the region (W9).
func (w *Writer) put(word, value uint64) { w.filter.Store(word, value) }

// Checkpoint makes the mapping durable and starts the log anew with logBytes bytes
// (W5). Every segment must have been hardened, and none may be open.
func (w *Writer) Checkpoint(logBytes int64) error {
	if err := w.Err(); err != nil {
		return err
	}
	if err := w.SyncRegion(); err != nil {
		return err
	}
	next := w.next(layout.Live)
	if err := w.switchLog(&next, logBytes); err != nil {
		return err
	}
	w.checkpoints.Add(1)
	return nil
}

// SyncRegion makes durable what has been stored to the mapping. Calling it before a
// checkpoint leaves less for the checkpoint to write.
func (w *Writer) SyncRegion() error {
	return w.syncFilter("the region")
}

// Clean makes the file complete without its log (W7). Every segment must have been
// hardened, and none may be open.
func (w *Writer) Clean() error {
	if err := w.Err(); err != nil {
		return err
	}
	if w.log == nil {
		return nil
	}
	if err := w.SyncRegion(); err != nil {
		return err
	}
	next := w.next(layout.Clean)
	return w.rest(&next)
}

// rest puts a file whose mapping is durable to rest. It stores the superblock in one slot
// and, once that is durable, in all of them, so that the file can be read if one is
// damaged. Then it removes the log.
func (w *Writer) rest(sb *layout.Superblock) error {
	if err := w.vol.Named(); err != nil {
		return w.Fail(err) // W9: the logs under that name belong to another file
	}
	if err := w.putSuperblock(sb); err != nil {
		return err
	}
	if err := w.copySuperblock(allSlots &^ (1 << w.slot)); err != nil {
		return err
	}
	if w.log != nil {
		w.log.Close()
		w.log, w.lw = nil, nil
	}
	if err := w.vol.RemoveLogs(); err != nil {
		return w.Fail(fmt.Errorf("remove the log: %w", err))
	}
	return nil
}

// Seal is Clean with a checksum for every chunk. fill computes the checksums and the
// trailer for a superblock and stores them, as words of the file, through store.
func (w *Writer) Seal(fill func(sb *layout.Superblock, store func(word, value uint64)) error) error {
	if err := w.Err(); err != nil {
		return err
	}
	if err := w.settle(); err != nil {
		return err
	}
	next := w.next(layout.Sealed)
	next.Sign()
	// The checksums cover the cache. An earlier writer's failed sync may have left some of
	// it only there, so store again everything that is not in the log.
	for i := range uint64(layout.RuntimeWords) {
		w.storeRuntime(i, w.filter.Words()[layout.WordRuntime+i])
	}
	if err := fill(&next, w.filter.Store); err != nil {
		return err
	}
	if err := w.SyncRegion(); err != nil {
		return err
	}
	return w.rest(&next)
}

// Counts returns the number of commits and checkpoints.
func (w *Writer) Counts() (commits, checkpoints uint64) {
	return w.commits.Load(), w.checkpoints.Load()
}

// Close closes the files and releases the lock. It writes nothing: the next open recovers
// a live file.
func (w *Writer) Close() error {
	if w.log != nil {
		w.log.Close()
		w.log = nil
	}
	return w.vol.Close()
}
