package guard

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
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
		open      []*Tx               // prepared and not done
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

// Open returns a guard for a store. The options have their defaults: see [Options.WithDefaults]. If
// the filter at o.Path is not known to have all keys of the store, it is rebuilt in the background,
// and every answer is "maybe" until then. If the options ask for another filter than that, it is
// rebuilt, too, but answers meanwhile. The error is that of the store.
func Open(store Store, o *Options) (*Guard, error) {
	g, stale, err := open(store, o)
	if err != nil {
		return nil, err
	}
	if err := g.begin(stale); err != nil {
		g.closeFilter()
		return nil, err
	}
	if o.Hooks != nil && o.Hooks.Manual {
		o.Hooks.Tick = g.housekeep
	} else {
		g.background.Add(2)
		go g.commits()
		go g.rebuilds()
		if g.log != nil {
			g.background.Add(1)
			go g.drains()
		}
	}
	return g, nil
}

// OpenReadOnly returns a guard for a store that is not written to. Nothing is written to the filter
// either, unless its writer has died, and it is not rebuilt.
func OpenReadOnly(store Store, o *Options) (*Guard, error) {
	g := newGuard(store, o)
	g.readOnly = true
	var broken error
	if f, err := openReadOnly(o.Path); err == nil {
		g.use(f)
	} else {
		broken = err
	}
	if err := g.openStore(&broken); err != nil {
		g.closeFilter()
		return nil, err
	}
	entries, err := store.Entries()
	if err != nil {
		g.closeFilter()
		return nil, fmt.Errorf("read the entries of the guard: %w", err)
	}
	s, err := readState(entries)
	if broken == nil {
		broken = err
	}
	if broken == nil {
		broken = g.covered(s)
	}
	g.fit(s, broken == nil)
	if broken != nil {
		g.mu.failed = broken
		return g, nil
	}
	_, durable := durableIn(g.filter)
	missing := s.missing(durable)
	if g.log != nil {
		missing = append(missing, g.log.left...)
	}
	if !g.overflow.addAll(missing) {
		g.mu.failed = errTooMany
		return g, nil
	}
	g.serving.Store(true)
	return g, nil
}

func (g *Guard) covered(s *state) error {
	if g.log == nil {
		return s.covers(g.filter, g.options, false, 0)
	}
	return s.covers(g.filter, g.options, true, g.log.covered)
}

func newGuard(store Store, o *Options) *Guard {
	own := *o
	g := &Guard{options: &own, store: store, wake: make(chan struct{}, 1)}
	g.mu.done.L = &g.mu
	g.mu.durableAt = time.Now()
	if l, ok := store.(Logged); ok && o.Deletes == Rebuild {
		g.log = newLog(l)
		g.log.covers, g.log.took, g.log.whole = g.covers, g.took, g.isWhole
	}
	g.life, g.end = context.WithCancel(context.Background())
	return g
}

// open opens the filter and does what it lacks. stale says why it must be rebuilt instead.
func open(store Store, o *Options) (g *Guard, stale error, err error) {
	g = newGuard(store, o)
	if g.log != nil {
		stale = g.openFilter()
	}
	if err := g.openStore(&stale); err != nil {
		g.closeFilter()
		return nil, nil, err
	}
	entries, err := store.Entries()
	if err != nil {
		g.closeFilter()
		return nil, nil, fmt.Errorf("read the entries of the guard: %w", err)
	}
	s, err := readState(entries)
	if err != nil {
		stale = err
	}
	if g.log == nil {
		if err := g.openFilter(); stale == nil {
			stale = err
		}
	}
	if stale == nil {
		stale = g.covered(s)
	}
	g.fit(s, g.filter != nil && ofGuard(g.filter))
	if stale != nil {
		return g, stale, nil
	}
	g.id = s.stamp.id
	if err := g.resume(s); err != nil {
		g.closeFilter()
		return nil, nil, err
	}
	return g, nil, nil
}

func (g *Guard) use(f guarded.Filter) {
	if g.filter = f; g.log != nil {
		g.log.filter = f
	}
}

func (g *Guard) openFilter() (err error) {
	f, err := g.hooks().Open(g.options.Path)
	if err == nil {
		g.use(f)
	}
	return err
}

// openStore opens a store that has a log. What the filter lacks of that is put into it first: as
// soon as the store is open, its log may be gone. stale says why the filter is not used, if so. The
// error is that of the store.
func (g *Guard) openStore(stale *error) error {
	l, ok := g.store.(Logged)
	if !ok {
		return nil
	}
	if g.log == nil || *stale != nil {
		return l.Open(func(uint64) {})
	}
	*stale = g.log.readLog(g.readOnly)
	g.counts.replayed.Add(g.log.read)
	return l.Open(func(first uint64) {
		if *stale == nil {
			g.log.replayed(first)
		}
	})
}

func (g *Guard) hooks() *guarded.Hooks {
	if g.options.Hooks != nil {
		return g.options.Hooks
	}
	return system(g.life, g.commitInterval())
}

