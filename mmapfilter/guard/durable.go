package guard

import (
	"time"
)

// Sync makes the filter durable now, and nothing else.
func (g *Guard) Sync() error {
	if g.filter == nil || g.readOnly || g.isFailed() {
		return nil
	}
	return g.sync()
}

// sync is Sync of a filter in use. After an error the filter is not used any more.
func (g *Guard) sync() (err error) {
	if g.log == nil {
		err = g.filter.Sync()
	} else {
		err = g.syncLog(0)
	}
	if err != nil {
		g.fail(err)
	}
	return err
}

// syncLog makes the filter durable, with a new token if that is not 0.
func (g *Guard) syncLog(next token) error {
	g.mu.Lock()
	prepared := g.mu.prepared
	g.mu.Unlock()
	if err := g.log.sync(next); err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.mu.synced = max(g.mu.synced, prepared)
	g.mu.durableAt = time.Now()
	return nil
}

// Flushing says that the store is about to flush: to write keys to another file, after which that part
// of the log is not read any more. When it returns, the filter has these keys durably. Call it from the
// goroutine that flushes.
func (g *Guard) Flushing() {
	if g.log == nil || g.filter == nil || g.readOnly {
		return
	}
	g.flushes.Lock()
	defer g.flushes.Unlock()
	if !g.log.isDurable() && !g.isFailed() && !g.isClosed() {
		g.sync() // if that fails, Open finds that the log lacks an epoch
	}
}

// flushed waits until no flush waits for the filter. Once the guard is closed, no flush does.
func (g *Guard) flushed() {
	g.flushes.Lock()
	defer g.flushes.Unlock()
}

// Unlogged makes the keys of all prepared transactions durable in the filter. Call it if their commits
// will not be in the log.
func (g *Guard) Unlogged() error {
	if g.log == nil || g.filter == nil {
		return nil
	}
	if !g.isFailed() {
		if err := g.log.unlogged(); err == nil {
			return nil
		} else {
			g.fail(err)
		}
	}
	return g.tellOfFailure()
}
