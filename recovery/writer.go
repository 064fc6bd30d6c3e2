package recovery

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/wal"
)

// A Writer owns the order of the writes to one filter. The package essay has the rules
// and a diagram.
//
// Calls must come from one goroutine at a time, with one exception: one call each of
// Harden, EndCheckpoint and GrowLog may run beside each other and beside all other methods
// except Clean, Seal and Detach. But EndCheckpoint must not run beside BeginCheckpoint.
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
	history                    layout.Kept

	lastTime uint64 // of the last commit, in nanoseconds since 1970

	// What the next superblock says about items that expire, in nanoseconds.
	expireAfter, expiredBefore atomic.Uint64

	durable atomic.Pointer[durable] // Harden stores the next one
	turn    int                     // counts promises
	odd     []uint64                // scratch for apply
	failed  atomic.Pointer[error]

	underWay atomic.Pointer[checkpoint]
	progress atomic.Uint64 // words of the file, see Progress
	stuck    atomic.Pointer[error]
	growth   growth
	kept     keeper

	syncing    sync.Mutex // serialises syncs of the filter file
	syncingLog sync.Mutex // serialises syncs of a log

	commits, checkpoints atomic.Uint64
}

// A slotSet is a set of superblock slots.
type slotSet uint8

const allSlots slotSet = 1<<layout.SuperblockSlots - 1

func (s slotSet) has(slot int) bool { return s>>slot&1 != 0 }

// A checkpoint has begun and not ended: operations go to the log of the next generation, and
// the newest superblock still names the generation before.
type checkpoint struct {
	next layout.Superblock // names the next generation, once the region is durable
	log  File              // of the next generation
	old  File              // the log that was replaced by a larger one, or nil

	ended            File // the log of the generation that ended
	generation, salt uint64
}

