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
	options   *Options
	store     Store
	filter    guarded.Filter // nil if there is none; every answer is then "maybe"
	id        identity       // of the filter
	positions *positions     // takes the place of the outbox; or nil
	closing   sync.RWMutex   // shared by calls of Sync
	readOnly  bool

	// serving is false while the filter may lack keys of the store; every answer is then "maybe".
	serving atomic.Bool
	// views grows before keys leave the filter; see View.
	views    atomic.Uint64
	overflow overflow
	counts   counts
	stripes  stripes
	spare    sync.Pool // of transactions that are done

	// order is locked during operations of the filter, so that each has a known number for the outbox.
	order struct {
		sync.Mutex
		operations uint64
		records    []*record // in order of their numbers; earlier ones are no longer needed
		free       []*record
	}

	mu struct {
		sync.Mutex
		open      []*commit           // of the transactions that are prepared and not done
		listed    int                 // number of open transactions that a rebuild has listed
		done      sync.Cond           // signals that a listed transaction is done
		deletes   []*deletion         // of transactions that are done, for the next round
		loose     []*record           // of hashes that overflowed
		dropped   []*deletion         // never done in the filter; a rebuild removes their entries
		stale     [][]byte            // keys of loose records to remove in the next round
		unsure    map[uint64]struct{} // hashes put by transactions whose outcome is Unknown
		lastID    uint64              // the last number given to an entry of deletes or a loose record
		building  bool                // the filter cannot serve until a rebuild has ended
		doubts    int                 // calls of Doubt and Bypass
		doubtful  int                 // calls of Doubt since the last Rebuild, except calls that failed
		bypassing int                 // calls of Bypass whose function has not ended
		churning  churning
		due                                        // reasons for a rebuild since the instant of the last one
		under     due                              // reasons that the rebuild under way will remove
		seen      struct{ skipped, passed uint64 } // counts when tooManyPass last compared them
		failed    error                            // why the filter is no longer used
		err       error                            // why a rebuild is needed, or has failed
		rebuilds  uint64                           // rebuilds that succeeded
		took      time.Duration                    // duration of the last rebuild
		durableAt time.Time                        // see Stats.Age
		closed    bool
	}
	failureIsDurable atomic.Bool // the store has the entry keyFailed

	// Marks and rounds hold work.
	work    sync.Mutex
	idle    bool   // the work of an interval is under way
	token   token  // of the last mark
	base    uint64 // operations before that mark
	trimmed uint64 // the outbox has no operation before this one

	rebuilding sync.Mutex
	wake       chan struct{}
	life       context.Context
	end        context.CancelFunc
	background sync.WaitGroup
}

// A commit is what a rebuild must know about a transaction that is being committed.
type commit struct {
	puts   []uint64 // hashes
	again  []uint64 // hashes that the filter has, of keys that the store may lack for an instant; see DeleteUnknown
	at     int      // index in Guard.mu.open
	listed bool     // a rebuild has put its hashes into rebuild.listed. Guarded by Guard.mu
}

func (g *Guard) hooks() *guarded.Hooks {
	if g.options.Hooks != nil {
		return g.options.Hooks
	}
	return system(g.life, g.options.Mode, !g.options.ownPath)
}

func (g *Guard) covers(key []byte) bool { return g.options.Covers == nil || g.options.Covers(key) }

// serve lets the filter answer if it has all keys of the store. REQUIRES: g.mu.
func (g *Guard) serve() {
	if g.mu.failed == nil && !g.mu.lost && !g.mu.building {
		g.serving.Store(true)
	}
}

// fail ends the use of the filter. The next Open builds another one.
func (g *Guard) fail(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.serving.Store(false)
	if g.mu.failed == nil {
		g.mu.failed = err
	}
}

// tellOfFailure notes in the store that the filter must not be used. REQUIRES: g.work.
func (g *Guard) tellOfFailure() error {
	if g.failureIsDurable.Load() {
		return nil
	}
	if err := g.write(Changes{Set: []Entry{{Key: entryKey(keyFailed)}}}); err != nil {
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

// unusable returns why the filter can no longer be used, or nil.
func (g *Guard) unusable() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.mu.closed {
		return ErrClosed
	}
	return g.mu.failed
}

// kick wakes the goroutine that rebuilds the filter when a rebuild is due.
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
