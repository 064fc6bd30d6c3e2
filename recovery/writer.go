package recovery

import (
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
// Calls must come from one goroutine at a time, with one exception: one Harden, one
// EndCheckpoint and one GrowLog at a time may run beside each other and beside all other
// methods but Clean, Seal and Close. BeginCheckpoint excludes EndCheckpoint too.
type Writer struct {
	vol      Volume
	filter   File
	geometry layout.Geometry

	slot  int                               // slot of the newest superblock
	sb    *layout.Superblock                // the newest superblock, which stays as it is
	shown atomic.Pointer[layout.Superblock] // sb
	known slotSet                           // slots known to be the same on the disk as in the cache

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
	turn   int      // counts promises
	odd    []uint64 // scratch for apply
	failed atomic.Pointer[error]

	pending  atomic.Pointer[checkpoint]
	progress atomic.Uint64 // words of the file, see Progress
	growth   growth
	kept     keeper

	syncing    sync.Mutex // serialises syncs of the filter file
	syncingLog sync.Mutex // and those of the log

	commits, checkpoints atomic.Uint64
}

// NewWriter takes over a volume. If its last writer died, NewWriter recovers the file first.
func NewWriter(vol Volume) (*Writer, *Recovery, error) {
	w := &Writer{vol: vol, filter: vol.Filter()}
	r, err := w.open()
	if err != nil {
		return nil, nil, err
	}
	w.shown.Store(w.sb)
	w.length, w.userSeq, w.operation = w.sb.Length(), w.sb.UserSeq(), w.sb.Operation()
	w.durable.lsn.Store(w.sb.CheckpointLSN())
	w.durable.userSeq.Store(w.userSeq)
	w.durable.operation.Store(w.operation)
	return w, r, nil
}

// Superblock returns the newest superblock. It must not be changed.
func (w *Writer) Superblock() *layout.Superblock { return w.shown.Load() }

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

// syncFilterRange is syncFilter for some words of the file.
func (w *Writer) syncFilterRange(what string, from, words uint64) error {
	w.syncing.Lock()
	defer w.syncing.Unlock()
	if err := w.Err(); err != nil {
		return err
	}
	if err := syncRange(w.filter, from, words); err != nil {
		return w.Fail(fmt.Errorf("sync %s: %w", what, err))
	}
	return nil
}

// syncLog makes a log durable or poisons the writer. Calls run one at a time, as those of
// syncFilter do.
func (w *Writer) syncLog(log File) error {
	w.syncingLog.Lock()
	defer w.syncingLog.Unlock()
	if err := w.Err(); err != nil {
		return err
	}
	return w.sync("the log", log)
}

// sync makes a file durable or poisons the writer.
func (w *Writer) sync(what string, f File) error {
	if err := f.Sync(); err != nil {
		return w.Fail(fmt.Errorf("sync %s: %w", what, err))
	}
	return nil
}

// SyncNames makes all changes of names in the directory durable.
func (w *Writer) SyncNames() error {
	if err := w.vol.SyncNames(); err != nil {
		return w.Fail(fmt.Errorf("sync the directory: %w", err))
	}
	return nil
}

// Live reports whether the file has a log.
func (w *Writer) Live() bool { return w.log != nil }

// LogBytes returns the size of the log, or 0 if there is none, and how far it is in use, in
// bytes from its beginning.
func (w *Writer) LogBytes() (size, used int64) {
	if w.log == nil {
		return 0, 0
	}
	return int64(len(w.log.Words())) * 8, int64(w.lw.End()) * 8
}

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
	return w.startLog(&next, logBytes)
}

// LogUse returns the size of the half of the log that operations go to, and how much of it
// is in use, or 0 if there is no log.
func (w *Writer) LogUse() (size, used int64) {
	if w.log == nil {
		return 0, 0
	}
	return w.lw.Use()
}

// LogGeneration returns the generation that operations go to, or 0 if there is no log.
func (w *Writer) LogGeneration() uint64 {
	if w.lw == nil {
		return 0
	}
	generation, _ := w.lw.Generation()
	return generation
}

// next returns the superblock that follows the newest one, and the log.
func (w *Writer) next(state layout.State) layout.Superblock {
	sb := *w.sb
	sb.SetGeneration(max(sb.Generation(), w.LogGeneration()) + 1) // the latter is one more while a checkpoint is pending
	sb.SetState(state)
	sb.SetCheckpointLSN(w.LSN())
	sb.SetLength(w.length)
	sb.SetUserSeq(w.userSeq)
	sb.SetOperation(w.operation)
	sb.SetLogSalt(0)
	sb.SetLogBytes(0)
	sb.SetHashes(w.kept.counted)
	if state == layout.Live {
		sb.SetLogSalt(w.vol.Random())
	}
	return sb
}

