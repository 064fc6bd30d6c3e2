package writer

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/cpu"

	"github.com/mmapfilter/mmapfilter/layout"
	"github.com/mmapfilter/mmapfilter/layout/wal"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/place"
	"github.com/mmapfilter/mmapfilter/recovery"
)

var (
	// ErrFull is returned by an insert that finds no room. Nothing has changed.
	ErrFull = place.ErrFull
	// ErrClosed is returned after Clean.
	ErrClosed = errors.New("filter is closed")
	// ErrMoved is returned once another writer has taken over (see Replace). The
	// operation has not been done.
	ErrMoved = errors.New("another writer has taken over")
	// ErrDiverged is returned if a replay does not lead to the same history, because the kept hashes are
	// not the hashes of the filter. It matches recovery.ErrHashes.
	ErrDiverged error = &recovery.HashesError{Err: errors.New("K3: the history of the new file differs from the history of the old file")}

	// errCutOff is the cause of recovery.ErrFailed if a panic left an operation half done.
	errCutOff = errors.New("a panic interrupted an operation")
	// errLogFull is returned if a checkpoint must begin first.
	errLogFull = errors.New("the log is full")
)

// A Writer plans operations, keeps their changes in the pending words and the log, and commits
// them. A file has one Writer. Several goroutines may call its methods at once; the package essay gives
// the order of the locks.
type Writer struct {
	// Work, if not nil, does the work that is due beside operations. It may be changed while no
	// operation is under way.
	Work *Work
	// Limit is how many keys the filter takes, as place.KeysOf counts them. It may be
	// changed before the first operation.
	Limit uint64

	vol       recovery.Volume
	protocol  *recovery.Writer
	table     layout.Table
	looks     layout.Looks                       // table, as an interface with fewer methods
	words     []uint64                           // of the mapped file: durable state, read with atomic loads
	view      layout.View                        // view of these words
	firstLog  int64                              // bytes
	mostLog   int64                              // bytes that the log may grow to
	most      int                                // most stores of one operation, see place.MaxStores
	keptLines int                                // lines that an operation keeps: 1 if lines share words
	before    func(block uint64, l *layout.Line) // loadBlock, made once, since a method value is allocated

	// Lookups of this process read these; see Word. overlay is nil if the file has all operations.
	overlay atomic.Pointer[Overlay]
	newest  func(word uint64) uint64    // the method Word
	stash   []uint64                    // the newest state of the whole stash
	runtime [layout.RuntimeWords]uint64 // removal counters of the pending stores
	_       cpu.CacheLinePad
	under   layout.View // stash and runtime, with the lines of the file

	_      cpu.CacheLinePad
	length atomic.Uint64 // changes with every operation, and runtime with many

	waits   uint64        // deletes that may wait for a rebuild (K7); 0 if the filter does not rebuild itself
	tooLong atomic.Bool   // see HistoryIsLong
	tail    atomic.Uint64 // see Tail

	follows atomic.Bool // see Depart

	// released is set before another writer may change the file.
	released atomic.Bool

	// longestStall is the longest time that an operation waited for a log, for room in the log, or for
	// room in the segment, in nanoseconds.
	longestStall atomic.Int64

	// handover is held while this writer is in use but Replace may still fail and take it out of use
	// again.
	handover sync.Mutex

	applying    sync.Mutex // held by Apply, Resume and Depart
	checkpoints sync.Mutex // held by a checkpoint
	commits     sync.Mutex // held by a commit
	mu          struct {
		sync.Mutex
		closed   error // ErrClosed or ErrMoved, or nil
		large    largePages
		due      due           // after the last operation
		tap      *Tap          // lists the operations; or nil
		mostTail uint64        // see Rebuilding; 0 if no rebuild goes on
		stall    time.Duration // see State
		pending  int           // operations in the log that are not yet stored to the file
		spare    *Pending      // table for the next segment, if overlay is nil
		op       operation
		odd      []uint64 // removal counters, see publish
		placer   *place.Placer
		stashed  stashed
		known    *known // nil before the first InsertUnique, and without a history
		waits    int    // times that mu was released to make room
		pace     pace   // how long operations must wait for a checkpoint, a commit or a rebuild
		grown    uint64 // generation in which a larger log was asked for
	}
}

// An operation is one change of the filter in progress. It implements place.Lines for its placer. It
// collects the stores in order and leaves the pending words alone until it is complete. These stores say
// which words it has changed. A map of changed lines would not be enough, since lines may share words.
type operation struct {
	w      *Writer
	stores []wal.Store

	// lines has the lines that were loaded last, with all changes made to them; only one line if
	// lines share words.
	lines  [keptLines]loadedLine
	loads  int         // loads of lines that were not in lines
	newest *loadedLine // the line of the last Load
}

// A loadedLine is the image of a line.
type loadedLine struct {
	line  uint64
	first uint64 // its first word in the file
	image layout.Line
}

// keptLines is how many lines an operation keeps. A move, or the return of a guest, goes back and forth
// between two lines; the next move of a path goes between one of these and a third line. With fewer kept
// lines, lines would be loaded again; with many more, each load would take longer to search them.
const keptLines = 4

// begin prepares the file for the first store, unless that has been done. REQUIRES: w.mu.
func (w *Writer) begin() error {
	if w.protocol.Live() {
		return nil
	}
	defer w.stalled(time.Now())
	if w.protocol.Superblock().State() == layout.Sealed { // R4
		w.mu.large = largePages{left: true}
		w.dropPart()
	}
	return w.protocol.Begin(w.firstLog)
}

// stalled records that operations have waited since the given time.
func (w *Writer) stalled(since time.Time) { w.stalledFor(time.Since(since)) }

// stalledFor records that operations have waited for a time.
func (w *Writer) stalledFor(d time.Duration) {
	for {
		longest := w.longestStall.Load()
		if int64(d) <= longest || w.longestStall.CompareAndSwap(longest, int64(d)) {
			return
		}
	}
}
