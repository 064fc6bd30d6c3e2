package badgerguard

import (
	"sync"

	"github.com/dgraph-io/badger/v4"

	"github.com/mmapfilter/mmapfilter/mmapfilter/guard"
)

// A cleaner removes entries that are of no use any more. Badger deletes key by key, and a second may
// leave many entries. So the transaction that trims the outbox only notes how far it is trimmed, and
// the cleaner removes the entries later. Entries that it leaves do no harm, and the next Open
// removes them.
type cleaner struct {
	s    *store
	wake chan struct{}
	done chan struct{}
	mu   struct {
		sync.Mutex
		ranges []guard.Range
		closed bool
	}
}

func newCleaner(s *store) *cleaner {
	c := &cleaner{s: s, wake: make(chan struct{}, 1), done: make(chan struct{})}
	go c.run()
	return c
}

// add has the cleaner remove ranges of entries.
func (c *cleaner) add(ranges []guard.Range) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(ranges) == 0 || c.mu.closed {
		return
	}
	c.mu.ranges = append(c.mu.ranges, ranges...)
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// close waits for what has been added.
func (c *cleaner) close() {
	c.mu.Lock()
	if !c.mu.closed {
		c.mu.closed = true
		close(c.wake)
	}
	c.mu.Unlock()
	<-c.done
}

func (c *cleaner) run() {
	defer close(c.done)
	for range c.wake {
		c.mu.Lock()
		ranges := c.mu.ranges
		c.mu.ranges = nil
		c.mu.Unlock()
		c.s.remove(ranges) // or the next Open
	}
}

// remove removes entries, without making that durable.
func (s *store) remove(ranges []guard.Range) error {
	s.drop.RLock()
	defer s.drop.RUnlock()
	_, keys, err := s.keysIn(ranges)
	if err != nil || len(keys) == 0 {
		return err
	}
	w := &writer{s: s, lazy: true}
	w.begin()
	defer func() { w.txn.Discard() }()
	for _, key := range keys {
		w.do(func(txn *badger.Txn) error { return txn.Delete(key) })
	}
	w.commit()
	return w.err
}
