package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// A looker looks up keys, and counts those found.
type looker struct {
	name  string
	n     uint64 // keys that are in it
	count func(keys []uint64) (found int)
}

// lookers returns the ways to look up keys in a member: one key a call, and for ours also in
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

// lookupRates runs all lookers in turn, round after round, and returns the median rate of each,
// in million lookups a second. The given share of the keys is in the filter. Keys are drawn
// before the clock runs. It is an error if an inserted key is not found.
func (c *config) lookupRates(all []looker, share float64) ([]float64, error) {
	keys := make([]uint64, c.extent.lookups)
	rates := make([][]float64, len(all))
	for round := range c.extent.rounds {
		if err := c.ctx.Err(); err != nil {
			return nil, err
		}
		for turn := range all {
			i := (turn + round) % len(all) // no looker always follows the same one
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

// perSecond returns million operations a second.
func perSecond(n int, took time.Duration) float64 {
	return float64(n) / 1e6 / max(took.Seconds(), 1e-9)
}

// median returns the median of at least one number.
func median(x []float64) float64 {
	s := slices.Sorted(slices.Values(x))
	if n := len(s); n%2 == 0 {
		return (s[n/2-1] + s[n/2]) / 2
	}
	return s[len(s)/2]
}

// mostEfficient returns the last looker of a member, which uses batches if there are any.
func (m *member) mostEfficient() looker {
	l := m.lookers()
	return l[len(l)-1]
}

// checkAll looks up every key in a member. It is an error if one is not found.
func (c *config) checkAll(m *member) error { return c.checkFrom(m, 0) }

// checkFrom is checkAll for keys numbered from first on.
func (c *config) checkFrom(m *member, first uint64) error {
	found, err := c.countRange(m.mostEfficient(), first, m.n)
	if err == nil && found != m.n {
		err = fmt.Errorf("%s lost keys: of %d that were inserted %d are not found", m.name, m.n, m.n-found)
	}
	return err
}

// falsePositives returns the share of the first absent keys that are found.
func (c *config) falsePositives(l looker, absent uint64) (float64, error) {
	found, err := c.countRange(l, firstAbsent, absent)
	return float64(found) / float64(absent), err
}

// countRange returns how many of n keys, numbered from first on, are found.
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
