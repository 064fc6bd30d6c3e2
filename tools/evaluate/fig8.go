package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/mmapfilter/mmapfilter/tools/evaluate/peers"
	"github.com/mmapfilter/mmapfilter/tools/evaluate/picture"
	"github.com/mmapfilter/mmapfilter/tools/evaluate/report"
)

// Figure 8 of the paper: deletes a second against occupancy, from full to empty.
//
//	go -C tools/evaluate run . fig8 --scale paper --dir /dev/shm
//
// The paper: one thread of a Xeon E5620 at 2.4 GHz, curves without numbers.
const fig8Title = "Figure 8: deletes and occupancy"

func fig8(c *config) (*report.Figure, error) {
	filled, err := c.filled()
	if err != nil {
		return nil, err
	}
	f := c.ran(filled.ran(c, "deletes, from full to empty,"))
	var members []*member
	for _, m := range filled.members {
		if _, ok := m.filter.(peers.Deleter); ok {
			members = append(members, m)
		}
	}
	series := make([]report.Series, len(members))
	for i, m := range members {
		series[i].Name = m.name
	}
	for i := range c.extent.steps {
		percent := 100 * float64(c.extent.steps-i) / float64(c.extent.steps)
		c.note("deleting from %.0f %%", percent)
		rates, err := c.deleteStep(filled, members, i)
		if err != nil {
			return nil, errors.Join(err, c.close()) // some keys are deleted
		}
		for j, r := range rates {
			series[j].Points = append(series[j].Points, report.Point{X: percent, Y: r})
		}
	}
	f.Plots = []report.Plot{{X: occupancyAxis, Y: report.Axis{Label: "million deletes a second"}, Series: series}}
	f.Tables = []report.Table{aboutTable(series, "million deletes a second from an occupancy on", "%.0f %%")}
	f.Paper = "Deletes of cuckoo filters cost the same at any occupancy, and are the fastest; those of a quotient filter are slow while it is full."
	f.Ours = fmt.Sprintf("Million deletes a second from 100 %% and from %.0f %%: %s.", 100/float64(c.extent.steps),
		ends(series, "CF", "ss-CF", "Compact", "CBF", "QF", "dl-CBF"))
	f.Notes = append([]string{"Every key was inserted before, and every delete must find it. Keys are deleted in the order in which they were inserted. At the end the filters of ours must be empty."}, insertNotes...)
	return f, c.close() // the filling is empty
}

// deleteStep deletes part of the keys of each member, in rounds, and returns the median rates
// in million deletes a second.
func (c *config) deleteStep(filled *filling, members []*member, i int) ([]float64, error) {
	rates := make([][]float64, len(members))
	parts := uint64(c.extent.steps * c.extent.rounds)
	for round := range c.extent.rounds {
		part := uint64(i*c.extent.rounds + round)
		for turn := range members {
			if err := c.ctx.Err(); err != nil {
				return nil, err
			}
			j := (turn + round) % len(members)
			m := members[j]
			first := m.n * part / parts
			keys := filled.round(c, first, m.n*(part+1)/parts-first)
			f, missing := m.filter.(peers.Deleter), 0
			begun := time.Now()
			for _, key := range keys {
				if !f.Delete(key) {
					missing++
				}
			}
			if m.mapped != nil {
				m.mapped.commit()
			}
			rates[j] = append(rates[j], perSecond(len(keys), time.Since(begun)))
			err := m.failed()
			if err == nil && missing > 0 {
				err = fmt.Errorf("%s lost keys: %d of %d could not be deleted", m.name, missing, len(keys))
			}
			if err == nil && m.mapped != nil && part == parts-1 && m.mapped.live.Len() != 0 {
				err = fmt.Errorf("%s has %d keys when all are deleted", m.name, m.mapped.live.Len())
			}
			if err != nil {
				return nil, err
			}
		}
	}
	medians := make([]float64, len(members))
	for j, r := range rates {
		medians[j] = median(r)
	}
	return medians, nil
}

func fig8Views(f *report.Figure) ([]report.View, error) {
	if err := panels(f, 1, 0); err != nil {
		return nil, err
	}
	p := f.Plots[0]
	low, high := halves(p, "CF")
	qfLow, qfHigh := halves(p, "QF")
	return []report.View{lookupsView("Are deletes slower from a full filter?",
		fmt.Sprintf("From the fuller half packed deletes %s million keys a second and from the emptier half %s; a quotient filter %s and %s.", oneDigit(high), oneDigit(low), oneDigit(qfHigh), oneDigit(qfLow)),
		"The paper's Figure 8."+curves+" Deletes from ours go through the log and survive a crash of the process; those of the others survive nothing.",
		picture.Axis{Label: occupancyLabel, Max: 100}, p, "")}, nil
}
