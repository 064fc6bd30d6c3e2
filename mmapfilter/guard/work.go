package guard

import (
	"encoding/binary"
	"fmt"
	"slices"
	"time"
)

// commits calls housekeep once an interval.
func (g *Guard) commits() {
	defer g.background.Done()
	tick := time.NewTicker(g.options.CommitInterval)
	defer tick.Stop()
	for {
		select {
		case <-g.life.Done():
			return
		case <-tick.C:
			g.housekeep()
		}
	}
}

// housekeep does the work of an interval. It writes to the store only if it must.
func (g *Guard) housekeep() {
	g.work.Lock()
	defer g.work.Unlock()
	g.idle = true
	_ = g.workNow() // the next interval tries again
	g.idle = false
	g.mu.Lock()
	g.mu.churning.tick()
	g.mu.Unlock()
	g.consider()
}

// Work does the work of the background now, except a rebuild: it makes the filter durable, deletes
// from it the keys that the store has deleted, and empties the outbox.
func (g *Guard) Work() error {
	g.work.Lock()
	defer g.work.Unlock()
	if g.isClosed() {
		return ErrClosed
	}
	if g.readOnly {
		return nil
	}
	return g.workNow()
}

// workNow is Work. REQUIRES: g.work.
func (g *Guard) workNow() error {
	if g.isFailed() {
		return g.tellOfFailure()
	}
	if g.filter == nil {
		return nil
	}
	if p := g.positions; (p == nil || p.durable.Load() != p.puts.Load()) && g.sync() != nil {
		return g.tellOfFailure()
	}
	return g.round()
}

// trim returns changes that remove from the outbox what the filter has durably: the first n records.
// REQUIRES: g.work.
func (g *Guard) trim() (c Changes, n int) {
	if g.positions != nil {
		return c, 0
	}
	durable := g.base + g.filter.DurableOps()
	g.order.Lock()
	defer g.order.Unlock()
	records := g.order.records
	for n < len(records) && records[n].done && records[n].end <= durable {
		n++
	}
	if n > 0 || len(records) == 0 {
		g.mu.Lock()
		g.mu.durableAt = time.Now()
		g.mu.Unlock()
	}
	if n > 0 {
		g.trimmed = durable
		c.Remove = []Range{{From: records[0].key, To: just(records[n-1].key).To}}
		c.Set = []Entry{{entryKey(keyTrimmed), binary.LittleEndian.AppendUint64(nil, durable)}}
	}
	return c, n
}

// round removes from the store the entries that are no longer needed, and deletes from the filter the
// keys that the store has deleted (G1). A mark first makes these deletes durable in the store and
// removes their entries. A crash after the mark may leave keys in the filter, which does no harm.
// REQUIRES: g.work.
func (g *Guard) round() error {
	c, n := g.trim()
	g.mu.Lock()
	var deletes []*deletion
	var stale [][]byte
	if !g.mu.building {
		deletes, g.mu.deletes = g.mu.deletes, nil
		stale = g.mu.stale
	}
	g.mu.Unlock()
	for _, key := range stale {
		c.Remove = append(c.Remove, just(key))
	}
	c.Remove = append(c.Remove, entriesOfDeletes(deletes)...)
	var err error
	if len(deletes) > 0 || len(stale) > 0 {
		err = g.mark(c, false)
	} else if len(c.Remove) > 0 {
		err = g.write(c)
	}
	g.mu.Lock()
	if err != nil {
		g.mu.deletes = append(deletes, g.mu.deletes...)
	} else {
		g.mu.stale = g.mu.stale[len(stale):]
	}
	g.mu.Unlock()
	if err != nil {
		return err
	}
	return g.done(n, deletes)
}

// write changes entries of the store. In the work of an interval, write does not wait for readers: if
// there are any, it returns ErrBusy, and the next interval tries again. REQUIRES: g.work.
func (g *Guard) write(c Changes) error {
	if s, ok := g.store.(IdleWriter); ok && g.idle {
		return s.WriteIdle(c)
	}
	return g.store.Write(c)
}

// done drops the first n records, and removes keys from the filter. REQUIRES: g.work.
func (g *Guard) done(n int, deletes []*deletion) error {
	if len(deletes) > 0 {
		g.views.Add(1)
	}
	g.order.Lock()
	defer g.order.Unlock()
	g.order.free = append(g.order.free, g.order.records[:n]...)
	g.order.records = slices.Delete(g.order.records, 0, n)
	for _, p := range deletes {
		if err := g.remove(p.hashes); err != nil {
			g.fail(err)
			return err
		}
	}
	return nil
}

// remove removes hashes from the overflow, or else from the filter. If the filter lacked a hash, it
// could remove another key in its place: so once the overflow has had no room for some hashes, all
// others stay until the rebuild. REQUIRES: g.order.
func (g *Guard) remove(hashes []uint64) error {
	g.mu.Lock()
	lost := g.mu.lost || g.mu.under.lost
	g.mu.unknown = g.mu.unknown || lost
	g.mu.Unlock()
	for _, h := range hashes {
		if g.overflow.take(h) || lost {
			continue
		}
		if _, err := g.filter.DeleteHash(h); err != nil {
			return err
		}
		g.order.operations++
	}
	return nil
}

// mark puts a new token into the store and then into the filter. Of all keys that the store has ever
// had, only keys deleted before the last mark leave the filter. So a store and a filter with the same
// token may be from different times, and the filter still has all keys of the store. With reset,
// operations are counted anew. REQUIRES: g.work.
func (g *Guard) mark(c Changes, reset bool) error {
	next := newToken(g.hooks().Random, g.token)
	g.mu.Lock()
	s := stamp{id: g.id, mode: g.options.Deletes, ordered: g.positions != nil, reset: reset, token: next, previous: g.token, previousAt: g.trimmed, capacity: g.options.Capacity, covers: g.options.covered()}
	if g.mu.building { // the old filter may have the previous token, and lack keys
		s.previous = 0
	}
	due := g.mu.due.and(g.mu.under)
	// After a crash, nobody will know what was deleted after the mark.
	s.gone, s.unknown = due.gone, !g.mu.closed || due.unknown || due.tooMany || due.deleted > due.gone
	g.mu.Unlock()
	if g.positions != nil {
		s.previousAt = g.positions.at()
	}
	c.Set = append(c.Set, g.id.owner(), Entry{entryKey(keyStamp), s.encode()})
	if err := g.write(c); err != nil {
		return err
	}
	return g.setToken(next, reset)
}

// setToken puts a token into the filter, as the second step of a mark. REQUIRES: g.work.
func (g *Guard) setToken(next token, reset bool) error {
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

// built makes a mark for a filter that has been built, and lets it serve. If Doubt has been called
// since the instant of the build, at which Guard.mu.doubts was doubts, the filter does not serve.
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

// Doubt says that an operation is about to bypass the guard, so that the store may have keys that the
// filter lacks, now or after a crash. Every answer is "maybe" until a later [Guard.Rebuild] has ended.
// Call Rebuild once the operation has ended. If several operations overlap, call it after the last of
// them, or use [Guard.Bypass]. With [Exact], no transaction may be between Prepare and Done while the
// operation deletes keys; see [Tx.DeleteUnknown].
func (g *Guard) Doubt() error { return g.doubt(&g.mu.doubtful) }

// doubt is Doubt. It counts the call in n.
func (g *Guard) doubt(n *int) error {
	g.mu.Lock()
	g.mu.building = true
	g.mu.doubts++
	*n++
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
		*n = max(*n-1, 0)
	}
	return err
}
