package main

import (
	"fmt"

	"github.com/mmapfilter/mmapfilter/tools/evaluate/picture"
	"github.com/mmapfilter/mmapfilter/tools/evaluate/report"
)

// Figure 6 of the paper: lookups a second against occupancy.
//
//	go -C tools/evaluate run . fig6 --scale paper --dir /dev/shm
//
// The paper: one thread of a Xeon E5620 at 2.4 GHz, curves without numbers.
const fig6Title = "Figure 6: lookups and occupancy"

func fig6(c *config) (*report.Figure, error) {
	filled, err := c.filled()
	if err != nil {
		return nil, err
	}
	f := c.ran(filled.ran(c, "lookups"))
	names := names(lookersOf(filled.members))
	absent := filled.series(names, func(s *step) []float64 { return s.absent })
	present := filled.series(names, func(s *step) []float64 { return s.present })
	for _, p := range []struct {
		title  string
		series []report.Series
	}{{"absent keys", absent}, {"keys that are there", present}} {
		f.Plots = append(f.Plots, report.Plot{
			Title:  p.title,
			X:      occupancyAxis,
			Y:      report.Axis{Label: lookupsLabel},
			Series: p.series,
		})
		f.Tables = append(f.Tables, aboutTable(p.series, p.title+": million lookups a second by occupancy", "%.0f %%"))
	}
	f.Paper = "Lookups of cuckoo filters cost the same at any occupancy, since they read two buckets; those of a quotient filter become slow as it fills."
	f.Ours = fmt.Sprintf("Of absent keys, million lookups a second at %.0f and 100 %%: %s.", filled.steps[0].percent,
		ends(absent, "CF", "ss-CF", "Compact", "BF", "blk-BF", "CBF", "QF", "dl-CBF"))
	f.Notes = append([]string{"Occupancy is the share of the keys that a structure holds when it counts as full, see Table 3."}, lookupNotes...)
	return f, nil
}

var occupancyAxis = report.Axis{Label: "occupancy (% of the keys of a full one)", Min: 0, Max: 100}

func (f *filling) ran(c *config, what string) string {
	return fmt.Sprintf("tables of %s, %s in %d steps of occupancy, one thread, medians of %d rounds", mebibytes(c.extent.bytes), what, c.extent.steps, c.extent.rounds)
}

func fig6Views(f *report.Figure) ([]report.View, error) {
	if err := panels(f, 2, 0); err != nil {
		return nil, err
	}
	answer := func(p report.Plot, what string) string {
		low, high := halves(p, "CF")
		qfLow, qfHigh := halves(p, "QF")
		return fmt.Sprintf("From the emptier half to the fuller half packed goes from %s to %s million lookups of %s keys a second, a quotient filter from %s to %s.",
			oneDigit(low), oneDigit(high), what, oneDigit(qfLow), oneDigit(qfHigh))
	}
	x := picture.Axis{Label: occupancyLabel, Max: 100}
	const caption = "The paper's Figure 6, one key at a time." + curves
	return []report.View{
		lookupsView("Do lookups of absent keys slow down as a filter fills?", answer(f.Plots[0], "absent"), caption, x, f.Plots[0], ""),
		lookupsView("And lookups of present keys?", answer(f.Plots[1], "present"), caption, x, f.Plots[1], ""),
	}, nil
}

const occupancyLabel = "keys, % of those of a full filter"
