package guard

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/guarded"
)

// ErrClosed is returned by operations on a closed guard.
var ErrClosed = errors.New("guard is closed")

// A Guard keeps a filter of the keys in a store. All methods may be called concurrently.
type Guard struct {
	options  *Options
	store    Store
	filter   guarded.Filter // nil if there is none: every answer is "maybe"
	id       identity       // of the filter
	log      *log           // that takes the place of the outbox, or nil
	flushes  sync.Mutex     // held while a flush of the store waits for the filter
	readOnly bool

	// serving is clear while the filter may lack keys of the store: every answer is "maybe".
	serving atomic.Bool
	// views counts what takes keys out of the filter; see View.
	views    atomic.Uint64
	overflow overflow
	counts   counts
	stripes  stripes
	spare    sync.Pool // of transactions that are done

	// order makes the order of the filter's operations known: their numbers are those in the outbox.
	order struct {
		sync.Mutex
		operations uint64
		records    []*record // in the order of their numbers, from the first that may be needed
		free       []*record
	}

	mu struct {
		sync.Mutex
		open      []*commit           // those of transactions that are prepared and not done
		prepared  uint64              // transactions that put keys
		covered   uint64              // those of them whose keys the filter has durably, with a log
		listed    int                 // those of them that were under way at the instant of a rebuild
		done      sync.Cond           // a listed one was done
		deletes   []*pending          // of transactions that are done
		loose     []*record           // of what overflowed
		dropped   []*pending          // whose entries are to be removed, and nothing else
		unsure    map[uint64]struct{} // put by transactions of which nobody knows
		trim      *trim               // for the next transaction to do
		trimOut   bool                // it has been made and is not done
		lastID    uint64              // of the entries of deletes and of loose records
		building  bool                // serving waits for a first rebuild
		doubts    int                 // calls of Doubt
		doubtful  int                 // those that have succeeded or go on, since Rebuild was called
		churning  churning
		due                                        // since the instant of the last rebuild
		under     due                              // before that of one that is under way
		seen      struct{ skipped, passed uint64 } // see tooManyPass
		failed    error                            // of the filter: it is not used any more
		err       error                            // of the last rebuild
		rebuilds  uint64
		took      time.Duration
		durableAt time.Time // when the outbox was last trimmed, or empty
		closed    bool
	}
	failureIsDurable atomic.Bool // the store says that the filter has failed

	// work is held by what writes entries of its own: marks, rounds of deletes, trims.
	work    sync.Mutex
	token   token  // of the last mark
	base    uint64 // operations before it
	trimmed uint64 // operations that are not in the outbox, at least

	rebuilding sync.Mutex
	wake       chan struct{}
	life       context.Context
	end        context.CancelFunc
	background sync.WaitGroup
}

// A commit is what a rebuild must know of a transaction that is about to be committed.
type commit struct {
	puts   []uint64 // hashes
	at     int      // in Guard.mu.open
	listed bool     // it was under way at the instant of a rebuild. Guarded by Guard.mu
}

func (g *Guard) hooks() *guarded.Hooks {
	if g.options.Hooks != nil {
		return g.options.Hooks
	}
	return system(g.life, g.commitInterval())
}

// commitInterval returns that of the filter. With a log the guard commits itself.
func (g *Guard) commitInterval() time.Duration {
	if g.log != nil {
		return -1
	}
	return g.options.CommitInterval
}

func (g *Guard) covers(key []byte) bool { return g.options.Covers == nil || g.options.Covers(key) }

// serve has the filter answer, if it has all keys. REQUIRES: g.mu.
func (g *Guard) serve() {
	if g.mu.failed == nil && !g.mu.lost && !g.mu.building {
		g.serving.Store(true)
	}
}

// fail ends the use of the filter. The next open builds another one.
func (g *Guard) fail(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.serving.Store(false)
	if g.mu.failed == nil {
		g.mu.failed = err
	}
}

// tellOfFailure has the store say that the filter must not be used.
func (g *Guard) tellOfFailure() error {
	if g.failureIsDurable.Load() {
		return nil
	}
	if err := g.store.Write(Changes{Set: []Entry{{Key: entryKey(keyFailed)}}}); err != nil {
		return err
	}
	g.failureIsDurable.Store(true)
	return nil
}

func (g *Guard) isFailed() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.mu.failed != nil
}

func (g *Guard) isClosed() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.mu.closed
}

func (g *Guard) isBuilding() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.mu.building
}

// unusable returns why the filter is not used any more, or nil.
func (g *Guard) unusable() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.mu.closed {
		return ErrClosed
	}
	return g.mu.failed
}

// kick has the background rebuild the filter.
func (g *Guard) kick() {
	select {
	case g.wake <- struct{}{}:
	default:
	}
}

func (g *Guard) closeFilter() error {
	if g.filter == nil {
		return nil
	}
	return g.filter.Close()
}
