package main

import (
	"errors"
	"slices"
	"time"

	"github.com/mmapfilter/mmapfilter/tools/evaluate/report"
)

// A filling holds every structure, filled side by side from empty to full, and the measurements
// made on the way for Table 3 and figures 5 to 8. At each step of occupancy, several rounds of
// inserts are timed, with all structures in turn, and then lookups. Inserts into ours go
// through the log. A Sync every 65,536 inserts and a Checkpoint at the end of each round are
// part of the time.
type filling struct {
	members []*member
	steps   []step
	took    []time.Duration // of all inserts of a member
	keys    []uint64        // of a round
}

// round draws n keys, numbered from first on, before a clock runs. They are valid until the
// next round.
func (f *filling) round(c *config, first, n uint64) []uint64 {
	f.keys = slices.Grow(f.keys[:0], int(n))[:n]
	c.drawRange(f.keys, first)
	return f.keys
}

// A step holds the measurements at one occupancy.
type step struct {
	percent         float64   // of the keys of a full structure
	inserts         []float64 // median of each member, in millions a second; 0 if it was full
	absent, present []float64 // of each looker, likewise
}

// filled returns every structure, full.
func (c *config) filled() (*filling, error) {
	if f, ok := c.filling.(*filling); ok {
		return f, nil
	}
	f := &filling{took: make([]time.Duration, len(structures))}
	if err := c.fillAll(f); err != nil {
		return nil, errors.Join(err, f.close())
	}
	c.filling = f
	return f, nil
}

func (c *config) fillAll(f *filling) error {
	for _, s := range structures {
		m, err := c.empty(s, c.extent.bytes)
		if err != nil {
			return err
		}
		f.members = append(f.members, m)
	}
	for i := range c.extent.steps {
		if err := c.fillStep(f, i); err != nil {
			return err
		}
	}
	return nil
}

func (c *config) fillStep(f *filling, i int) error {
	s := step{percent: 100 * float64(i+1) / float64(c.extent.steps)}
	c.note("filling: %.0f %%", s.percent)
	rates := make([][]float64, len(f.members))
	parts := uint64(c.extent.steps * c.extent.rounds)
	for round := range c.extent.rounds {
		part := uint64(i*c.extent.rounds+round) + 1
		for turn := range f.members {
			if err := c.ctx.Err(); err != nil {
				return err
			}
			j := (turn + round) % len(f.members)
			m := f.members[j]
			keys := f.round(c, m.n, max(m.n, m.full*part/parts)-m.n)
			if len(keys) == 0 {
				continue
			}
			before, begun := m.n, time.Now()
			room := m.insert(keys)
			if m.mapped != nil {
				m.mapped.commit()
			}
			took := time.Since(begun)
			f.took[j] += took
			rates[j] = append(rates[j], perSecond(int(m.n-before), took))
			if err := m.failed(); err != nil {
				return err
			}
			if !room {
				c.note("%s is full with %d keys; %d were to go in", m.name, m.n, m.full)
				m.full = m.n
			}
		}
	}
	s.inserts = make([]float64, len(rates))
	for j, r := range rates {
		if len(r) > 0 {
			s.inserts[j] = median(r)
		}
	}
	var err error
	all := lookersOf(f.members)
	if s.absent, err = c.lookupRates(all, 0); err != nil {
		return err
	}
	if s.present, err = c.lookupRates(all, 1); err != nil {
		return err
	}
	f.steps = append(f.steps, s)
	return nil
}

// series returns a line over occupancy for each name. of returns the values at a step; a value
// of 0 is no point.
func (f *filling) series(names []string, of func(*step) []float64) (all []report.Series) {
	for i, name := range names {
		s := report.Series{Name: name}
		for j := range f.steps {
			if y := of(&f.steps[j])[i]; y > 0 {
				s.Points = append(s.Points, report.Point{X: f.steps[j].percent, Y: y})
			}
		}
		all = append(all, s)
	}
	return all
}

func names(all []looker) (names []string) {
	for _, l := range all {
		names = append(names, l.name)
	}
	return names
}

func memberNames(members []*member) (names []string) {
	for _, m := range members {
		names = append(names, m.name)
	}
	return names
}

func (f *filling) close() (err error) {
	for _, m := range f.members {
		err = errors.Join(err, m.close())
	}
	return err
}
