package mmapfilter

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/cpu"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/wal"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/pending"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/place"
	"github.com/mmapfilter/mmapfilter/recovery"
)

// A writer plans operations, keeps their changes in the pending table and the log, and
// commits them. The methods of a Filter that is open for writing call it; package
// recovery does what touches the file.
//
// Locks are taken in the order checkpoints, commit, mu. A commit holds commit and mu to
// end the segment, and then commit alone while it waits for the disk: operations continue
// meanwhile, in the next segment. A checkpoint holds only checkpoints while it writes
// most of the region, and all three for the rest.
type writer struct {
	log    *recovery.Writer
	table  layout.Table
	words  []uint64    // of the mapped file: durable state, read with atomic loads
	view   layout.View // of them
	maxLog int64       // bytes the log may grow to
	fixed  bool        // the log has them from the start
	most   int         // stores of one operation, see place.MaxStores
	limit  uint64      // keys, see keyLimit

	// What lookups of this process read, see at. overlay is nil when the
	// mapping has everything.
	overlay atomic.Pointer[pending.Overlay]
	newest  func(word uint64) uint64    // at
	stash   []uint64                    // the newest state of all of it
	runtime [layout.RuntimeWords]uint64 // removal counters of what is pending
	_       cpu.CacheLinePad
	under   layout.View // stash and runtime, with the lines of the mapping

	_      cpu.CacheLinePad
	length atomic.Uint64 // changes with every operation, as runtime does with many

	// behind, if not nil, is called to commit in the background once operations are
	// pending. If need is not 0, the log is nearly full: a checkpoint is due unless it
	// has room for that many stores by then.
	behind func(need int)

	// unsealing, if not nil, is called before a sealed file is written to.
	unsealing func()

	// released is set before another writer may change the file.
	released atomic.Bool

	// longestStall is how long a checkpoint kept operations waiting, in
	// nanoseconds.
	longestStall atomic.Int64

	checkpoints sync.Mutex // one at a time
	commit      sync.Mutex
	mu          struct {
		sync.Mutex
		closed   bool
		pending  int            // operations that are not durable
		spare    *pending.Words // for the next segment, if the overlay is nil
		op       operation
		odd      []uint64 // removal counters, see publish
		placer   *place.Placer
		ahead    [insertBlock]place.Outlook // of the inserts of a batch
		stashLen int                        // stash entries in use
		inStash  uint64                     // items that they count
		drains   int                        // tries to empty the stash
		waits    int                        // times that mu was released to make room
	}
}

// newWriter takes over a volume and recovers it if a writer has died. The log takes up
// to maxLog bytes; 0 means a size in proportion to the region.
func newWriter(vol recovery.Volume, maxLog int64) (*writer, *recovery.Recovery, error) {
	log, found, err := recovery.NewWriter(vol)
	if err != nil {
		return nil, nil, err
	}
	w := &writer{
		log:    log,
		table:  layout.NewTable(log.Geometry()),
		words:  log.Words(),
		view:   layout.NewView(log.Words()[layout.WordRuntime:], log.Geometry()),
		maxLog: maxLog,
		fixed:  maxLog != 0,
		stash:  make([]uint64, layout.StashWords),
	}
	w.most = place.MaxStores(w.table)
	if !w.fixed {
		w.maxLog = defaultLogBytes(log.Geometry().RegionBytes)
	}
	w.newest = w.at
	copy(w.stash, w.words[layout.WordStash:])
	w.under = layout.ViewOf(w.view.Region, w.stash, w.runtime[:])
	w.length.Store(log.Length())
	w.mu.op = operation{w: w}
	w.mu.spare = pending.New(0)
	w.mu.placer = place.New(w.table, &w.mu.op)
	w.mu.stashLen, w.mu.inStash = layout.StashUse(w.stash)
	w.limit = keyLimit(log.Superblock(), log.Geometry())
	return w, found, nil
}

// Bounds of a log that is not asked for otherwise. It begins small and grows when
// it is full. A checkpoint writes nearly every page of the filter, however few
// operations there were since the last; so the log may grow to a sixteenth of the
// region, and a filter of 10 GiB with one of 512 MiB is written once for 20
// million inserts. For a small filter it is the syncs that cost: 16 MiB is half a
// million inserts.
const (
	firstLogBytes = 256 << 10
	logGrowth     = 4
	logShare      = 16
	usualLog      = 16 << 20
	largestLog    = 512 << 20
)

