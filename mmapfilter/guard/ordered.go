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

// Positions takes the place of the outbox: an Ordered store tells which keys the filter lacks.
type positions struct {
	store    Ordered
	incoming incoming
	many     chan struct{} // it is time to drain
	puts     atomic.Uint64 // transactions whose keys are on their way into the filter
	durable  atomic.Uint64 // of puts: the filter has their keys durably
	syncs    struct {
		sync.Mutex
		token token
		at    uint64 // the filter has the keys of all transactions up to this position
	}
}

// mostPosition is the greatest position that a filter has room for, beside its token.
const mostPosition = 1<<baseBits - 1

// usePositions uses positions instead of the outbox if the store is Ordered and its positions are
// well below mostPosition. If they exceed mostPosition later, the filter keeps the last one that
// fits, and after a crash Open reads more keys.
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

// put puts the hashes of a transaction among the incoming hashes.
func (g *Guard) put(hashes []uint64) {
	p := g.positions
	rest, many := p.incoming.put(hashes)
	if many {
		select {
		case p.many <- struct{}{}:
		default:
		}
	}
	if len(rest) > 0 { // the background is behind
		if err := g.take(rest); err != nil {
			g.fail(err)
		}
	}
	p.puts.Add(1)
}

// take puts hashes into the filter. Once a hash has found no room, it and all hashes after it
// overflow, even hashes that the filter has: a rebuild under way learns only of inserts.
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

// drains drains the incoming hashes when there are many.
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

// Sync makes the filter durable now, and nothing else.
func (g *Guard) Sync() error {
	if g.filter == nil || g.readOnly {
		return nil
	}
	g.closing.RLock() // Close waits until nobody is here
	defer g.closing.RUnlock()
	if g.unusable() != nil {
		return nil
	}
	return g.sync()
}

// sync is Sync of a filter in use. After an error the filter is not used any more.
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

// syncAt makes the filter durable, with the present position, and with a new token if that is not 0.
// If the filter lacks keys, it keeps its old position.
func (g *Guard) syncAt(next token) error {
	p := g.positions
	p.syncs.Lock()
	defer p.syncs.Unlock()
	// A transaction up to this position has put its keys before: drain takes them in. If the
	// position were read after the drain or the sync, keys that came in between would be
	// hidden.
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

// isWhole reports whether the filter has all hashes that it was given: none is in the overflow.
func (g *Guard) isWhole() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return !g.mu.lost && !g.overflow.any.Load()
}

// catchUp puts the keys into the filter that came after its position. An error says why the filter must
// be rebuilt instead.
//
// Positions repeat: a store that has lost its last transactions numbers the next ones like them. So
// the filter gets the present position with a new token (see mark) before there is a transaction.
func (g *Guard) catchUp(s *state) error {
	at, from := unpack(g.filter.DurableSeq())
	if at == s.stamp.previous && s.stamp.reset {
		// The filter is from before the last Open: it surely has only the keys up to
		// the position at which that Open began.
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
