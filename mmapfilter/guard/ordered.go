package guard

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// ErrGone is what [Ordered.Since] yields if the store cannot tell which keys came after a position.
var ErrGone = errors.New("the store cannot tell which keys the filter lacks")

// Positions take the place of the outbox, since an Ordered store tells which keys the filter lacks.
type positions struct {
	store    Ordered
	incoming incoming
	many     chan struct{} // says that a drain is due
	puts     atomic.Uint64 // transactions whose keys are on their way into the filter
	durable  atomic.Uint64 // how many of these have all their keys durably in the filter
	syncs    struct {
		sync.Mutex
		token token
		at    uint64 // the filter has the keys of all transactions up to this position
	}
}

// mostPosition is the greatest position for which the user sequence of a filter has room beside the
// token.
const mostPosition = 1<<baseBits - 1

// usePositions uses positions instead of the outbox if Options.Deletes is Rebuild, the store is
// Ordered, and its positions are below mostPosition. If they exceed mostPosition later, the filter
// keeps the last position that fits, and after a crash Open reads more keys.
func (g *Guard) usePositions() error {
	store, ok := g.store.(Ordered)
	if !ok || g.options.Deletes != Rebuild {
		return nil
	}
	at, err := store.Position()
	if err != nil || at >= mostPosition {
		return err
	}
	g.positions = &positions{store: store, many: make(chan struct{}, 1)}
	g.positions.syncs.at = at
	return nil
}

// put adds the hashes of a transaction to the incoming hashes.
func (g *Guard) put(hashes []uint64) {
	p := g.positions
	rest, many := p.incoming.put(hashes)
	if many {
		select {
		case p.many <- struct{}{}:
		default:
		}
	}
	if len(rest) > 0 { // drains is behind
		if err := g.take(rest); err != nil {
			g.fail(err)
		}
	}
	p.puts.Add(1)
}

// take puts hashes into the filter. Once a hash has found no room, it and all hashes after it overflow,
// even those that the filter already has, since a rebuild under way learns only of inserts.
func (g *Guard) take(hashes []uint64) error {
	unplaced, done, err := g.insert(hashes, true)
	if len(unplaced) > 0 {
		g.overflows(unplaced)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.mu.addKnown(done.known)
	return err
}

// drain puts the incoming hashes into the filter.
func (g *Guard) drain() error { return g.positions.incoming.drain(g.take) }

// drains runs in the background and drains the incoming hashes whenever there are many.
func (g *Guard) drains() {
	defer g.background.Done()
	for {
		select {
		case <-g.life.Done():
			return
		case <-g.positions.many:
		}
		if err := g.drain(); err != nil {
			g.fail(err)
		}
		if g.isFull() {
			g.kick()
		}
	}
}

// Sync makes the filter durable now, and does nothing else.
func (g *Guard) Sync() error {
	if g.filter == nil || g.readOnly {
		return nil
	}
	g.closing.RLock() // Close waits until no Sync is under way
	defer g.closing.RUnlock()
	if g.unusable() != nil {
		return nil
	}
	return g.sync()
}

// sync is Sync for a filter that is in use. After an error the filter is no longer used.
func (g *Guard) sync() (err error) {
	if g.positions == nil {
		err = g.filter.Sync()
	} else {
		err = g.syncAt(0)
	}
	if err != nil {
		g.fail(err)
	}
	return err
}

// syncAt makes the filter durable, with the present position, and with the token next unless next is 0.
// If the filter lacks keys, it keeps its old position.
func (g *Guard) syncAt(next token) error {
	p := g.positions
	p.syncs.Lock()
	defer p.syncs.Unlock()
	// Every transaction up to this position has already put its keys, so the drain takes them into the
	// filter. If the position were read after the drain or the sync, a crash could hide keys that came
	// in between.
	puts := p.puts.Load()
	at, err := p.store.Position()
	if err == nil {
		err = g.drain()
	}
	if err != nil {
		return err
	}
	whole := g.isWhole()
	if !whole || at > mostPosition {
		at = p.syncs.at
	}
	if next == 0 {
		next = p.syncs.token
	}
	if err := g.filter.SyncAtFunc(func(uint64) uint64 { return pack(next, at) }); err != nil {
		return err
	}
	p.syncs.token, p.syncs.at = next, at
	if whole {
		p.durable.Store(puts)
		g.mu.Lock()
		defer g.mu.Unlock()
		g.mu.durableAt = time.Now()
	}
	return nil
}

func (p *positions) at() uint64 {
	p.syncs.Lock()
	defer p.syncs.Unlock()
	return p.syncs.at
}

// isWhole reports whether the filter has all hashes that it was given, so that none has overflowed.
func (g *Guard) isWhole() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return !g.mu.lost && !g.overflow.any.Load()
}

// catchUp puts the keys that came after the filter's position into the filter. An error says why the
// filter must be rebuilt instead.
//
// Positions may be reused: a store that has lost its last transactions gives their positions to the
// next ones. So the filter gets the present position with a new token (see mark) before the first
// transaction.
func (g *Guard) catchUp(s *state) error {
	at, from := unpack(g.filter.DurableSeq())
	if at == s.stamp.previous && s.stamp.reset {
		// The filter is from before the last Open. Only the keys up to the position at which that Open
		// began are certain to be in it.
		from = min(from, s.stamp.previousAt)
	}
	p := g.positions
	p.syncs.token, p.syncs.at = at, min(from, p.syncs.at)
	var hashes []uint64
	for key, err := range p.store.Since(p.syncs.at) {
		if err != nil {
			return err
		}
		if !g.covers(key) {
			continue
		}
		if hashes = append(hashes, g.filter.Hash(key)); len(hashes) == mostIncoming {
			if err := g.takeMissing(hashes); err != nil {
				return err
			}
			hashes = hashes[:0]
		}
	}
	return g.takeMissing(hashes)
}

// takeMissing puts hashes into the filter, and hashes that find no room into the overflow.
func (g *Guard) takeMissing(hashes []uint64) (err error) {
	g.counts.replayed.Add(uint64(len(hashes)))
	if g.readOnly {
		hashes = slices.DeleteFunc(hashes, g.filter.ContainsHash)
	} else if hashes, _, err = g.insert(hashes, true); err != nil {
		return err
	}
	if !g.overflow.addAll(hashes) {
		return errTooMany
	}
	return nil
}