func defaultLogBytes(regionBytes int64) int64 {
	bytes := min(max(regionBytes/logShare, usualLog), largestLog)
	return bytes / wal.PageBytes * wal.PageBytes
}

// at returns the newest value of a word of the file, for the lookups of this process.
// The words of the runtime page are counters for what is pending.
func (w *writer) at(word uint64) uint64 {
	switch {
	case word >= layout.WordRegion:
		if p := w.overlay.Load(); p != nil {
			if v, ok := p.Word(word - layout.WordRegion); ok {
				return v
			}
		}
		return atomic.LoadUint64(&w.words[word])
	case word >= layout.WordStash:
		return atomic.LoadUint64(&w.stash[word-layout.WordStash])
	}
	return atomic.LoadUint64(&w.runtime[word-layout.WordRuntime])
}

// blockWords is the number of words in a block: those that share a removal counter.
const blockWords = 8

// ready makes room for one operation. REQUIRES: w.mu, which is released and taken again
// if that takes a commit or a checkpoint.
func (w *writer) ready() error {
	for {
		if w.mu.closed {
			return ErrClosed
		}
		if err := w.log.Err(); err != nil {
			return err
		}
		if w.mu.op.begun() {
			return w.log.Fail(errCutOff)
		}
		if err := w.begin(); err != nil {
			return err
		}
		room := w.log.Room(w.most)
		if room && !w.segmentIsFull(1) {
			return nil
		}
		if err := w.makeRoom(room); err != nil {
			return err
		}
	}
}

// begin makes the file ready for the first store, unless it is. REQUIRES: w.mu.
func (w *writer) begin() error {
	if w.log.Live() {
		return nil
	}
	if w.log.Superblock().State() == layout.Sealed && w.unsealing != nil {
		w.unsealing() // R4
	}
	return w.log.Begin(w.firstLog())
}

// errCutOff is the cause of ErrFailed if a panic left an operation half done.
var errCutOff = errors.New("a panic interrupted an operation")

// makeRoom makes room in a segment that is full, or in the log. REQUIRES: w.mu, which it
// releases meanwhile.
func (w *writer) makeRoom(inLog bool) error {
	w.mu.waits++
	w.mu.Unlock()
	defer w.mu.Lock()
	if inLog {
		return w.sync(false, 0)
	}
	defer w.stalled(time.Now())
	return w.checkpointFor(w.most)
}

// segmentIsFull reports whether n more operations may be too many for the segment.
func (w *writer) segmentIsFull(n int) bool {
	p := w.overlay.Load()
	return p != nil && p.Active().Len() >= pending.MaxWords-n*w.most
}

func (w *writer) firstLog() int64 {
	if w.fixed {
		return w.maxLog
	}
	return min(firstLogBytes, w.maxLog)
}

// finish appends the planned operation to the log and publishes it to the lookups of
// this process. REQUIRES: w.mu.
func (w *writer) finish(grow int) {
	w.append(grow)
	w.tell(1)
}

// append is finish without tell. REQUIRES: w.mu.
func (w *writer) append(grow int) {
	op := &w.mu.op
	if w.overlay.Load() == nil {
		w.overlay.Store(pending.Over(w.mu.spare))
	}
	w.log.Append(op.stores, grow)
	w.publish(op)
	op.reset()
	w.mu.pending++
}

// tell updates the length after the last n operations were appended, and has a commit
// or a checkpoint started in the background if one is due. REQUIRES: w.mu.
func (w *writer) tell(n int) {
	w.length.Store(w.log.Length())
	if w.behind != nil {
		size, used := w.log.LogBytes()
		switch quarter := size / 4; {
		case used > size-quarter:
			w.behind(int(quarter / wal.RecordBytes))
		case w.mu.pending <= n:
			w.behind(0)
		}
	}
}

// publish shows the stores of an operation to the lookups of this process, in order.
// The removal counter of a guarded store is odd from before it until after the last
// store, as it will be in the mapping (W4, R2).
func (w *writer) publish(op *operation) {
	p := w.overlay.Load()
	stash := false
	odd := w.mu.odd[:0]
	for _, s := range op.stores {
		if counter := layout.CounterOf(s.Word); s.Guarded && !slices.Contains(odd, counter) {
			atomic.AddUint64(&w.runtime[counter], 1)
			odd = append(odd, counter)
		}
		if s.Word < layout.WordRegion {
			atomic.StoreUint64(&w.stash[s.Word-layout.WordStash], s.Value)
			stash = true
		} else {
			p.Active().Store(s.Word-layout.WordRegion, s.Value)
		}
	}
	for _, counter := range odd {
		atomic.AddUint64(&w.runtime[counter], 1)
	}
	w.mu.odd = odd
	if stash {
		w.mu.stashLen, w.mu.inStash = layout.StashUse(w.stash)
	}
}

