package guard

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/guarded"
)

// kick has the background rebuild the filter.
func (g *Guard) kick() {
	select {
	case g.wake <- struct{}{}:
	default:
	}
}

// rebuilds rebuilds the filter when it is due.
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
			err := g.rebuild(g.life)
			if wait = 0; err != nil {
				wait = max(retryAfter, retryShare*time.Since(begun))
			}
			if g.life.Err() != nil {
				return
			}
		}
	}
}

// retryAfter is how long a rebuild that failed is not tried again, at least, and retryShare how
// many times as long as it took: it may have read the whole store. One that failed since more keys
// came than it had room for is tried again at once, with at least twice the room, and with room for
// these keys, but no more than mostTries in a row; and not if it had much more room than that, so
// something else is the matter.
const (
	retryAfter = 10 * time.Second
	retryShare = 16
	mostTries  = 6
)

// Limits for a rebuild. Each rebuild reads all keys of the store, so none begins for a small gain; and
// after each the filter has twice the room it needs, so that as many keys must come or go again before
// the next, which makes the cost of a key constant.
const (
	full        = 0.9     // of the capacity: so that keys which come during the rebuild find room
	manyGone    = 0.5     // of the items: then the others are at most half, and what is read pays off
	someGone    = 1. / 16 // of the items: what may pass beyond the rate asked, and is not worth a rebuild
	tooLarge    = 8       // times what is there: twice, and room for the store to grow fourfold again
	growth      = 2       // capacity for each key
	tooManyPass = 1.5     // times the rate asked for: less is seen late, among chance; twice is the bound
	churn       = 16      // capacity for each key that comes during a rebuild, and goes: see churning
	idle        = 16      // intervals without a put, after which a burst is over
)

// A churning store puts and deletes keys while the filter is rebuilt, such as a queue: those that
// are there at any instant say nothing of the room that is needed until the next rebuild. So the
// filter has room for many times what came during the last one, which is then a small part of the
// time.
type churning struct {
	puts   uint64 // keys that have been put
	came   uint64 // of them during the last rebuild, or at least half of what came during the one before
	room   uint64 // capacity that the filter has for what comes and goes
	ticked uint64 // puts at the last interval
	idle   int    // intervals since the last put
}

// tick forgets it when nothing has come for some intervals.
func (c *churning) tick() {
	if c.idle++; c.puts != c.ticked {
		c.ticked, c.idle = c.puts, 0
	}
	if c.idle >= idle {
		c.came, c.room = 0, 0
	}
}

// A due says what a rebuild would mend.
type due struct {
	gone    uint64 // keys deleted from the store but not from the filter, about
	deleted uint64 // these, and those that may have been put again
	excess  uint64 // absent keys that have passed the filter, beyond those that were asked for
	unknown bool   // there may be more of them
	tooMany bool   // absent keys pass the filter, but because of keys that are gone
	lost    bool   // keys have overflowed that nobody remembers
	unfit   bool   // the options ask for another filter
}

// and returns what is due if both are.
func (d due) and(e due) due {
	return due{
		d.gone + e.gone, d.deleted + e.deleted, d.excess + e.excess,
		d.unknown || e.unknown, d.tooMany || e.tooMany, d.lost || e.lost, d.unfit || e.unfit,
	}
}

// leave counts keys that are in the filter but not in the store.
func (d *due) leave(keys uint64) {
	d.gone += keys
	d.deleted += keys
}

// know counts keys that were put and that the filter had: they may be some of those.
func (d *due) know(keys uint64) { d.gone = max(d.gone, keys) - keys }

func (g *Guard) isFull() bool {
	return float64(g.filter.Len()) >= full*float64(g.filter.Cap())
}

// wants reports whether a rebuild is due.
func (g *Guard) wants() bool {
	if g.filter == nil {
		return false
	}
	items, capacity := g.filter.Len(), g.filter.Cap()
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.mu.failed != nil || g.mu.closed || g.mu.doubtful > 0 { // the operation may not have ended
		return false
	}
	if g.mu.building || g.mu.lost || g.mu.unfit || g.overflow.any.Load() || float64(items) >= full*float64(capacity) {
		return true
	}
	// While there is room, these keys cost nothing unless they are asked for.
	worth := max(someAtAll, uint64(someGone*float64(capacity)), uint64(manyGone*float64(g.mu.churning.room)))
	if float64(g.mu.gone) > manyGone*float64(items) && g.mu.gone > worth {
		return true
	}
	there := max(items-min(g.mu.gone, items), g.mu.churning.room/growth)
	return capacity > g.options.Capacity && there < capacity/tooLarge || g.mu.tooMany
}

