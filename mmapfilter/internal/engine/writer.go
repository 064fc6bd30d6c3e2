package engine

import (
	"errors"
	"math"
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

var (
	// ErrFull is returned by an insert that finds no room. Nothing has changed.
	ErrFull = errors.New("no room for another item")
	// ErrClosed is returned after Clean.
	ErrClosed = errors.New("the writer is closed")
	// ErrMoved is returned once another writer has taken over: see Handover. The operation has
	// not been done.
	ErrMoved = errors.New("another writer has taken over")

	// ErrAgain is returned by an operation that would have to wait while a Handover is under way,
	// and has not been done (see AwaitHandover); and by a Handover that is to be tried again.
	ErrAgain = errors.New("a handover is under way")

	// errCutOff is the cause of recovery.ErrFailed if a panic left an operation half done.
	errCutOff = errors.New("a panic interrupted an operation")
	// errLogFull is returned where a checkpoint must begin first.
	errLogFull = errors.New("the log is full")
)

// A Writer plans operations, keeps their changes in the pending words and the log, and commits
// them. A file has one Writer. Several goroutines may call its methods at once; the package
// essay has the order of locks.
type Writer struct {
	// Behind, if not nil, is called to commit in the background once operations are pending. A
	// need above 0 says that the log is nearly full: a checkpoint is due unless the log has room
	// for that many stores by then. Below 0 it is CommitNow or GrowNow. The caller holds the lock
	// mu.
	Behind func(need int)
	// Unsealing, if not nil, is called before the first write to a sealed file. The caller holds
	// the lock mu.
	Unsealing func()
	// Retries says that an operation that returns ErrFull may be tried again, and so does not count
	// as an operation, unless SkipFull is called.
	Retries bool
	// Limit is how many keys the filter takes, as place.KeysOf counts them. It may be
	// changed before the first operation.
	Limit uint64

	more     uint64 // items that a Replay has inserted although they had been left out
	protocol *recovery.Writer
	table    layout.Table
	words    []uint64    // of the mapped file: durable state, read with atomic loads
	view     layout.View // of them
	firstLog int64       // bytes
	mostLog  int64       // bytes that the log may grow to
	most     int         // stores of one operation, see place.MaxStores
	unit     pending.Unit
	// keptLines is how many lines an operation keeps.
	keptLines int
	before    func(block uint64, l *layout.Line) // loadBlock, once for all operations: each method value would be allocated

	// What lookups of this process read; see Word. overlay is nil if the file has everything.
	overlay atomic.Pointer[pending.Overlay]
	newest  func(word uint64) uint64    // Word
	stash   []uint64                    // the newest state of all of it
	runtime [layout.RuntimeWords]uint64 // removal counters of what is pending
	_       cpu.CacheLinePad
	under   layout.View // stash and runtime, with the lines of the file

	_      cpu.CacheLinePad
	length atomic.Uint64 // changes with every operation, as runtime does with many

	// released is set before another writer may change the file.
	released atomic.Bool

	// longestStall is the longest time that an operation waited for a log, or for room in it or
	// in the segment, in nanoseconds.
	longestStall atomic.Int64

	checkpoints sync.Mutex // one at a time
	commit      sync.Mutex
	mu          struct {
		sync.Mutex
		closed   error          // ErrClosed or ErrMoved, or nil
		tap      *Tap           // takes down all operations; or nil
		held     bool           // see hold
		doubles  doubles        // where else operations are done
		handover time.Duration  // see State
		pending  int            // operations not yet durable
		spare    *pending.Words // for the next segment, if overlay is nil
		op       operation
		odd      []uint64 // removal counters, see publish
		placer   *place.Placer
		ahead    [Batch]place.Outlook // of the inserts of a batch
		stashLen int                  // stash entries in use
		inStash  uint64               // items counted in them
		drains   int                  // deletes that tried to empty the stash
		waits    int                  // times that mu was released to make room
		pace     pace                 // what operations owe a checkpoint
		grown    uint64               // generation in which a larger log was asked for
	}
}

// A LogSize says how large the log is at first and how far it may grow. 0 means a size in
// proportion to the region.
type LogSize struct{ First, Most int64 }

// The usual size of a log. It starts small and grows when it is full. A checkpoint writes nearly
// every page of the filter, however few operations came since the last one, and there is one for
// each half of the log. So the size of a half decides how much is written for an operation. Up to
// a region of 64 MiB a half may be as large as the region: then checkpoints write about as much
// as the log. From 1 GiB to 8 GiB, a half may be a sixteenth of the region. A log is not worth
// keeping below leastLog, since the syncs of a checkpoint cost more than it writes there.
//
// The first log is small: most writers write little. It grows early, so that the other half of
// the next one takes the operations while a checkpoint writes the region.
const (
	leastFirstLog = 256 << 10
	mostFirstLog  = 1 << 20
	firstLogShare = 64
	logGrowth     = 16
	leastLog      = 16 << 20
	usualLog      = 128 << 20
	largestLog    = 1 << 30
	logShare      = 8
)

func (s LogSize) withDefaults(regionBytes int64) LogSize {
	if s.Most == 0 {
		s.Most = max(min(2*regionBytes, usualLog), leastLog, min(regionBytes/logShare, largestLog)) / wal.PageBytes * wal.PageBytes
	}
	if s.First == 0 {
		s.First = min(max(regionBytes/firstLogShare, leastFirstLog), mostFirstLog, s.Most) / wal.PageBytes * wal.PageBytes
	}
	s.First, s.Most = max(s.First, wal.MinBytes), max(s.Most, wal.MinBytes)
	return s
}

// Open takes over a volume and recovers it if its writer has died.
func Open(vol recovery.Volume, log LogSize) (*Writer, *recovery.Recovery, error) {
	protocol, found, err := recovery.NewWriter(vol)
	if err != nil {
		return nil, nil, err
	}
	g := protocol.Geometry()
	log = log.withDefaults(g.RegionBytes)
	w := &Writer{
		Limit:    math.MaxUint64,
		protocol: protocol,
		table:    layout.NewTable(g),
		words:    protocol.Words(),
		view:     layout.NewView(protocol.Words()[layout.WordRuntime:], g),
		firstLog: log.First,
		mostLog:  log.Most,
		stash:    make([]uint64, layout.StashWords),
	}
	w.most = place.MaxStores(w.table)
	w.keptLines = 1
	if _, n := w.table.Words(0); n == layout.BlockWords { // lines share no words
		w.keptLines = keptLines
	}
	if w.table.Bounds().RemoveStores == layout.BlockWords { // a change of a line shifts what is behind it
		w.unit = pending.OneBlock
	}
	if protocol.Superblock().KeepsHashes() {
		w.most += recovery.HashStores
	}
	w.newest, w.before = w.Word, w.loadBlock
	copy(w.stash, w.words[layout.WordStash:])
	w.under = layout.ViewOf(w.view.Region, w.stash, w.runtime[:])
	w.length.Store(protocol.Length())
	w.mu.op = operation{w: w}
	w.mu.spare = pending.New(w.unit, 0)
	w.mu.placer = place.New(w.table, &w.mu.op)
	w.mu.stashLen, w.mu.inStash = layout.StashUse(w.stash)
	return w, found, nil
}

// ready makes room for one operation. REQUIRES: w.mu. It releases w.mu and takes it again if
// making room needs a commit or a checkpoint.
func (w *Writer) ready() error {
	for {
		if w.mu.closed != nil {
			return w.mu.closed
		}
		if err := w.protocol.Err(); err != nil {
			return err
		}
		if w.mu.op.begun() {
			return w.protocol.Fail(errCutOff)
		}
		if err := w.begin(); err != nil {
			return err
		}
		room := w.protocol.Room(w.most)
		if room && !w.segmentIsFull(1) {
			if !w.mu.pace.due() || w.mu.held {
				return nil
			}
			w.sleep(w.mu.pace.pay())
			continue
		}
		if w.mu.held {
			return ErrAgain
		}
		if err := w.makeRoom(room); err != nil {
			return err
		}
	}
}

// begin prepares the file for the first store, unless that has been done. REQUIRES: w.mu.
func (w *Writer) begin() error {
	if w.protocol.Live() {
		return nil
	}
	defer w.stalled(time.Now())
	if w.protocol.Superblock().State() == layout.Sealed && w.Unsealing != nil {
		w.Unsealing() // R4
	}
	return w.protocol.Begin(w.firstLog)
}

// makeRoom makes room in the log if inLog is not set, and otherwise in a full segment. REQUIRES:
// w.mu. It releases w.mu meanwhile.
func (w *Writer) makeRoom(inLog bool) error {
	w.mu.waits++
	w.mu.Unlock()
	defer w.mu.Lock()
	defer w.stalled(time.Now())
	if inLog {
		return w.Sync(false, 0)
	}
	return w.nextHalf()
}

// sleep sleeps without the lock. REQUIRES: w.mu.
func (w *Writer) sleep(d time.Duration) {
	w.mu.waits++
	w.mu.Unlock()
	defer w.mu.Lock()
	defer w.stalled(time.Now())
	time.Sleep(d)
}

// segmentIsFull reports whether n more operations might be too many for the segment.
func (w *Writer) segmentIsFull(n int) bool {
	p := w.overlay.Load()
	most := segmentWords
	if w.Behind != nil {
		most = pending.MaxWords // reached only if the background cannot commit fast enough
	}
	return p != nil && p.Active().Len() >= most-n*w.most
}

// finish appends the planned operation to the log and publishes it to this process's lookups.
// REQUIRES: w.mu.
func (w *Writer) finish(grow int, hash uint64) {
	w.append(grow, hash)
	w.tell(1)
}

// append is finish without tell. REQUIRES: w.mu.
func (w *Writer) append(grow int, hash uint64) {
	op := &w.mu.op
	if w.overlay.Load() == nil {
		w.overlay.Store(pending.Over(w.mu.spare))
	}
	w.protocol.Append(op.stores, grow, hash)
	kind := Insert
	if grow < 0 {
		kind = Delete
	}
	w.tapped(kind, hash)
	w.publish(op)
	op.reset()
	w.mu.pending++
}

// tapped puts an operation into the tap, if there is one. REQUIRES: w.mu.
func (w *Writer) tapped(kind Kind, hash uint64) {
	if w.mu.tap != nil {
		w.mu.tap.put(hash, kind)
		w.mu.pace.extra += time.Duration(w.mu.tap.Slow.Load())
	}
}

// tell updates the length after the last n operations were appended, and starts a commit or a
// checkpoint in the background if one is due. REQUIRES: w.mu.
func (w *Writer) tell(n int) {
	w.length.Store(w.protocol.Length())
	size, used := w.protocol.LogUse()
	if w.Behind == nil || size == 0 { // the file may have been closed
		return
	}
	needed := float64(w.lastPart(size)) / float64(size)
	if w.protocol.Checkpointing() {
		needed = max(1-w.protocol.Progress(), paceSyncs)
	}
	w.mu.pace.owe(n, size, used, needed)
	switch rest := w.lastPart(size); {
	case used > size-rest:
		w.Behind(int(rest / wal.RecordBytes))
	case w.overlay.Load() != nil && w.overlay.Load().Active().Len() >= segmentWords:
		w.Behind(CommitNow)
	case used > size/growEarly && !w.protocol.Moving() && w.mu.grown != w.protocol.LogGeneration() && w.firstLog < w.mostLog:
		w.mu.grown = w.protocol.LogGeneration()
		w.Behind(GrowNow)
	case w.mu.pending <= n:
		w.Behind(0)
	}
}

// segmentWords is how many words a segment may change before it is committed, if a commit does
// not take long: more would not be in the processor's cache.
const segmentWords = 1 << 17

// Passed to Behind, CommitNow asks for a commit at once, and GrowNow for a call of Grow.
const (
	CommitNow = -1
	GrowNow   = -2
)

// A larger log is made when one part in growEarly of a half is in use.
const growEarly = 4

// lastPart returns how much of a half of the log is left when the background is to begin a
// checkpoint. It must end the open segment first, and so may have to wait for a commit and then
// for its own: operations go on meanwhile, in the last part. A commit takes as long as several
// megabytes of operations, if it stores to many pages for the first time since a checkpoint.
func (w *Writer) lastPart(size int64) int64 {
	const share, enough = 8, 4 << 20
	return max(size/share, min(size/2, enough), int64(2*w.most*wal.RecordBytes))
}

// publish shows the stores of an operation to this process's lookups, in order. The removal
// counter of a guarded store is odd from before that store until after the last one, as it will
// be in the mapping (W4, R2). Where blocks are pending, consecutive stores to one are one, as they
// are in its record.
func (w *Writer) publish(op *operation) {
	p := w.overlay.Load()
	stash := false
	odd := w.mu.odd[:0]
	var block layout.Line
	words := uint8(0) // of block that are to be stored
	for i, s := range op.stores {
		if counter := layout.CounterOf(s.Word); s.Guarded && !slices.Contains(odd, counter) {
			atomic.AddUint64(&w.runtime[counter], 1)
			odd = append(odd, counter)
		}
		switch {
		case s.Word < layout.WordRegion:
			atomic.StoreUint64(&w.stash[s.Word-layout.WordStash], s.Value)
			stash = true
		case w.unit == pending.OneWord:
			p.Active().Store(s.Word-layout.WordRegion, s.Value)
		default:
			at := s.Word % layout.BlockWords
			block[at], words = s.Value, words|1<<at
			if i+1 == len(op.stores) || op.stores[i+1].Word/layout.BlockWords != s.Word/layout.BlockWords {
				p.Active().StoreWords((s.Word-layout.WordRegion)/layout.BlockWords, words, &block, w.before)
				words = 0
			}
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
