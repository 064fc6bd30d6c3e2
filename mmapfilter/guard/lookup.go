package guard

import (
	"sync/atomic"
	"time"
)

// Absent reports whether a key is certainly not in the store. If it returns false, ask the store, and
// tell the guard the answer with [Guard.Found].
func (g *Guard) Absent(key []byte) bool { return g.absent(key, nil) }

// AbsentBatch is [Guard.Absent] for many keys. It stores the answer for keys[i] in absent[i]; absent
// must be at least as long as keys. It waits for the memory of many keys at a time, so it is faster
// than a call of Absent for each key.
func (g *Guard) AbsentBatch(keys [][]byte, absent []bool) {
	absent = absent[:len(keys)]
	clear(absent)
	if !g.serving.Load() {
		g.counts.unfiltered.Add(uint64(len(keys)))
		return
	}
	var hashes [64]uint64
	var at [len(hashes)]int
	for next := 0; next < len(keys); {
		n := 0
		for ; next < len(keys) && n < len(hashes); next++ {
			if g.covers(keys[next]) {
				hashes[n], at[n] = g.filter.Hash(keys[next]), next
				n++
			}
		}
		g.absentHashes(hashes[:n], at[:n], absent)
	}
}

// absentHashes looks up hashes in the places that [Guard.absent] names, in the same order, and stores
// the answer for hashes[i] in absent[at[i]].
func (g *Guard) absentHashes(hashes []uint64, at []int, absent []bool) {
	var found, on [64]bool
	for i, h := range hashes {
		on[i] = g.positions != nil && g.positions.incoming.has(h) || g.overflow.has(h)
	}
	g.filter.ContainsHashes(hashes, found[:len(hashes)])
	for i, h := range hashes {
		c := g.counts.of(h)
		if on[i] || found[i] {
			c.passed.Add(1)
			continue
		}
		absent[at[i]] = true
		c.skipped.Add(1)
	}
}

// A View is the instant at which a reading transaction, or a snapshot of the store, began.
type View uint64

// View returns the present instant. Call it before the transaction or snapshot begins.
func (g *Guard) View() View { return View(g.views.Load()) }

// AbsentIn is [Guard.Absent] for a transaction or snapshot that began at v. It may see keys that were
// deleted since v and have left the filter. So once any key has left the filter since v, AbsentIn
// returns false.
func (g *Guard) AbsentIn(v View, key []byte) bool { return g.absent(key, &v) }

func (g *Guard) absent(key []byte, v *View) bool {
	if !g.serving.Load() {
		g.counts.unfiltered.Add(1)
		return false
	}
	if !g.covers(key) {
		return false
	}
	h := g.filter.Hash(key)
	c := g.counts.of(h)
	// A hash moves from incoming or from the overflow to the filter, and is in the filter before it
	// leaves the other place, so ask the filter after both. The view changes before a key leaves the
	// filter, so compare the view last.
	if g.positions != nil && g.positions.incoming.has(h) || g.overflow.has(h) || g.filter.ContainsHash(h) {
		c.passed.Add(1)
		return false
	}
	if v != nil && *v != g.View() {
		g.counts.unfiltered.Add(1)
		return false
	}
	c.skipped.Add(1)
	return true
}

// Found says whether the store has a key for which [Guard.Absent] returned false.
func (g *Guard) Found(key []byte, there bool) { g.found(key, there) }

// FoundIn is [Guard.Found] after [Guard.AbsentIn].
func (g *Guard) FoundIn(v View, key []byte, there bool) {
	if v == g.View() { // otherwise the filter may not have been asked
		g.found(key, there)
	}
}

func (g *Guard) found(key []byte, there bool) {
	if !g.serving.Load() || !g.covers(key) {
		return
	}
	c := g.counts.of(uint64(len(key)))
	if there {
		c.truePositives.Add(1)
	} else if c.falsePositives.Add(1)%considerEvery == 0 && g.tooManyPass() {
		g.kick()
	}
}

// counts are incremented by many goroutines, so each count is divided into stripes.
type counts struct {
	stripe     [16]counted
	unfiltered atomic.Uint64
	replayed   atomic.Uint64
}

type counted struct {
	skipped, passed, truePositives, falsePositives atomic.Uint64
	_                                              [32]byte
}

func (c *counts) of(hash uint64) *counted { return &c.stripe[hash%uint64(len(c.stripe))] }

// absent returns how many lookups of absent keys skipped the store, and how many passed.
func (c *counts) absent() (skipped, passed uint64) {
	for i := range c.stripe {
		skipped += c.stripe[i].skipped.Load()
		passed += c.stripe[i].falsePositives.Load()
	}
	return skipped, passed
}

// Stats describe a guard (G5). To publish them, use an expvar.Func that returns them.
type Stats struct {
	Lookups        uint64  `json:"lookups"`         // of keys that the guard covers
	Skipped        uint64  `json:"skipped"`         // lookups that did not reach the store
	TruePositives  uint64  `json:"true_positives"`  // lookups that passed the filter and found the key
	FalsePositives uint64  `json:"false_positives"` // lookups that passed the filter and found no key
	Unfiltered     uint64  `json:"unfiltered"`      // lookups that the filter could not answer
	Rate           float64 `json:"rate"`            // FalsePositives / (FalsePositives + Skipped)
	RateAsked      float64 `json:"rate_asked"`      // Options.FalsePositiveRate, or the filter's rate if that is 0

	State    string        `json:"state"`         // "serving", "building" or "off"; "closed" after Close
	Err      string        `json:"err,omitempty"` // why the filter is off, was built anew, or could not be rebuilt
	Keys     uint64        `json:"keys"`          // in the filter or on their way into it
	Gone     uint64        `json:"gone"`          // about how many of Keys the store has deleted
	Capacity uint64        `json:"capacity"`      // of the filter
	Overflow uint64        `json:"overflow"`      // keys that wait for a larger filter
	Rebuilds uint64        `json:"rebuilds"`      // since the guard was opened
	Rebuild  time.Duration `json:"rebuild"`       // how long the last one took, in nanoseconds
	Outbox   uint64        `json:"outbox"`        // transactions whose keys the filter does not have durably
	Age      time.Duration `json:"age"`           // about how long their keys have waited, in nanoseconds
	Pending  uint64        `json:"pending"`       // deletes that the filter has not done yet
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
		durable := p.durable.Load() // before puts, so that it is not more
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
	case g.mu.closed:
		s.State = "closed"
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