// fit settles what the options leave to the filter. own says that this was made for a store, the
// filter of which may have failed, or died while it was built. s is nil if the store does not say
// anything of it.
func (g *Guard) fit(s *state, own bool) {
	var f guarded.Filter
	if own {
		f = g.filter
	}
	var asked uint64
	if s != nil {
		asked = s.stamp.capacity
	}
	g.mu.unfit, g.mu.err = g.options.fit(f, asked)
}

// fit fills in what is 0 with what a filter has, or, if that is nil, with the defaults. asked is
// the capacity that was asked for when it was open last, or 0 if nobody knows. unfit says that the
// options that are not 0 ask for another filter. If there can be none, they are those of the filter
// from then on.
func (o *Options) fit(f guarded.Filter, asked uint64) (unfit bool, err error) {
	if f == nil {
		o.Capacity, o.FalsePositiveRate = cmp.Or(o.Capacity, defaultCapacity), cmp.Or(o.FalsePositiveRate, defaultRate)
		return false, nil
	}
	rate, capacity := f.TargetRate(), f.Cap()
	least := min(capacity, cmp.Or(asked, defaultCapacity))
	if asked == 0 && f.Len() < capacity/tooLarge { // it may have been asked for, and keeps its size
		least = capacity
	}
	unfit = o.FalsePositiveRate != 0 && o.FalsePositiveRate != rate || o.Capacity >= growth*capacity
	if unfit {
		err = (&mmapfilter.Options{Capacity: o.Capacity, FalsePositiveRate: o.FalsePositiveRate}).Validate()
	}
	if err != nil {
		o.Capacity, o.FalsePositiveRate = least, rate
		return false, err
	}
	o.Capacity, o.FalsePositiveRate = cmp.Or(o.Capacity, least), cmp.Or(o.FalsePositiveRate, rate)
	return unfit, nil
}

// someAtAll is how many keys make it worth while to rebuild a filter.
const someAtAll = 1000

// tooManyPass reports whether the share of absent keys that have passed the filter since the last
// look is certainly too large, and a rebuild would help, since keys have been deleted. If these are
// few, or may have been put again, it helps only once as many keys have passed as make a rebuild
// worth while, which reads all keys once: a program may ask for one false positive again and again.
func (g *Guard) tooManyPass() bool {
	items := g.filter.Len()
	g.mu.Lock()
	defer g.mu.Unlock()
	skipped, passed := g.counts.absent()
	falsePositives := float64(passed - g.mu.seen.passed)
	expected := g.options.FalsePositiveRate * (float64(skipped-g.mu.seen.skipped) + falsePositives)
	if falsePositives < 4*considerEvery {
		return false
	}
	g.mu.seen.skipped, g.mu.seen.passed = skipped, passed
	if falsePositives > tooManyPass*expected+4*math.Sqrt(expected) {
		if g.mu.deleted > 0 {
			g.mu.excess += uint64(falsePositives - expected)
		}
		few := uint64(someGone * float64(items))
		g.mu.tooMany = g.mu.tooMany || g.mu.unknown || g.mu.gone > few || g.mu.excess > few
	}
	return g.mu.tooMany
}

// consider kicks the background if a rebuild is due.
func (g *Guard) consider() {
	if g.wants() {
		g.kick()
	}
}

// Rebuild rebuilds the filter from the keys of the store. Reads and transactions go on meanwhile.
// The guard does so by itself when it helps; after something else has written to the store, call it.
func (g *Guard) Rebuild(ctx context.Context) error {
	g.mu.Lock()
	g.mu.doubtful = 0
	g.mu.Unlock()
	return g.rebuild(ctx)
}

func (g *Guard) rebuild(ctx context.Context) error {
	g.rebuilding.Lock()
	defer g.rebuilding.Unlock()
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
			break
		}
		r = &rebuild{g: g, least: max(growth*r.capacity, needed)}
		err = r.run(ctx)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.mu.churning.came = max(r.came, g.mu.churning.came/2)
	if g.mu.err = err; err == nil {
		g.mu.churning.room = r.room
		g.mu.rebuilds++
		g.mu.took = time.Since(begun)
	}
	return err
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

type rebuild struct {
	g        *Guard
	snapshot Snapshot
	listed   []uint64 // hashes of transactions that were under way at its instant
	doubts   int
	unwork   func()
	least    uint64 // capacity
	capacity uint64 // that it has had
	begun    bool   // its instant has passed
	puts     uint64 // at its instant
	came     uint64 // since then
	before   uint64 // keys in the old filter then
	items    uint64 // in the snapshot, and listed
	room     uint64 // for what comes and goes
}