// Doubt says that the store may have keys which the filter lacks, now or after a crash: an
// operation is about to write past the guard. Every answer is "maybe" until a rebuild ends that
// [Guard.Rebuild] has begun later; call that after the operation, and after the last of several at
// once.
func (g *Guard) Doubt() error {
	g.mu.Lock()
	g.mu.building = true
	g.mu.doubts++
	g.mu.doubtful++
	g.serving.Store(false)
	g.mu.Unlock()
	g.work.Lock()
	defer g.work.Unlock()
	if g.isClosed() {
		return ErrClosed
	}
	err := g.store.Write(Changes{Remove: []Range{just(entryKey(keyStamp))}})
	if err != nil {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.mu.doubtful = max(g.mu.doubtful-1, 0)
	}
	return err
}

// commitInterval returns that of the filter. With a log the guard commits itself.
func (g *Guard) commitInterval() time.Duration {
	if g.log != nil {
		return -1
	}
	return g.options.CommitInterval
}

// resume puts what the outbox has into the filter, exactly once (G2), and begins a new count of
// operations. Deletes come last: from the mark on, nothing but the filter knows of them.
func (g *Guard) resume(s *state) error {
	at, durable := durableIn(g.filter)
	var changes Changes
	missing := s.missing(durable)
	g.counts.replayed.Add(uint64(len(missing)))
	left, _, err := g.insert(missing)
	if err == nil {
		err = g.filter.Sync()
	}
	if err != nil {
		return fmt.Errorf("the filter %s: %w", g.options.Path, err)
	}
	g.mu.lost = !g.overflow.addAll(left)
	changes.Remove = allEntries()
	if len(left) > 0 {
		g.mu.lastID++
		r := &record{key: entryKey(keyLoose, g.mu.lastID), done: true}
		g.mu.loose = append(g.mu.loose, r)
		changes.Set = append(changes.Set, Entry{r.key, appendHashes(nil, left)})
	}
	g.token = at
	if g.log == nil {
		_, g.trimmed = durableIn(g.filter)
	} else {
		g.log.begin()
	}
	g.mu.leave(s.stamp.gone)
	g.mu.unknown = s.stamp.unknown
	if err := g.mark(changes, true); err != nil {
		return err
	}
	for _, h := range s.deletes {
		if _, err := g.filter.DeleteHash(h); err != nil {
			return fmt.Errorf("the filter %s: %w", g.options.Path, err)
		}
		g.order.operations++
	}
	g.serve()
	return nil
}

// begin makes an empty filter if the old one is stale. That of an empty store is complete.
func (g *Guard) begin(stale error) error {
	if stale == nil {
		g.consider()
		return nil
	}
	g.closeFilter()
	g.mu.err, g.mu.unfit = stale, false
	// No crash from now on may leave an entry that speaks for what is at the path.
	if err := g.store.Write(Changes{Remove: allEntries()}); err != nil {
		return err
	}
	g.id = newIdentity(g.hooks().Random)
	f, err := g.hooks().Create(g.options.Path, &mmapfilter.Options{
		Capacity: g.options.Capacity, FalsePositiveRate: g.options.FalsePositiveRate, Seed: g.hooks().Random(),
		Normalisation: g.id.String(), CommitInterval: g.commitInterval(),
	})
	if err != nil {
		g.mu.failed = fmt.Errorf("no filter: %w", err)
		g.failureIsDurable.Store(true)
		return nil
	}
	g.use(f)
	g.mu.building = true
	empty, err := g.storeIsEmpty()
	if err != nil {
		return err
	}
	if empty {
		return g.built(true, 0)
	}
	g.kick()
	return nil
}

func (g *Guard) storeIsEmpty() (bool, error) {
	s, err := g.store.Snapshot()
	if err != nil {
		return false, err
	}
	empty := true
	for key, e := range s.Keys {
		if err = e; err != nil || g.covers(key) {
			empty = false
			break
		}
	}
	return empty, errors.Join(err, s.Close())
}

func (g *Guard) covers(key []byte) bool { return g.options.Covers == nil || g.options.Covers(key) }

// built marks a filter that has been built, so that it serves, unless there have been more doubts
// since.
func (g *Guard) built(reset bool, doubts int) error {
	g.work.Lock()
	defer g.work.Unlock()
	if g.doubted(doubts) {
		return nil
	}
	err := g.mark(Changes{}, reset)
	g.mu.Lock()
	defer g.mu.Unlock()
	if err == nil && doubts == g.mu.doubts {
		g.mu.building = false
	}
	g.serve()
	return err
}

func (g *Guard) doubted(before int) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return before != g.mu.doubts
}

// serve has the filter answer, if it has all keys. REQUIRES: g.mu.
func (g *Guard) serve() {
	if g.mu.failed == nil && !g.mu.lost && !g.mu.building {
		g.serving.Store(true)
	}
}

