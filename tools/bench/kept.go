package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/mmapfilter/mmapfilter/tools/bench/peer"
	"github.com/mmapfilter/mmapfilter/tools/internal/figures"
)

// kept says how many of its keys a filter has kept.
type kept struct {
	name          string
	has           uint64 // keys accepted
	lost, checked uint64
	bytes         int64
	positives     uint64
	asks          uint64
}

// fill adds keys up to the first refused one, looks up the accepted keys, and then absent
// keys.
func (k *kept) fill(s *session, f peer.Filter, n uint64, filled bool, check, asks uint64) error {
	k.has = n
	if !filled {
		c, err := s.add(f, 0, n)
		if err != nil {
			return err
		}
		k.has = c.Keys
		s.note("%s: added in %s", k.name, figures.Brief(c.Clock))
	}
	if k.has == 0 {
		return errors.New("it accepted no key")
	}
	k.bytes = f.Bytes()
	return k.examine(s, f, check, asks)
}

// examine looks up accepted keys, and then absent ones. If it does not check all accepted keys,
// half are the first ones and half the last ones.
func (k *kept) examine(s *session, f peer.Filter, check, asks uint64) error {
	if check == 0 || check > k.has {
		check = k.has
	}
	k.checked, k.asks = check, asks
	low, err := s.ask(f, 0, check/2)
	if err != nil {
		return err
	}
	high, err := s.ask(f, k.has-(check-check/2), check-check/2)
	if err != nil {
		return err
	}
	k.lost = check - low - high
	k.positives, err = s.ask(f, peer.Absent, asks)
	return err
}

func (k *kept) rate() float64 { return float64(k.positives) / float64(k.asks) }

func (k *kept) bitsPerKey() float64 { return 8 * float64(k.bytes) / float64(k.has) }

func (k *kept) cells() []string {
	lost := fmt.Sprintf("%s of %s", figures.Grouped(int64(k.lost)), figures.Grouped(int64(k.checked)))
	if k.lost > 0 {
		lost = "**" + lost + "**"
	}
	return []string{k.name, figures.Grouped(int64(k.has)), lost, fmt.Sprintf("%.2f", k.bitsPerKey()), percent(k.rate())}
}

// A choice says which filters to compare with.
type choice struct{ only string }

func (c *choice) flags(s *session) {
	s.flags.StringVar(&c.only, "only", "", "comma-separated parts of names: only filters with one of them in their name")
}

// extra are filters that tests add to all.
var extra []spec

// chosen returns the filters of all that were chosen.
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
