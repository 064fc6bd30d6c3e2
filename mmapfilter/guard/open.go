package guard

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/mmapfilter/mmapfilter/mmapfilter/internal/guarded"
)

// Open returns a guard for a store. Get the options from [Options.WithDefaults]. If the filter at
// o.Path may lack keys of the store, it is rebuilt in the background, and every answer is "maybe" until
// then. If the options ask for another filter, it is rebuilt, too, but the old one answers meanwhile.
// Open returns an error if Options.Mode is wrong, if the store fails, or if the filter fails while Open
// adds keys. If there can be no filter, as with a rate above 1, Stats says why.
func Open(store Store, o *Options) (*Guard, error) {
	g, stale, err := open(store, o, false)
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
		if g.positions != nil {
			g.background.Add(1)
			go g.drains()
		}
	}
	return g, nil
}

// OpenReadOnly returns a guard for a store that is only read. The guard does not rebuild the filter,
// and writes to it only to recover it if its writer has died.
func OpenReadOnly(store Store, o *Options) (*Guard, error) {
	g, broken, err := open(store, o, true)
	if err != nil {
		return nil, err
	}
	g.mu.failed = broken
	g.serving.Store(broken == nil)
	return g, nil
}

func newGuard(store Store, o *Options) *Guard {
	own := *o
	g := &Guard{options: &own, store: store, wake: make(chan struct{}, 1)}
	g.mu.done.L = &g.mu
	g.mu.durableAt = time.Now()
	g.life, g.end = context.WithCancel(context.Background())
	return g
}

// open opens the filter and inserts the keys that it lacks. If it must be rebuilt instead, stale says
// why.
func open(store Store, o *Options, readOnly bool) (g *Guard, stale error, err error) {
	if _, err := (&mmapfilter.Options{Mode: o.Mode}).Plan(); err != nil {
		return nil, nil, err
	}
	g = newGuard(store, o)
	g.readOnly = readOnly
	if err := g.usePositions(); err != nil {
		return nil, nil, err
	}
	entries, err := entriesOf(store)
	if err != nil {
		return nil, nil, err
	}
	openFilter := g.hooks().Open
	if readOnly {
		openFilter = openReadOnly
	}
	s, stale := readState(entries)
	if f, err := openFilter(o.Path); err == nil {
		g.filter = f
	} else if stale == nil {
		stale = err
	}
	if stale == nil {
		stale = s.check(g.filter, g.options, g.positions != nil)
	}
	if w, ok := store.(Watched); ok && stale == nil {
		stale = w.Untouched()
	}
	g.fit(s)
	switch {
	case stale != nil:
	case g.positions != nil:
		stale = g.catchUp(s)
	case readOnly:
		_, durable := durableIn(g.filter)
		if !g.overflow.addAll(s.missing(durable)) {
			stale = errTooMany
		}
	}
	if stale != nil || readOnly {
		return g, stale, nil
	}
	g.id = s.stamp.id
	if err := g.resume(s); err != nil {
		g.closeFilter()
		return nil, nil, err
	}
	return g, nil, nil
}

// entriesOf returns the entries of a store. If a program has put something else at OwnerName, the
// error is ErrReserved.
func entriesOf(store Store) ([]Entry, error) {
	entries, err := store.Entries()
	if err != nil {
		return nil, fmt.Errorf("read the entries of the guard: %w", err)
	}
	for _, e := range entries {
		if string(e.Key) == OwnerKey && !bytes.HasPrefix(e.Value, []byte(identityPrefix)) {
			return nil, ErrReserved
		}
	}
	return entries, nil
}

