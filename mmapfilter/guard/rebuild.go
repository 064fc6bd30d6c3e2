package guard

import (
	"context"
	"errors"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/guarded"
)

// rebuilds runs in the background and rebuilds the filter whenever a rebuild is due.
func (g *Guard) rebuilds() {
	defer g.background.Done()
	wait := time.Duration(0)
	for {
		select {
		case <-g.life.Done():
			return
		case <-g.wake:
		}
		for g.wants() {
			if wait > 0 { // after a failure
				select {
				case <-g.life.Done():
					return
				case <-time.After(wait):
				}
			}
			begun := time.Now()
			err := g.rebuild(g.life, true)
			if wait = 0; err != nil {
				wait = max(retryAfter, retryShare*time.Since(begun))
			}
			if g.life.Err() != nil {
				return
			}
		}
	}
}

// After a failure, the guard waits before it tries again: retryShare times as long as the rebuild took,
// since it may have read the whole store, and at least retryAfter. Without retryAfter, a rebuild that
// fails at once, as on a full disk, would be tried again and again and keep a processor busy. The cause
// of such a failure seldom goes away sooner.
const (
	retryAfter = 10 * time.Second
	retryShare = 16
)

// mostTries is how often a rebuild is tried in a row if the new filter has no room for the keys that
// come meanwhile. Each try has at least twice the capacity of the one before, so the last try has at
// least 32 times the capacity of the first. If this is not enough, keys come faster than a rebuild
// reads them.
const mostTries = 6

// Rebuild rebuilds the filter from the keys of the store. Reads and transactions go on meanwhile. The
// guard rebuilds by itself when a rebuild is due. Call Rebuild after a write to the store has bypassed
// the guard.
func (g *Guard) Rebuild(ctx context.Context) error {
	g.mu.Lock()
	g.mu.doubtful = 0
	g.mu.Unlock()
	return g.rebuild(ctx, false)
}

// Bypass calls do, an operation that bypasses the guard, and then rebuilds the filter. Every answer is
// "maybe" meanwhile. Unlike operations between Doubt and Rebuild, do may overlap with others: Bypass
// does not end the doubt of another operation, and a Rebuild during do does not end the doubt of do.
// While another operation is in doubt, Bypass leaves the rebuild to it. If Doubt would fail, Bypass
// returns its error without a call of do; otherwise it returns the error of do. If the rebuild fails,
// the guard tries again, and Stats says why.
func (g *Guard) Bypass(do func() error) error {
	err := g.doubt(&g.mu.bypassing)
	if err == nil {
		err = g.bypass(do)
	}
	_ = g.rebuild(context.Background(), true)
	return err
}

// bypass calls do, which may panic.
func (g *Guard) bypass(do func() error) error {
	defer func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.mu.bypassing--
	}()
	return do()
}

// isBypassed reports whether an operation that bypasses the guard may not have ended. REQUIRES: g.mu.
func (g *Guard) isBypassed() bool { return g.mu.doubtful > 0 || g.mu.bypassing > 0 }

