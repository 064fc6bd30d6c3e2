package guard

import "time"

// Stats describe a guard (G5). An expvar.Func that returns them publishes them.
type Stats struct {
	Lookups        uint64  `json:"lookups"`         // of keys that the guard covers
	Skipped        uint64  `json:"skipped"`         // lookups that did not reach the store
	TruePositives  uint64  `json:"true_positives"`  // lookups that passed the filter and found the key
	FalsePositives uint64  `json:"false_positives"` // lookups that passed the filter and found no key
	Unfiltered     uint64  `json:"unfiltered"`      // lookups that the filter could not answer
	Rate           float64 `json:"rate"`            // FalsePositives / (FalsePositives + Skipped)
	RateAsked      float64 `json:"rate_asked"`      // Options.FalsePositiveRate, or that of the filter

	State    string        `json:"state"`         // "serving", "building" or "off"
	Err      string        `json:"err,omitempty"` // why the filter is off, or was rebuilt, or could not be
	Keys     uint64        `json:"keys"`          // in the filter or on their way into it
	Gone     uint64        `json:"gone"`          // about how many of Keys the store has deleted
	Capacity uint64        `json:"capacity"`      // of the filter
	Overflow uint64        `json:"overflow"`      // keys that wait for a larger filter
	Rebuilds uint64        `json:"rebuilds"`      // since the guard was opened
	Rebuild  time.Duration `json:"rebuild"`       // how long the last one took, in nanoseconds
	Outbox   uint64        `json:"outbox"`        // transactions whose keys the filter does not have durably
	Age      time.Duration `json:"age"`           // how long they have waited, about, in nanoseconds
	Pending  uint64        `json:"pending"`       // deletes that the filter has not done
	Replayed uint64        `json:"replayed"`      // keys that Open took from the outbox, or from the store
}

// Stats returns the current statistics.
func (g *Guard) Stats() Stats {
	s := Stats{RateAsked: g.options.FalsePositiveRate, Unfiltered: g.counts.unfiltered.Load(), Replayed: g.counts.replayed.Load()}
	passed := uint64(0)
	for i := range g.counts.stripe {
		c := &g.counts.stripe[i]
		s.Skipped += c.skipped.Load()
		s.TruePositives += c.truePositives.Load()
		s.FalsePositives += c.falsePositives.Load()
		passed += c.passed.Load()
	}
	s.Lookups = s.Skipped + passed + s.Unfiltered
	if absent := s.FalsePositives + s.Skipped; absent > 0 {
		s.Rate = float64(s.FalsePositives) / float64(absent)
	}
	g.overflow.mu.RLock()
	s.Overflow = uint64(g.overflow.mu.n)
	g.overflow.mu.RUnlock()
	g.order.Lock()
	s.Outbox = uint64(len(g.order.records))
	g.order.Unlock()
	if f := g.filter; f != nil {
		s.Keys, s.Capacity = f.Len(), f.Cap()
	}
	if p := g.positions; p != nil {
		s.Keys += uint64(max(p.incoming.waiting.Load(), 0))
		durable := p.durable.Load() // before puts: it is not more
		s.Outbox = p.puts.Load() - durable
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, p := range g.mu.deletes {
		s.Pending += uint64(len(p.hashes))
	}
	if s.Outbox += uint64(len(g.mu.loose)); s.Outbox > 0 {
		s.Age = time.Since(g.mu.durableAt)
	}
	s.Gone, s.Rebuilds, s.Rebuild = g.mu.gone+g.mu.under.gone, g.mu.rebuilds, g.mu.took
	switch {
	case g.serving.Load():
		s.State = "serving"
	case g.mu.failed != nil || g.filter == nil:
		s.State = "off"
	default:
		s.State = "building"
	}
	if err := g.mu.failed; err != nil {
		s.Err = err.Error()
	} else if err := g.mu.err; err != nil {
		s.Err = err.Error()
	}
	return s
}