// mark puts a new token into the store and then into the filter. Nothing leaves the filter that was
// visible in the store before the last mark: so a store and a filter of different times differ in
// their tokens, unless the filter has all keys of the store nonetheless. With reset, operations are
// counted anew. REQUIRES: g.work.
func (g *Guard) mark(c Changes, reset bool) error {
	next := newToken(g.hooks().Random, g.token)
	g.mu.Lock()
	s := stamp{id: g.id, mode: g.options.Deletes, logged: g.log != nil, reset: reset, token: next, previous: g.token, previousAt: g.trimmed, capacity: g.options.Capacity}
	due := g.mu.due.and(g.mu.under)
	// After a crash nobody knows what was deleted since.
	s.gone, s.unknown = due.gone, !g.mu.closed || due.unknown || due.tooMany || due.deleted > due.gone
	g.mu.Unlock()
	if g.log != nil {
		s.previousAt = g.log.durable.Load()
	}
	c.Set = append(c.Set, Entry{entryKey(keyStamp), s.encode()})
	if err := g.store.Write(c); err != nil {
		return err
	}
	base, err := g.base, error(nil)
	if g.log != nil {
		err = g.syncLog(next)
	} else {
		err = g.filter.SyncAtFunc(func(operations uint64) uint64 {
			if base += operations; reset {
				base = 0
			}
			return pack(next, base)
		})
	}
	if err != nil {
		g.fail(err)
		return fmt.Errorf("the filter %s: %w", g.options.Path, err)
	}
	g.token, g.base = next, base
	if reset {
		g.order.operations, g.trimmed = 0, 0
	}
	return nil
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

// Absent reports whether a key is certainly not in the store. If it returns false, ask the store, and
// tell the guard with [Guard.Found] what it said.
func (g *Guard) Absent(key []byte) bool { return g.absent(key, nil) }

// A View is an instant at which a transaction or snapshot of the store began that reads.
type View uint64

// View returns the present. Call it before the transaction or snapshot begins.
func (g *Guard) View() View { return View(g.views.Load()) }

// AbsentIn is [Guard.Absent] for a transaction or snapshot: it may have keys that have been deleted
// since, and that the filter has let go. Then the answer is false.
func (g *Guard) AbsentIn(v View, key []byte) bool { return g.absent(key, &v) }

func (g *Guard) absent(key []byte, v *View) bool {
	if !g.serving.Load() {
		g.counts.unfiltered.Add(1)
		return false
	}
	if !g.covers(key) {
		return false
	}
	h := g.filter.Hash(key)
	c := g.counts.of(h)
	// A hash goes from the incoming ones into the filter, or into the overflow and from there into
	// the filter, and is in the next place before it leaves one: so this is the order. And the
	// filter is asked before the view is compared: that changes before anything leaves the filter.
	if g.log != nil && g.log.incoming.has(h) || g.overflow.has(h) || g.filter.ContainsHash(h) {
		c.passed.Add(1)
		return false
	}
	if v != nil && *v != g.View() {
		g.counts.unfiltered.Add(1)
		return false
	}
	c.skipped.Add(1)
	return true
}

// Found says what the store has of a key for which [Guard.Absent] was false.
func (g *Guard) Found(key []byte, there bool) { g.found(key, there) }

// FoundIn is [Guard.Found] after [Guard.AbsentIn].
func (g *Guard) FoundIn(v View, key []byte, there bool) {
	if v == g.View() { // otherwise the filter may not have been asked
		g.found(key, there)
	}
}

func (g *Guard) found(key []byte, there bool) {
	if !g.serving.Load() || !g.covers(key) {
		return
	}
	c := g.counts.of(uint64(len(key)))
	if there {
		c.truePositives.Add(1)
	} else if c.falsePositives.Add(1)%considerEvery == 0 && g.tooManyPass() {
		g.kick()
	}
}

// considerEvery is after how many false positives their share is looked at.
const considerEvery = 64

// Close makes the filter durable and closes it. Transactions must have ended; a rebuild is ended. Close
// the store after it.
func (g *Guard) Close() error {
	g.mu.Lock()
	if g.mu.closed {
		g.mu.Unlock()
		return nil
	}
	g.mu.closed = true
	g.mu.Unlock()
	g.end()
	g.background.Wait()
	g.flushed()
	g.rebuilding.Lock() // until one that the program called for has ended
	defer g.rebuilding.Unlock()
	g.serving.Store(false)
	if g.filter == nil || g.readOnly {
		return g.closeFilter()
	}
	g.work.Lock()
	defer g.work.Unlock()
	err := g.workNow()
	if err == nil && !g.isFailed() && !g.isBuilding() {
		err = g.mark(Changes{}, false) // with what is in the filter alone
		if err == nil {                // so that the next open sees damage
			err = g.filter.Seal(context.Background())
		}
	}
	return errors.Join(err, g.closeFilter())
}

func (g *Guard) closeFilter() error {
	if g.filter == nil {
		return nil
	}
	return g.filter.Close()
}