// rebuild rebuilds the filter. It first waits for a rebuild that is under way. If ifDue is set, it then
// does nothing unless another rebuild is due.
func (g *Guard) rebuild(ctx context.Context, ifDue bool) error {
	g.rebuilding.Lock()
	defer g.rebuilding.Unlock()
	if ifDue && !g.wants() {
		return nil
	}
	if g.filter == nil {
		return ErrClosed
	}
	if err := g.unusable(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(g.life, func() { cancel(ErrClosed) })()
	begun := time.Now()
	r := &rebuild{g: g}
	err := r.run(ctx)
	for tries := 1; errors.Is(err, mmapfilter.ErrFull) && tries < mostTries; tries++ {
		needed := growth * (r.items + r.came)
		if r.capacity >= growth*needed {
			break // the filter had plenty of room, so there is another cause
		}
		r = &rebuild{g: g, least: max(growth*r.capacity, needed)}
		err = r.run(ctx)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.mu.churning.came = max(r.came, g.mu.churning.came/2)
	if g.mu.err = err; err == nil {
		g.mu.churning.reserve = r.reserve
		g.mu.rebuilds++
		g.mu.took = time.Since(begun)
	}
	return err
}

// A rebuild is one try. Its instant is the moment at which the snapshot of the store is taken.
type rebuild struct {
	g        *Guard
	snapshot Snapshot
	listed   []uint64 // hashes of transactions that were under way at the instant
	doubts   int      // Guard.mu.doubts at the instant, or -1
	unwork   func()   // unlocks g.work, once
	least    uint64   // the least capacity for the new filter
	capacity uint64   // the capacity that the new filter got
	begun    bool     // the instant has passed
	puts     uint64   // keys put before the instant
	came     uint64   // keys put after the instant
	before   uint64   // keys in the old filter at the instant
	items    uint64   // keys in the snapshot and in listed
	reserve  uint64   // capacity for keys that come and go
}

// capacityFor returns the capacity of the new filter.
func (r *rebuild) capacityFor(keys uint64) uint64 {
	r.items = keys
	gone := r.before - min(keys, r.before) // since the last rebuild
	r.g.mu.Lock()
	r.reserve = churn * min(r.g.mu.churning.came, gone)
	r.g.mu.Unlock()
	r.capacity = max(r.g.options.Capacity, growth*keys, r.least, r.reserve)
	return r.capacity
}

// end counts the keys that have been put since the instant.
func (r *rebuild) end() {
	r.g.mu.Lock()
	defer r.g.mu.Unlock()
	if r.begun {
		r.came = r.g.mu.churning.puts - r.puts
	}
}

func (r *rebuild) run(ctx context.Context) error {
	g := r.g
	// The lock prevents deletes from the filter at the instant. Such a delete would be repeated in the
	// new filter, which never had the key.
	g.work.Lock()
	r.unwork = sync.OnceFunc(g.work.Unlock)
	defer r.unwork()
	if g.positions != nil { // otherwise incoming keys that are deleted by now would get into the new filter
		if err := g.drain(); err != nil {
			g.fail(err)
			return err
		}
	}
	defer r.end()
	err := g.filter.Rebuild(ctx, &guarded.RebuildOptions{
		RebuildOptions: mmapfilter.RebuildOptions{FalsePositiveRate: g.options.FalsePositiveRate, Keys: r.keys},
		CapacityFor:    r.capacityFor,
		Hashes:         func() []uint64 { return r.listed },
	})
	r.unwork()
	if r.snapshot.Close != nil {
		err = errors.Join(err, r.snapshot.Close())
	}
	overflowed := g.overflow.end(err == nil)
	g.mu.Lock()
	if err != nil {
		g.mu.due = g.mu.due.and(g.mu.under)
	}
	g.mu.under = due{}
	g.mu.Unlock()
	if err != nil {
		return err
	}
	loose, err := r.takeIn(overflowed)
	if err != nil {
		return err
	}
	if err := g.built(false, r.doubts); err != nil {
		return err
	}
	g.forget(loose)
	return nil
}

// keys takes the snapshot and returns its keys. When it is called, no operation of the filter is under
// way.
func (r *rebuild) keys() (iter.Seq2[[]byte, error], error) {
	g := r.g
	defer r.unwork()
	g.mu.Lock() // until the list is complete, no transaction begins its commit
	defer g.mu.Unlock()
	var err error
	if r.snapshot, err = g.store.Snapshot(); err != nil {
		return nil, err
	}
	for _, t := range g.mu.open {
		if !t.listed {
			t.listed = true
			g.mu.listed++
		}
		r.listed = append(append(r.listed, t.puts...), t.again...)
	}
	r.listed = slices.AppendSeq(r.listed, maps.Keys(g.mu.unsure))
	// Nobody knows whether the snapshot has a key whose delete is under way. So this delete is never
	// done in the new filter.
	g.mu.dropped = append(g.mu.dropped, g.mu.deletes...)
	g.mu.deletes = nil
	g.mu.under, g.mu.due = g.mu.due, due{}
	if r.doubts = g.mu.doubts; g.isBypassed() {
		r.doubts = -1 // an operation may still be writing keys that the snapshot lacks
	}
	r.begun, r.puts = true, g.mu.churning.puts
	r.before = g.filter.Len() + uint64(g.overflow.begin())
	g.views.Add(1) // the new filter lacks the keys that are deleted by now
	return r.sequence, nil
}

// sequence yields the keys of the snapshot.
func (r *rebuild) sequence(yield func([]byte, error) bool) {
	g := r.g
	for key, err := range r.snapshot.Keys {
		if err == nil && !g.covers(key) {
			continue
		}
		if !yield(key, err) || err != nil {
			return
		}
	}
	if err := r.settle(); err != nil {
		yield(nil, err)
	}
}

// settle makes all deletes before the instant durable in the store, since the new filter lacks the
// deleted keys (G1). It makes a mark, or at least gives the filter a new token, so that a store restored
// from an older backup does not match the new filter.
func (r *rebuild) settle() error {
	g := r.g
	g.mu.Lock()
	if g.options.Hooks != nil && g.options.Hooks.Manual && g.mu.listed > 0 {
		g.mu.Unlock()
		return errUnderWay
	}
	for g.mu.listed > 0 { // wait for the listed transactions: the entries of their deletes are removed, too
		g.mu.done.Wait()
	}
	dropped := g.mu.dropped
	c := Changes{Remove: entriesOfDeletes(dropped)}
	for _, p := range dropped {
		g.mu.under.addGone(uint64(len(p.hashes))) // if this rebuild fails, these hashes stay in the old filter
	}
	g.mu.Unlock()
	g.work.Lock()
	defer g.work.Unlock()
	var err error
	if g.isBuilding() { // no token in the store may name the filter yet
		if err = g.store.Write(c); err == nil {
			err = g.setToken(newToken(g.hooks().Random, g.token), false)
		}
	} else {
		err = g.mark(c, false)
	}
	if err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.mu.dropped = g.mu.dropped[len(dropped):]
	return nil
}

var errUnderWay = errors.New("a transaction is under way")

// takeIn puts the hashes that have overflowed since the instant into the new filter, durably if there
// are loose records. It returns the number of these records.
func (r *rebuild) takeIn(overflowed []uint64) (loose int, err error) {
	g := r.g
	g.work.Lock()
	defer g.work.Unlock()
	g.mu.Lock()
	loose = len(g.mu.loose)
	g.mu.Unlock()
	if err = r.insert(overflowed); err == nil && loose > 0 {
		err = g.sync()
	}
	return loose, err
}

// forget makes loose records stale if their transactions are done. Their hashes were in the snapshot,
// or takeIn has inserted them. The old filter lacks them, so the mark of built comes before: the mark
// that removes the records from the store is the next one, so the old filter no longer has the previous
// token.
func (g *Guard) forget(loose int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.overflow.any.Load() || g.mu.lost {
		return
	}
	var keep []*record
	for _, l := range g.mu.loose[:loose] {
		if l.done {
			g.mu.stale = append(g.mu.stale, l.key)
		} else {
			keep = append(keep, l)
		}
	}
	g.mu.loose = append(keep, g.mu.loose[loose:]...)
}

// insert moves hashes from the overflow into the filter, up to the first that finds no room.
func (r *rebuild) insert(overflowed []uint64) error {
	g := r.g
	g.order.Lock()
	defer g.order.Unlock()
	unplaced, done, err := g.insert(overflowed, true)
	g.order.operations += done.operations
	if err != nil {
		g.fail(err)
		return err
	}
	for _, h := range overflowed[:len(overflowed)-len(unplaced)] {
		g.overflow.take(h)
	}
	return nil
}
