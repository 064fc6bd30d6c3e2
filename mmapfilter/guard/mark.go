package guard

import (
	"fmt"
)

// mark puts a new token into the store and then into the filter. Of the store's keys, only those that
// it deleted before the last mark leave the filter. So if a store and a filter from different times
// have the same token, the filter has all keys of the store anyway. With reset, operations are counted
// anew. REQUIRES: g.work.
func (g *Guard) mark(c Changes, reset bool) error {
	next := newToken(g.hooks().Random, g.token)
	g.mu.Lock()
	s := stamp{id: g.id, mode: g.options.Deletes, ordered: g.positions != nil, reset: reset, token: next, previous: g.token, previousAt: g.trimmed, capacity: g.options.Capacity, covers: g.options.covered()}
	due := g.mu.due.and(g.mu.under)
	// After a crash nobody knows what was deleted after the mark.
	s.gone, s.unknown = due.gone, !g.mu.closed || due.unknown || due.tooMany || due.deleted > due.gone
	g.mu.Unlock()
	if g.positions != nil {
		s.previousAt = g.positions.at()
	}
	c.Set = append(c.Set, g.id.owner(), Entry{entryKey(keyStamp), s.encode()})
	if err := g.store.Write(c); err != nil {
		return err
	}
	base, err := g.base, error(nil)
	if g.positions != nil {
		err = g.syncAt(next)
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

// built marks a filter that has been built, so that it serves, unless Doubt has been called since.
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

// Doubt says that an operation is about to write past the guard, so the store may have keys that the
// filter lacks, now or after a crash. Every answer is "maybe" until a later [Guard.Rebuild] has ended.
// Call that once the operation has ended; if several overlap, after the last.
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