// A growth is a larger log that the next checkpoint moves to.
type growth struct {
	sync.Mutex
	live    bool // whether there is a log that may be replaced
	held    bool // see HoldGrowth
	larger  File // durable, and under the name NextLog; or nil
	cramped atomic.Pointer[error]
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

// Durable returns the last durable user sequence, the number of durable operations after it (see
// layout.Kept.Counted), and the LSN up to which the log is durable.
func (w *Writer) Durable() (userSeq, operations, lsn uint64) {
	d := w.durable.Load()
	return d.userSeq, d.history.Counted(d.operation), d.lsn
}

// Position returns the descent of the history, and the last durable position in it; or zeros if the
// file has no history. It may be called at any time.
func (w *Writer) Position() (descent uint64, at layout.Position) {
	sb, d := w.shown.Load(), w.durable.Load()
	if d.history.Set == layout.Departed && !sb.KeepsHashes() {
		return 0, at
	}
	return sb.Descent(), d.history.At
}

// Source is Position for the history that the file follows. ok is false unless the file is a replica
// with hashes that has not departed. It may be called at any time.
func (w *Writer) Source() (descent uint64, at layout.Position, ok bool) {
	sb, d := w.shown.Load(), w.durable.Load()
	if !sb.Follows() || d.history.Set == layout.Departed {
		return 0, at, false
	}
	return sb.Source(), d.history.Followed, true
}

// Err returns ErrFailed with its cause once a write has failed (W8), or nil.
func (w *Writer) Err() error {
	if e := w.failed.Load(); e != nil {
		return fmt.Errorf("%w: %w", ErrFailed, *e)
	}
	return nil
}

// Cause returns the first error that the writer failed on, or nil.
func (w *Writer) Cause() error {
	if e := w.failed.Load(); e != nil {
		return *e
	}
	return nil
}

// Failed reports whether Err returns an error.
func (w *Writer) Failed() bool { return w.failed.Load() != nil }

// Fail ends the writer (W8): after an error the cache may differ from the disk, and a retry
// cannot find out whether it does. Fail returns ErrFailed with the first error that the
// writer failed on.
func (w *Writer) Fail(err error) error {
	w.failed.CompareAndSwap(nil, &err)
	return w.Err()
}

// whole ends the writer if somebody has cut its file short. A sync does not notice this, and a store
// notices it only in the part that is missing.
func (w *Writer) whole() error {
	if err := w.vol.Whole(); err != nil {
		return w.Fail(err)
	}
	return nil
}

// Catch runs f, which uses the mapped files of w and of no other writer. A fault in these files, or a
// panic, ends w, even if f is called for another writer.
func (w *Writer) Catch(f func() error) (err error) {
	failed := func(cause error) { w.Fail(cause) }
	if w.vol.Catch(func() { err = f() }, failed) != nil {
		return w.Err()
	}
	return err
}

// syncRegion makes everything that has been stored to the mapping durable.
func (w *Writer) syncRegion() error { return w.syncFilter("the region", w.filter.Sync, w.sb) }

// syncFilter calls sync for the filter file, or for a part of it. If sync fails, the writer ends. The
// system may report an error to only one of several concurrent syncs of a file. So calls run one at a
// time, and the next call sees that the writer has failed.
//
// After a failed sync, pages may leave the cache and come back with what the disk has, even pages that
// sync was not for. Readers may then find an earlier state of some lines. So the epoch becomes odd until
// the recovery. But if the newest superblock on the disk may not be live, an odd epoch would stay odd.
// All lines are durable then, and the epoch is stored again as it was. next is the newest superblock of
// the disk if sync succeeds.
func (w *Writer) syncFilter(what string, sync func() error, next *layout.Superblock) error {
	w.syncing.Lock()
	defer w.syncing.Unlock()
	if err := w.Err(); err != nil {
		return err
	}
	epoch := atomic.LoadUint64(&w.filter.Words()[layout.WordRuntime+layout.RuntimeEpoch])
	err := sync()
	if err == nil {
		return nil
	}
	err = w.Fail(fmt.Errorf("sync %s: %w", what, err)) // first, since the store may be a fault
	if w.known.has(w.slot) && w.sb.State() == layout.Live && next.State() == layout.Live {
		epoch |= 1
	}
	w.storeRuntime(layout.RuntimeEpoch, epoch)
	return err
}

// syncLog makes a log durable or ends the writer. Calls run one at a time, like the calls of
// syncFilter.
func (w *Writer) syncLog(log File) error {
	w.syncingLog.Lock()
	defer w.syncingLog.Unlock()
	if err := w.Err(); err != nil {
		return err
	}
	return w.sync("the log", log)
}

// sync makes a file durable or ends the writer.
func (w *Writer) sync(what string, f File) error {
	if err := f.Sync(); err != nil {
		return w.Fail(fmt.Errorf("sync %s: %w", what, err))
	}
	return nil
}

// syncNames makes all changes of names in the directory durable.
func (w *Writer) syncNames() error {
	if err := w.vol.SyncNames(); err != nil {
		return w.Fail(fmt.Errorf("sync the directory: %w", err))
	}
	return nil
}

// Live reports whether the file has a log.
func (w *Writer) Live() bool { return w.log != nil }

// LogBytes returns the size of the log and the offset of the end of its last record, in
// bytes. Both are 0 if there is no log.
func (w *Writer) LogBytes() (size, used int64) {
	if w.log == nil {
		return 0, 0
	}
	return int64(len(w.log.Words())) * 8, int64(w.lw.End()) * 8
}

// LogUse returns the size of the half of the log that operations go to, and how much of this
// half is in use, in bytes. Both are 0 if there is no log.
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

// MarkStores is how many stores Room must count for a Mark.
const MarkStores = wal.MarkStores

// HashStores is how many further stores Room must count for an operation whose hash is kept.
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

// Append appends an operation to the log, which must have room for it. The stores must come in an order
// in which no item is missing after any of them. grow is the change in the number of items, from -1 to
// 1; op and hash are what the operation means in the history. There may be no stores if the file keeps
// its hashes. Append stores only to the log (W1). Once it returns, the operation survives the death of
// the process (C2).
func (w *Writer) Append(stores []wal.Store, grow int, op layout.Op, hash uint64) {
	w.append(stores, grow, op, hash, w.operation+1)
}

// AppendUncounted is Append for an operation that Operations does not count, since no caller has asked
// for it. (From the count, a caller knows which of its own operations are done.)
func (w *Writer) AppendUncounted(stores []wal.Store, grow int, op layout.Op, hash uint64) {
	w.append(stores, grow, op, hash, w.operation)
}

func (w *Writer) append(stores []wal.Store, grow int, op layout.Op, hash, operation uint64) {
	for last := false; !last; w.lw.Append(&w.record) {
		stores = w.record.Gather(stores)
		if last = len(stores) == 0; last {
			w.record.Last, w.record.Grow, w.record.Operation = true, grow, uint32(operation)
			if w.kept.on {
				w.record.Op, w.record.Hash = op, hash
			}
		}
	}
	w.operation = operation // not earlier: after a fault in the log there is no operation to count
	w.length += uint64(int64(grow))
	w.history.Add(w.record.Op, grow, hash)
}

// Skip counts an operation that changes nothing: an insert that finds no room or whose
// key may already be there, or a delete of a key that is not in the filter.
func (w *Writer) Skip() { w.operation++ }

// Operations returns how many operations have been counted since the user sequence was set.
func (w *Writer) Operations() uint64 { return w.operation }

// now returns the time for a commit. It is never earlier than the time of the commit before, even if
// the clock was set back, so times are in the order of the operations. It is never 0, since 0 stands
// for no time.
func (w *Writer) now() uint64 {
	w.lastTime = max(w.vol.Now(), w.lastTime, 1)
	return w.lastTime
}

// Mark changes what a replica, with or without hashes, says about the history that it follows, from the
// commit of the open segment on (K9). In a replica with hashes, it appends a mark record. If m says
// that the replica departs, the user sequence stays. The log must have room for MarkStores. The next
// call must be EndSegment.
func (w *Writer) Mark(m layout.Mark) {
	w.history.Set = m.Set
	if w.Superblock().Follows() {
		w.history.Followed = m.At
		w.lw.Append(wal.NewMark(m.At, m.Set, uint32(w.operation)))
	} else {
		w.history.At = m.At
	}
	if m.Set != layout.Departed {
		w.userSeq, w.operation = m.UserSeq, m.Operations
	}
}

// A durable is the point up to which the log is known to be durable. The mapping has everything
// up to this point.
type durable struct {
	lsn, userSeq, operation uint64
	history                 layout.Kept // zero if the file has no history
}

// A Segment is a segment of the log: the operations of one commit.
type Segment struct {
	log     File
	salt    uint64
	start   uint64 // word of the first record
	commit  wal.Commit
	history layout.Kept
}

// EndSegment ends the open segment with its commit record. Later operations belong to the
// next segment. If setSeq is true, the user sequence becomes seq, and operations are counted
// from there.
func (w *Writer) EndSegment(setSeq bool, seq uint64) Segment {
	if setSeq {
		w.userSeq, w.operation = seq, 0
	}
	seg := Segment{log: w.log, start: w.lw.Start(), history: w.history}
	_, seg.salt = w.lw.Generation()
	c := wal.Commit{UserSeq: w.userSeq, Operation: w.operation, Length: w.length, Durable: w.durable.Load().lsn}
	if c.History = w.Superblock().HasHistory(); c.History {
		c.At = w.history.At
	}
	switch {
	case w.kept.on:
		c.Mark = w.now()
	case c.History:
		c.Mark = w.history.Set
	}
	seg.commit = w.lw.Commit(c)
	return seg
}

// Harden makes a segment durable and then stores it to the mapping (W3). Segments are
// hardened one at a time, in order.
func (w *Writer) Harden(seg Segment) error {
	if err := w.Err(); err != nil {
		return err
	}
	if err := w.vol.Named(); err != nil {
		return w.Fail(err) // W9
	}
	if err := w.syncLog(seg.log); err != nil {
		return err
	}
	w.promise(seg.salt, seg.commit.LSN)
	w.apply(seg)
	w.durable.Store(&durable{seg.commit.LSN, seg.commit.UserSeq, seg.commit.Operation, seg.history})
	w.commits.Add(1)
	return nil
}

// promise records that the log is durable up to lsn, so that a recovery can tell damage from
// a log that a power loss has cut short. The promise is in the filter file. If it were in the
// log, every commit would write one more page, and an older copy of the log would have an
// older promise.
func (w *Writer) promise(salt, lsn uint64) {
	w.turn++
	layout.PutPromise(w.storeRuntime, w.turn, salt, lsn)
}

func (w *Writer) storeRuntime(word, value uint64) { w.filter.Store(layout.WordRuntime+word, value) }

// applyAhead is by how many records the prefetch of words precedes their stores. It exceeds the
// number of cache misses that a core keeps in flight, so that the core never waits for a single miss.
const applyAhead = 32

// applyAtOnce is how many records apply stores, in about 2 ms, before it lets other goroutines run. With
// more goroutines than processors, an operation would otherwise wait for the end of a large segment, or
// for the 10 ms that Go gives to each goroutine. Most segments have fewer records, and so do the
// segments that operations wait for; apply stores these without letting others run.
const applyAtOnce = 1 << 14

// apply stores the records of a durable segment to the mapping, in order. The removal
// counter of a guarded word is odd from before the word is stored until after the last
// store of its operation (W4). Making it odd only while each word is stored is not enough: if a
// bucket spans two words, one new and one old word together may lack a fingerprint that
// the bucket has before and after, and a lookup between the two stores must find an odd
// counter.
func (w *Writer) apply(seg Segment) {
	odd := w.odd[:0] // words of the counters that are odd now
	log := seg.log.Words()
	at, asked, next := seg.start, uint64(0), seg.start
	until := uint64(applyAtOnce)
	for i := range seg.commit.Records {
		for ; asked < min(i+applyAhead, seg.commit.Records); asked++ {
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
			if i >= until { // no counter is odd, so no lookup waits
				until += applyAtOnce
				runtime.Gosched()
			}
		}
	}
	w.odd = odd
}

// step increments a removal counter.
func (w *Writer) step(counter uint64) {
	w.filter.Store(counter, w.filter.Words()[counter]+1)
}

// put is the only function that stores to the stash and the region (W9). apply and replay store what
// durable records say (W3, W6). DiscardLog has no records: it repairs a file whose log is lost.
func (w *Writer) put(word, value uint64) { w.filter.Store(word, value) }

// Counts returns the number of commits and checkpoints.
func (w *Writer) Counts() (commits, checkpoints uint64) {
	return w.commits.Load(), w.checkpoints.Load()
}

// Hashes returns NAME.hashes and the part of it that counts, which stays as it is when the
// file is appended to. An error is ErrHashes. No checkpoint may end during the call.
func (w *Writer) Hashes() (Kept, error) {
	if err := w.kept.err(); err != nil {
		return Kept{}, err
	}
	k := Kept{File: w.kept.file, Header: w.kept.header, LastNumber: w.kept.next, To: w.kept.tail.Position(), AgesFrom: w.Superblock().AgesFrom()}
	k.Counted, k.Last = w.kept.tail.End(k.LastNumber)
	return k, nil
}

// History returns what the next commit will say about the history.
func (w *Writer) History() layout.Kept { return w.history }

// Follows reports whether the file is a replica, with or without hashes, that has had
// no operation of its own.
func (w *Writer) Follows() bool {
	sb := w.Superblock()
	return (sb.IsReplica() || sb.Follows()) && w.history.Set != layout.Departed
}

// Followed returns the descent of the history that a replica, with or without hashes, follows, and the
// position in it after all operations appended so far.
func (w *Writer) Followed() (descent uint64, at layout.Position) {
	if sb := w.Superblock(); sb.Follows() {
		return sb.Source(), w.history.Followed
	}
	return w.Superblock().Descent(), w.history.At
}

// Departure returns the position of the layout.Mark by which a replica departs: see
// layout.Departed.
func (w *Writer) Departure() (at layout.Position) {
	switch {
	case !w.Superblock().Follows():
		return w.history.At
	case w.LSN() > 0: // it may have had changes
		at.Number = w.now()
	}
	return at
}

// KeepsHashes reports whether operations go to the history.
func (w *Writer) KeepsHashes() bool { return w.kept.on }

// Tail returns how many operations the history has since the base of NAME.hashes, in its tail or in the
// log.
func (w *Writer) Tail() uint64 {
	if w.kept.lost.Load() != nil || !w.kept.on {
		return 0
	}
	return w.history.At.Number - w.kept.header.At.Number
}

// HashesErr returns why Hashes would fail, or nil. It may be called at any time.
func (w *Writer) HashesErr() error { return w.kept.err() }

// SetExpireAfter makes the next superblock record the time after which items expire. No operation may
// go on meanwhile. The file must have its hashes.
func (w *Writer) SetExpireAfter(v uint64) {
	w.expireAfter.Store(v)
	w.kept.must = w.kept.must || v != 0
}

// SetExpiredBefore makes the next superblock record a time: all items from before it have
// been deleted.
func (w *Writer) SetExpiredBefore(v uint64) { w.expiredBefore.Store(v) }

// ExpiredBefore returns the time of the last SetExpiredBefore, or else the time in the
// superblock.
func (w *Writer) ExpiredBefore() uint64 { return w.expiredBefore.Load() }
