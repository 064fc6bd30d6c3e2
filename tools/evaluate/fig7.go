package main

import (
	"fmt"

	"github.com/mmapfilter/mmapfilter/tools/evaluate/report"
)

// Figure 7 of the paper: inserts a second against occupancy.
//
//	go -C tools/evaluate run . fig7 --scale paper --dir /dev/shm
//
// The paper: one thread of a Xeon E5620 at 2.4 GHz, curves without numbers.
// Ours, with --scale paper: Million inserts a second at 5 and 100 %: CF 1.6 and 0.4,
// ss-CF 1.3 and 0.3, Blocked (ours) 2.1 and 0.8, BF 1.8 and 1.6, blk-BF 9.4 and 5.4, CBF
// 5.1 and 3.5, QF 14.0 and 0.8, dl-CBF 0.8 and 0.9. Measured on 2026-11-21 on an AMD
// EPYC (Zen 4), 2 cores at 2.6 GHz, Linux 6.18, Go 1.26.8, beside other work.
const fig7Title = "Figure 7: inserts and occupancy"

func fig7(c *config) (*report.Figure, error) {
	filled, err := c.filled()
	if err != nil {
		return nil, err
	}
	f := c.ran(filled.ran(c, "inserts"))
	series := filled.series(memberNames(filled.members), func(s *step) []float64 { return s.inserts })
	f.Plots = []report.Plot{{X: occupancyAxis, Y: report.Axis{Label: "million inserts a second"}, Series: series}}
	f.Tables = []report.Table{aboutTable(series, "million inserts a second up to an occupancy", "%.0f %%")}
	f.Paper = "Inserts into cuckoo filters become slower as they fill, since items have to be moved; those of Bloom filters do not. Over the whole filling the blocked Bloom filter is the fastest, and CF is faster than the standard one."
	f.Ours = fmt.Sprintf("Million inserts a second at %.0f and 100 %%: %s.", filled.steps[0].percent,
		ends(series, "CF", "ss-CF", "Blocked (ours)", "BF", "blk-BF", "CBF", "QF", "dl-CBF"))
	f.Notes = insertNotes
	return f, nil
}

var insertNotes = []string{
	"Ours are durable, the peers are not: every operation goes through the log of the file and survives the end of the process; a Sync after 65,536 and a Checkpoint at the end of each round are within the time.",
	"Where the files are in memory, no disk is in the figures of ours, but all calls of the system are.",
	"All structures are changed in turn, round after round, in one run; keys are drawn before the clock runs; medians. Hashing is in all times.",
}