// insert inserts an item. An ErrFull changes nothing but counts as an operation.
func (w *writer) insert(hash uint64) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.insertLocked(hash)
}

// insertLocked is insert. REQUIRES: w.mu.
func (w *writer) insertLocked(hash uint64) error {
	if err := w.ready(); err != nil {
		return err
	}
	if !w.plan(w.table.Split(hash)) {
		return ErrFull
	}
	w.finish(1)
	return nil
}

// plan has the placer plan an insert and reports whether there is room. At the limit of
// keys there is room only for an item whose class has an entry in the stash.
func (w *writer) plan(home layout.Item) bool {
	put := w.mu.placer.Insert
	if w.atLimit() {
		put = w.mu.placer.CountUp
	}
	if put(home) {
		return true
	}
	w.mu.op.reset()
	w.log.Skip()
	return false
}

// insertUnique inserts an item unless a lookup answers "maybe", in one step.
func (w *writer) insertUnique(hash uint64) (added bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.ready(); err != nil {
		return false, err
	}
	if layout.Lookup(w.table, w.newest, hash) {
		w.log.Skip()
		return false, nil
	}
	err = w.insertLocked(hash)
	return err == nil, err
}

// delete deletes an item. It reports false if there certainly is none; that changes
// nothing but counts as an operation.
func (w *writer) delete(hash uint64) (bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.ready(); err != nil {
		return false, err
	}
	freed, inLine, ok := w.mu.placer.Remove(w.table.Split(hash))
	if !ok {
		w.mu.op.reset()
		w.log.Skip()
		return false, nil
	}
	if inLine && w.mu.stashLen > 0 {
		w.drain(freed)
	}
	w.finish(-1)
	return true, nil
}

// searchEvery is how many deletes there are, while the stash is in use, to one search
// for a path by which an item could leave it: the search may read a thousand lines, the
// rest of a delete two.
const searchEvery = 8

// drain moves an item from the stash into the line that has just got room, if one may
// live there; otherwise, now and then, into any line where moves can make room.
func (w *writer) drain(freed uint64) {
	w.mu.drains++
	full := w.mu.stashLen == layout.StashEntries || w.atLimit()
	search := w.mu.drains%searchEvery == 0
	chosen := w.mu.drains / searchEvery % w.mu.stashLen // of the entries, for a search
	n, done := 0, false
	layout.StashClasses(w.stash, func(c layout.Class, items uint64) {
		if full && items > 1 {
			return // its entry would stay, and there would be no room for the next key
		}
		it := layout.Item(c)
		if !done && (it.Line == freed || w.table.Alternate(it).Line == freed) {
			done = w.mu.placer.Unstash(it, false)
		}
		if n++; !done && search && n-1 == chosen {
			done = w.mu.placer.Unstash(it, true)
		}
	})
}

// count returns the number of items of the class of a hash.
func (w *writer) count(hash uint64) uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := countItems(w.table, w.loadLine, w.newest, w.table.Split(hash))
	if w.unsure() {
		return unknownCount
	}
	return n
}

// countItems counts the items of a class in its lines and in the stash.
func countItems(t layout.Table, load func(uint64, *layout.Line) (first, n uint64), at func(uint64) uint64, it layout.Item) uint64 {
	var l layout.Line
	load(it.Line, &l)
	n := uint64(t.Copies(&l, it)) + layout.StashCountAt(at, t.Class(it))
	if other := t.Alternate(it); other.Line != it.Line {
		load(other.Line, &l)
		n += uint64(t.Copies(&l, other))
	}
	return n
}

// sync commits: what was done before it is durable when it returns nil. If setSeq, the
// user sequence becomes seq.
func (w *writer) sync(setSeq bool, seq uint64) error {
	w.commit.Lock()
	defer w.commit.Unlock()
	return w.syncLocked(setSeq, seq)
}

// syncLocked is sync. REQUIRES: w.commit.
func (w *writer) syncLocked(setSeq bool, seq uint64) error {
	b, ok, err := w.endSegmentNow(setSeq, seq)
	if err != nil || !ok {
		return err
	}
	if err := w.log.Harden(b.Segment); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.dropPending(b)
	return nil
}

// endSegmentNow is endSegment. REQUIRES: w.commit.
func (w *writer) endSegmentNow(setSeq bool, seq uint64) (segment, bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.endSegment(setSeq, seq)
}