// resume does the operations of the outbox that the filter lacks (G2), and begins a new count of
// operations. The mark comes first and puts their hashes into a loose record, so that a kill meanwhile
// cannot lose one that finds no room, and so that a filter in which some operations are done belongs to
// this store alone, and not to an older or newer one. Deletes come last, after the mark has removed
// their entries from the outbox.
func (g *Guard) resume(s *state) error {
	g.token, g.trimmed = durableIn(g.filter)
	missing := s.missing(g.trimmed)
	g.counts.replayed.Add(uint64(len(missing)))
	changes := Changes{Remove: allEntries()}
	loose := &record{key: entryKey(keyLoose, 0), done: true}
	if len(missing) > 0 {
		changes.Set = []Entry{{loose.key, appendHashes(nil, missing)}}
	}
	g.mu.addGone(s.stamp.gone)
	g.mu.unknown = s.stamp.unknown
	if err := g.mark(changes, true); err != nil {
		return err
	}
	unplaced, done, err := g.insert(missing, false)
	g.order.operations = done.operations
	if err == nil && len(missing) > 0 {
		err = g.filter.Sync()
	}
	if err != nil {
		return fmt.Errorf("the filter %s: %w", g.options.Path, err)
	}
	g.mu.lost = !g.overflow.addAll(unplaced)
	if len(unplaced) > 0 {
		g.mu.loose = append(g.mu.loose, loose)
	} else if len(missing) > 0 {
		_, g.trimmed = durableIn(g.filter) // an older copy of the filter lacks them
		if err := g.mark(Changes{Remove: []Range{just(loose.key)}}, false); err != nil {
			return err
		}
	}
	if err := g.remove(s.deletes); err != nil {
		return fmt.Errorf("the filter %s: %w", g.options.Path, err)
	}
	g.serve()
	return nil
}

// begin creates an empty filter if the old one is stale. If the store is empty, the new filter can
// serve at once.
func (g *Guard) begin(stale error) error {
	if stale == nil {
		g.consider()
		return nil
	}
	g.closeFilter()
	g.mu.err, g.mu.unfit = stale, false
	// After this write, no crash can leave a stamp for a filter at this path, and no other guard trusts
	// its own filter (G6).
	g.id = newIdentity(g.hooks().Random)
	if err := g.store.Write(Changes{Remove: allEntries(), Set: []Entry{g.id.owner()}}); err != nil {
		return err
	}
	f, err := g.hooks().Create(g.options.Path, &mmapfilter.Options{
		Capacity: g.options.Capacity, FalsePositiveRate: g.options.FalsePositiveRate, Seed: g.hooks().Random(),
		Normalisation: g.id.String(), CommitInterval: -1, Mode: g.options.Mode,
		Overwrite: g.options.ownPath, // damage may have left nothing that identifies a filter
	})
	if err != nil {
		g.mu.failed = fmt.Errorf("no filter: %w", err)
		g.failureIsDurable.Store(true)
		return nil
	}
	g.filter = f
	g.order.operations = f.DurableOps() // the new file counts on from the old one
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

// fit fills in the options that the caller left at 0. It takes them from the filter if a guard created
// it, even for another store. s is the state that the store's entries describe, or nil.
func (g *Guard) fit(s *state) {
	var f guarded.Filter
	if g.filter != nil && ofGuard(g.filter) {
		f = g.filter
	}
	var asked uint64
	if s != nil {
		asked = s.stamp.capacity
	}
	g.mu.unfit, g.mu.err = g.options.fit(f, asked)
}

// Close makes the filter durable and closes it. It stops a rebuild that is under way. All transactions
// must have ended. Close the store after the guard.
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
	g.closing.Lock()    // waits for calls of Sync
	g.closing.Unlock()  //lint:ignore SA2001 it only waits
	g.rebuilding.Lock() // waits for a call of Rebuild
	defer g.rebuilding.Unlock()
	g.serving.Store(false)
	if g.filter == nil || g.readOnly {
		return g.closeFilter()
	}
	g.work.Lock()
	defer g.work.Unlock()
	err := g.workNow()
	if err == nil && !g.isFailed() && !g.isBuilding() {
		err = g.mark(Changes{}, false) // puts the number of gone keys into the stamp
		if err == nil {                // with checksums, the next Open notices damage
			err = g.filter.Seal(context.Background())
		}
	}
	return errors.Join(err, g.closeFilter())
}
