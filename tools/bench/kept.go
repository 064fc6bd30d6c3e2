package main

import (
	"errors"
	"fmt"
	"strings"
)

// A held is a filter that has the keys numbered from low up to high.
type held struct {
	name          string
	filter        *Filter
	low, high     uint64
	full          bool
	lost, checked uint64
	bytes         int64
	positives     uint64
	asks          uint64
}

// add adds n keys, up to the first refused one.
func (h *held) add(s *session, n uint64) (Count, error) {
	if h.full {
		return Count{}, nil
	}
	c, err := s.add(h.filter, h.high, n)
	if err != nil {
		return c, fmt.Errorf("%s: %w", h.name, err)
	}
	h.high += c.Keys
	h.full = c.Keys < n
	return c, nil
}

// fill adds n keys, unless the filter was made with them. Then it calls examine.
func (h *held) fill(s *session, n uint64, filled bool, check, asks uint64) error {
	h.high = n
	if !filled {
		h.high = 0
		c, err := h.add(s, n)
		if err != nil {
			return err
		}
		s.note("%s: added in %s", h.name, Brief(c.Clock))
	}
	if h.high == 0 {
		return errors.New("it accepted no key")
	}
	return h.examine(s, check, asks)
}

// examine looks up keys that were accepted, and then absent ones. If check is less than the number
// of accepted keys, half of the keys that it looks up are the oldest and half the newest ones.
func (h *held) examine(s *session, check, asks uint64) error {
	has := h.high - h.low
	if check == 0 || check > has {
		check = has
	}
	old, err := s.ask(h.filter, h.low, check/2)
	if err != nil {
		return err
	}
	new, err := s.ask(h.filter, h.high-(check-check/2), check-check/2)
	if err != nil {
		return err
	}
	h.lost += check - old - new
	h.checked += check
	h.bytes, h.asks = h.filter.Size(), asks
	h.positives, err = s.ask(h.filter, Absent, asks)
	return err
}

func (h *held) rate() float64 { return float64(h.positives) / float64(h.asks) }

func (h *held) bitsPerKey() float64 { return 8 * float64(h.bytes) / float64(h.high-h.low) }

func (h *held) lostOf() string {
	return fmt.Sprintf("%s of %s", Grouped(int64(h.lost)), Grouped(int64(h.checked)))
}

func (h *held) cells() []string {
	lost := h.lostOf()
	if h.lost > 0 {
		lost = "**" + lost + "**"
	}
	return []string{h.name, Grouped(int64(h.high - h.low)), lost, fmt.Sprintf("%.2f", h.bitsPerKey()), percent(h.rate())}
}

// A choice says which filters to compare with.
type choice struct{ only string }

func (c *choice) flags(s *session) {
	s.flags.StringVar(&c.only, "only", "", "comma-separated parts of names: only filters with one of them in their name")
}

// Tests add the filters in extra to all filters.
var extra []spec

// chosen returns the chosen ones of all filters.
func (c *choice) chosen(all []spec) (chosen []spec, err error) {
	for _, spec := range append(all, extra...) {
		for part := range strings.SplitSeq(c.only, ",") {
			if strings.Contains(spec.name, part) {
				chosen = append(chosen, spec)
				break
			}
		}
	}
	if len(chosen) == 0 {
		return nil, fmt.Errorf("no filter has a name with %q in it", c.only)
	}
	return chosen, nil
}