// capacityFor returns the capacity for so many keys.
func (r *rebuild) capacityFor(keys uint64) uint64 {
	r.items = keys
	gone := r.before - min(keys, r.before) // since the last rebuild
	r.g.mu.Lock()
	r.room = churn * min(r.g.mu.churning.came, gone)
	r.g.mu.Unlock()
	r.capacity = max(r.g.options.Capacity, growth*keys, r.least, r.room)
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
	// Until the instant of the snapshot nothing is on its way out of the filter: it would come out of
	// the new one, which never had it.
	g.work.Lock()
	r.unwork = sync.OnceFunc(g.work.Unlock)
	defer r.unwork()
	if g.log != nil { // what has been deleted since need not come into the new filter
		if err := g.log.drain(); err != nil {
			g.fail(err)
			return err
		}
	}
	defer r.end()
	err := g.filter.Rebuild(ctx, &mmapfilter.RebuildOptions{
		CapacityFor:       r.capacityFor,
		FalsePositiveRate: g.options.FalsePositiveRate,
		Keys:              r.keys,
		Hashes:            func() []uint64 { return r.listed },
	})
	r.unwork()
	if r.snapshot.Close != nil {
		err = errors.Join(err, r.snapshot.Close())
	}
	left := g.overflow.end(err == nil)
	g.mu.Lock()
	if err != nil {
		g.mu.due = g.mu.due.and(g.mu.under)
	}
	g.mu.under = due{}
	g.mu.Unlock()
	if err != nil {
		return err
	}
	if err := r.takeIn(left); err != nil {
		return err
	}
	return g.built(false, r.doubts)
}

// keys takes the snapshot. No operation of the filter is under way.
func (r *rebuild) keys() (iter.Seq2[[]byte, error], error) {
	g := r.g
	defer r.unwork()
	g.mu.Lock() // no transaction begins to be committed that is not listed
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
		r.listed = append(r.listed, t.puts...)
	}
	r.listed = slices.AppendSeq(r.listed, maps.Keys(g.mu.unsure))
	// Whether the snapshot lacks a key whose delete is under way nobody knows: so that is never done.
	g.mu.dropped = append(g.mu.dropped, g.mu.deletes...)
	g.mu.deletes = nil
	g.mu.under, g.mu.due = g.mu.due, due{}
	if r.doubts = g.mu.doubts; g.mu.doubtful > 0 {
		r.doubts = -1 // the snapshot may lack what the operation will have written
	}
	r.begun, r.puts = true, g.mu.churning.puts
	r.before = g.filter.Len() + uint64(g.overflow.begin())
	g.views.Add(1) // the new filter lacks what was deleted before
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

// settle makes what is deleted in the snapshot durably deleted in the store, before a filter can
// lack it (G1), and marks store and filter, so that a store of before is not taken for this one.
func (r *rebuild) settle() error {
	g := r.g
	g.mu.Lock()
	if g.options.Hooks != nil && g.options.Hooks.Manual && g.mu.listed > 0 {
		g.mu.Unlock()
		return errUnderWay
	}
	for g.mu.listed > 0 { // their entries are to be removed, too
		g.mu.done.Wait()
	}
	dropped := g.mu.dropped
	var c Changes
	for _, p := range dropped {
		c.Remove = append(c.Remove, just(p.key))
		g.mu.under.leave(uint64(len(p.hashes))) // from the old filter they never go
	}
	g.mu.Unlock()
	g.work.Lock()
	defer g.work.Unlock()
	var err error
	if g.isBuilding() {
		err = g.store.Write(c) // nothing speaks for the filter yet
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

// takeIn puts what had overflowed since the instant into the new filter.
func (r *rebuild) takeIn(left []uint64) error {
	g := r.g
	g.work.Lock()
	defer g.work.Unlock()
	g.mu.Lock()
	loose := len(g.mu.loose)
	g.mu.Unlock()
	if err := r.insertLeft(left); err != nil {
		return err
	}
	if loose == 0 {
		return nil
	}
	if err := g.sync(); err != nil {
		return err
	}
	// Those of transactions that are done are in the snapshot, or have been put in just now.
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.overflow.any.Load() || g.mu.lost {
		return nil
	}
	var keep []*record
	t := g.mu.trim
	if t == nil && g.mu.trimOut {
		return nil // the next rebuild does it, or the next open
	}
	if t == nil {
		t = &trim{to: g.trimmed}
	}
	for _, l := range g.mu.loose[:loose] {
		if !l.done {
			keep = append(keep, l)
			continue
		}
		t.ranges = append(t.ranges, just(l.key))
	}
	g.mu.loose = append(keep, g.mu.loose[loose:]...)
	g.mu.trim, g.mu.trimOut = t, true
	return nil
}

func (r *rebuild) insertLeft(left []uint64) error {
	g := r.g
	g.order.Lock()
	defer g.order.Unlock()
	kept, operations, err := insertUntilFull(g.filter, left, g.options.Deletes == Rebuild)
	g.order.operations += operations
	if err != nil {
		g.fail(err)
		return err
	}
	for _, h := range left[:len(left)-len(kept)] { // the others stay
		g.overflow.take(h)
	}
	return nil
}