// endSegment ends the open segment and starts another. It reports false if there is nothing
// to make durable. REQUIRES: w.commit, w.mu.
func (w *writer) endSegment(setSeq bool, seq uint64) (b segment, ok bool, err error) {
	if err := w.log.Err(); err != nil {
		return b, false, err
	}
	if w.mu.closed {
		return b, false, ErrClosed
	}
	if !setSeq && w.log.SegmentBytes() == 0 {
		return b, false, nil
	}
	if err := w.begin(); err != nil {
		return b, false, err
	}
	if w.log.SegmentBytes() == 0 && !w.log.Room(1) {
		if err := w.log.Checkpoint(w.nextLog(true)); err != nil {
			return b, false, err
		}
	}
	b = segment{Segment: w.log.EndSegment(setSeq, seq), operations: w.mu.pending}
	if p := w.overlay.Load(); p != nil {
		w.overlay.Store(p.Next())
	}
	return b, true, nil
}

// A segment is one that is being made durable.
type segment struct {
	recovery.Segment
	operations int
}

// dropPending drops the words of a segment that has been stored to the mapping. REQUIRES:
// w.commit, w.mu.
func (w *writer) dropPending(b segment) {
	p := w.overlay.Load()
	if w.mu.pending -= b.operations; w.mu.pending == 0 {
		if p != nil {
			w.mu.spare = p.Active() // empty, and will have the size of the segment
			w.overlay.Store(nil)
		}
		return
	}
	w.overlay.Store(p.Drop())
	if w.behind != nil { // they came while the disk was waited for
		w.behind(0)
	}
}

// checkpoint commits, makes the mapping durable and starts the log anew.
func (w *writer) checkpoint() error { return w.checkpointFor(0) }

// checkpointFor is checkpoint. A need other than 0 means that the log has no room for
// that many stores: then checkpointFor does nothing if it has by now, and otherwise
// makes the next log larger.
func (w *writer) checkpointFor(need int) error {
	w.checkpoints.Lock()
	defer w.checkpoints.Unlock()
	if err := w.sync(false, 0); err != nil {
		return err
	}
	due := w.checkpointDue(need)
	if due { // nearly all of the region is written now, while operations go on
		if err := w.log.SyncRegion(); err != nil {
			return err
		}
	}
	w.commit.Lock()
	defer w.commit.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	defer w.stalled(time.Now())
	if err := w.log.Err(); err != nil {
		return err
	}
	if w.mu.closed {
		return ErrClosed
	}
	if !due {
		return nil
	}
	if err := w.hardenAll(); err != nil {
		return err
	}
	return w.log.Checkpoint(w.nextLog(need > 0))
}

// checkpointDue reports whether there is a log and, if need is not 0, whether it has no
// room for that many stores.
func (w *writer) checkpointDue(need int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.log.Live() && (need == 0 || !w.log.Room(need))
}

// stalled records that operations have waited since a time.
func (w *writer) stalled(since time.Time) {
	d := int64(time.Since(since))
	for {
		longest := w.longestStall.Load()
		if d <= longest || w.longestStall.CompareAndSwap(longest, d) {
			return
		}
	}
}

// hardenAll commits while no operation can proceed. REQUIRES: w.commit, w.mu.
func (w *writer) hardenAll() error {
	b, ok, err := w.endSegment(false, 0)
	if err != nil || !ok {
		return err
	}
	if err := w.log.Harden(b.Segment); err != nil {
		return err
	}
	w.dropPending(b)
	return nil
}

// nextLog returns the size of the log after a checkpoint.
func (w *writer) nextLog(wasFull bool) int64 {
	size, _ := w.log.LogBytes()
	if wasFull && !w.fixed {
		return max(size, min(size*logGrowth, w.maxLog))
	}
	return size
}

// lockAll keeps operations, commits and checkpoints out until unlock is called.
func (w *writer) lockAll() (unlock func()) {
	w.checkpoints.Lock()
	w.commit.Lock()
	w.mu.Lock()
	return func() {
		w.mu.Unlock()
		w.commit.Unlock()
		w.checkpoints.Unlock()
	}
}

// clean commits and leaves a file that is complete without its log. Later operations
// return ErrClosed.
func (w *writer) clean() error {
	defer w.lockAll()()
	if w.mu.closed {
		return nil
	}
	err := w.hardenAll()
	w.mu.closed = true
	if err != nil {
		return err
	}
	return w.log.Clean()
}
