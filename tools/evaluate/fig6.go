package main

import (
	"fmt"

	"github.com/mmapfilter/mmapfilter/tools/evaluate/report"
)

// Figure 6 of the paper: lookups a second against occupancy.
//
//	go -C tools/evaluate run . fig6 --scale paper --dir /dev/shm
//
// The paper: one thread of a Xeon E5620 at 2.4 GHz, curves without numbers.
// Ours, with --scale paper: Of absent keys, million lookups a second at 5 and 100 %: CF
// 3.8 and 1.9, ss-CF 3.0 and 0.9, Blocked (ours) 8.8 and 2.7, BF 4.4 and 1.7, blk-BF
// 21.1 and 10.2, CBF 20.6 and 4.5, QF 17.5 and 1.0, dl-CBF 2.0 and 1.0. Measured on
// 2026-11-21 on an AMD EPYC (Zen 4), 2 cores at 2.6 GHz, Linux 6.18, Go 1.26.8, beside
// other work.
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
		ends(absent, "CF", "ss-CF", "Blocked (ours)", "BF", "blk-BF", "CBF", "QF", "dl-CBF"))
	f.Notes = append([]string{"Occupancy is the share of the keys that a structure holds when it counts as full, see Table 3."}, lookupNotes...)
	return f, nil
}

var occupancyAxis = report.Axis{Label: "occupancy (% of the keys of a full one)", Min: 0, Max: 100}

func (f *filling) ran(c *config, what string) string {
	return fmt.Sprintf("tables of %s, %s in %d steps of occupancy, one thread, medians of %d rounds", mebibytes(c.extent.bytes), what, c.extent.steps, c.extent.rounds)
}
