package replica

import (
	"time"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
)

// Contains is [mmapfilter.Filter.Contains].
func (r *Replica) Contains(key []byte) bool { return r.filter.Load().Contains(key) }

// ContainsString is Contains for a key in a string.
func (r *Replica) ContainsString(key string) bool { return r.filter.Load().ContainsString(key) }

// ContainsBatch is [mmapfilter.Filter.ContainsBatch]. One file answers the whole batch.
func (r *Replica) ContainsBatch(keys [][]byte, found []bool) {
	r.filter.Load().ContainsBatch(keys, found)
}

// Count is [mmapfilter.Filter.Count].
func (r *Replica) Count(key []byte) uint64 { return r.filter.Load().Count(key) }

// Len is [mmapfilter.Filter.Len].
func (r *Replica) Len() uint64 { return r.filter.Load().Len() }

// Cap is [mmapfilter.Filter.Cap].
func (r *Replica) Cap() uint64 { return r.filter.Load().Cap() }

// Filter returns the filter in use, for questions that must be about one file, such as lookups by hash.
// The filter belongs to the replica, which closes it when a new snapshot takes its place. From then on
// this filter answers "maybe" to every key.
func (r *Replica) Filter() *mmapfilter.Filter { return r.filter.Load() }

// Stats says how far the replica has come. The Stats of [Replica.Filter] say the rest.
func (r *Replica) Stats() Stats {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.mu.stats
	switch {
	case s.Primary.Descent != s.Position.Descent: // the next exchange takes a snapshot
		s.LagOperations = s.Primary.Number
	case s.Primary.Number > s.Position.Number:
		s.LagOperations = s.Primary.Number - s.Position.Number
	}
	s.LagSeconds = time.Since(r.mu.current).Seconds()
	return s
}

// Err returns why the last exchange with the server failed, or why the file cannot be used, or nil.
// After Close it returns ErrClosed.
func (r *Replica) Err() error {
	if r.closed.Load() {
		return mmapfilter.ErrClosed
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mu.err != nil {
		return r.mu.err
	}
	return r.filter.Load().Err()
}

// Close ends the exchange, and closes the filter: lookups answer "maybe" from then on. Closing again
// does nothing and returns nil.
func (r *Replica) Close() error {
	if r.closed.Swap(true) {
		return nil
	}
	r.end(mmapfilter.ErrClosed)
	<-r.ended
	return r.filter.Load().Close()
}
