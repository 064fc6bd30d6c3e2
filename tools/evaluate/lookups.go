package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// A looker answers for keys, and gives how many it finds.
type looker struct {
	name  string
	n     uint64 // keys that are in it
	count func(keys []uint64) (found int)
}

// lookers are the ways to ask a member: one key a call, and those of ours also in
// batches.
func (m *member) lookers() []looker {
	single := looker{m.name, m.n, func(keys []uint64) (found int) {
		for _, key := range keys {
			if m.filter.Contains(key) {
				found++
			}
		}
		return found
	}}
	if m.mapped == nil {
		return []looker{single}
	}
	return []looker{single, {m.name + ", batches", m.n, m.mapped.countBatch}}
}

func lookersOf(members []*member) (all []looker) {
	for _, m := range members {
		all = append(all, m.lookers()...)
	}
	return all
}

// lookupRates asks all lookers in turn, round after round, and gives the median
// rate of each, in million lookups a second. A share of the keys is in the filter.
// The keys are drawn before the clock runs. A key that was inserted and is not
// found is an error.
func (c *config) lookupRates(all []looker, share float64) ([]float64, error) {
	keys := make([]uint64, c.extent.lookups)
	rates := make([][]float64, len(all))
	for round := range c.extent.rounds {
		if err := c.ctx.Err(); err != nil {
			return nil, err
		}
		for turn := range all {
			i := (turn + round) % len(all) // nobody is always after the same one
			l := all[i]
			rng := rand.New(rand.NewPCG(c.seed, uint64(round)))
			present := c.drawMixed(keys, l.n, share, rng)
			begun := time.Now()
			found := l.count(keys)
			rates[i] = append(rates[i], perSecond(len(keys), time.Since(begun)))
			if found < present {
				return nil, fmt.Errorf("%s: of %d keys that were inserted %d at least are not found", l.name, present, present-found)
			}
		}
	}
	medians := make([]float64, len(all))
	for i, r := range rates {
		medians[i] = median(r)
	}
	return medians, nil
}

// perSecond gives million operations a second.
func perSecond(n int, took time.Duration) float64 {
	return float64(n) / 1e6 / max(took.Seconds(), 1e-9)
}

// median of at least one number.
func median(x []float64) float64 {
	s := slices.Sorted(slices.Values(x))
	if n := len(s); n%2 == 0 {
		return (s[n/2-1] + s[n/2]) / 2
	}
	return s[len(s)/2]
}

// mostEfficient is the last of the lookers of a member: in batches where it has
// them.
func (m *member) mostEfficient() looker {
	l := m.lookers()
	return l[len(l)-1]
}

// checkAll looks every key up that is in a member. One that is not found is an
// error.
func (c *config) checkAll(m *member) error { return c.checkFrom(m, 0) }

// checkFrom is checkAll for keys of numbers from first on.
func (c *config) checkFrom(m *member, first uint64) error {
	found, err := c.countRange(m.mostEfficient(), first, m.n)
	if err == nil && found != m.n {
		err = fmt.Errorf("%s lost keys: of %d that were inserted %d are not found", m.name, m.n, m.n-found)
	}
	return err
}

// falsePositives gives the share of the first so many absent keys that is found.
func (c *config) falsePositives(l looker, absent uint64) (float64, error) {
	found, err := c.countRange(l, firstAbsent, absent)
	return float64(found) / float64(absent), err
}

// countRange gives how many of n keys, of numbers from first on, are found.
func (c *config) countRange(l looker, first, n uint64) (found uint64, err error) {
	keys := make([]uint64, 1<<14)
	for end := first + n; first < end; first += uint64(len(keys)) {
		if err := c.ctx.Err(); err != nil {
			return 0, err
		}
		part := keys[:min(uint64(len(keys)), end-first)]
		c.drawRange(part, first)
		found += uint64(l.count(part))
	}
	return found, nil
}