// startLog creates the log of a live superblock. The log and its header are durable before
// the superblock that has its salt.
func (w *Writer) startLog(next *layout.Superblock, logBytes int64) error {
	if err := w.vol.Named(); err != nil {
		return w.Fail(err) // W9: the logs under that name belong to another file
	}
	log, err := w.vol.CreateLog(logBytes)
	if err != nil {
		return w.Fail(fmt.Errorf("create the log: %w", err))
	}
	next.SetLogBytes(logBytes)
	wal.PutHeader(log.Store, wal.Header{
		UUID: next.UUID(), Generation: next.Generation(), Salt: next.LogSalt(), Bytes: logBytes,
	})
	if err = w.sync("the log", log); err == nil {
		err = w.putSuperblock(next)
	}
	if err != nil {
		log.Close()
		return err
	}
	w.log = log
	w.lw = wal.NewWriter(log.Words(), storeRun(log), next.Generation(), next.LogSalt(), next.CheckpointLSN())
	w.durable.lsn.Store(w.lw.LSN())
	if err := w.vol.KeepLog(); err != nil {
		return w.Fail(fmt.Errorf("rename the log: %w", err))
	}
	w.growth.Lock()
	w.growth.live = true
	w.growth.Unlock()
	return nil
}

// HashStores is how many stores more an operation counts for in Room if its hash is kept.
const HashStores = 1

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
// least one store, ordered so that no item is missing after any of them, the change in
// the number of items, from -1 to 1, and the hash of the item. It stores only to the log
// (W1). Once it returns, the operation survives the death of the process (C2).
func (w *Writer) Append(stores []wal.Store, grow int, hash uint64) {
	for len(stores) > 0 {
		if stores = w.record.Gather(stores); len(stores) == 0 {
			w.record.Last, w.record.Grow, w.record.Operation = true, grow, uint32(w.operation+1)
			if w.kept.on {
				w.record.HasHash, w.record.Hash = true, hash
			}
		}
		w.lw.Append(&w.record)
	}
	w.operation++ // not earlier: after a fault in the log there is no operation to count
	w.length += uint64(int64(grow))
}

// Skip counts an operation that changes nothing: an insert that finds no room or whose
// key may already be there, or a delete of a key that is not in the filter.
func (w *Writer) Skip() { w.operation++ }

// Operations returns how many operations have been counted since the user sequence was set.
func (w *Writer) Operations() uint64 { return w.operation }

// A Segment is a segment of the log: the operations of one commit.
type Segment struct {
	log    File
	salt   uint64
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
	b := Segment{log: w.log, start: w.lw.Start()}
	_, b.salt = w.lw.Generation()
	c := wal.Commit{UserSeq: w.userSeq, Operation: w.operation, Length: w.length, Durable: w.durable.lsn.Load()}
	if w.kept.on {
		c.Time = max(w.vol.Now(), 1) // 0 would be no time
	}
	b.commit = w.lw.Commit(c)
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
	if err := w.syncLog(b.log); err != nil {
		return err
	}
	w.promise(b.salt, b.commit.LSN)
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
func (w *Writer) promise(salt, lsn uint64) {
	w.turn++
	layout.PutPromise(w.storeRuntime, w.turn, salt, lsn)
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
	log := b.log.Words()
	at, asked, next := b.start, uint64(0), b.start
	for i := range b.commit.Records {
		for ; asked < min(i+applyAhead, b.commit.Records); asked++ {
			w.filter.Prefetch(wal.RecordWord(log, next))
			next = wal.NextRecord(log, next)
		}
		var r wal.Record
		r, at = wal.ReadRecord(log, at)
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

// SyncRegion makes durable what has been stored to the mapping.
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
	w.keepAll()
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
	w.growth.Lock()
	defer w.growth.Unlock()
	w.closeLogs()
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
	w.keepAll() // not earlier: after an error operations go on in this generation
	next.SetHashes(w.kept.counted)
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
func (w *Writer) Close() error { return w.Detach()() }

// Detach lets go of the files at once, and returns a function that closes them. That may take long,
// if they have no name any more, and needs no lock.
func (w *Writer) Detach() (closeFiles func() error) {
	logs := w.takeLogs()
	kept := w.kept.file
	w.kept.file = nil
	w.kept.lose(errClosed)
	return func() error {
		for _, log := range logs {
			closeLog(log)
		}
		if kept != nil {
			kept.Close()
		}
		return w.vol.Close()
	}
}

// closeLogs closes all logs. REQUIRES: w.growth, unless nobody else uses the writer.
func (w *Writer) closeLogs() {
	for _, log := range w.takeLogs() {
		closeLog(log)
	}
}

// takeLogs lets go of all logs, and returns them. REQUIRES: as closeLogs.
func (w *Writer) takeLogs() []File {
	logs := []File{w.log, w.growth.larger}
	if c := w.pending.Load(); c != nil {
		logs = append(logs, c.old)
	}
	w.log, w.lw = nil, nil
	w.growth.larger, w.growth.live = nil, false
	w.pending.Store(nil)
	return logs
}
