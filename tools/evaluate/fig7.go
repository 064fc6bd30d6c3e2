package main

import (
	"fmt"

	"github.com/mmapfilter/mmapfilter/tools/evaluate/picture"
	"github.com/mmapfilter/mmapfilter/tools/evaluate/report"
)

// Figure 7 of the paper: inserts a second against occupancy.
//
//	go -C tools/evaluate run . fig7 --scale paper --dir /dev/shm
//
// The paper: one thread of a Xeon E5620 at 2.4 GHz, curves without numbers.
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
		ends(series, "CF", "ss-CF", "Compact", "BF", "blk-BF", "CBF", "QF", "dl-CBF"))
	f.Notes = insertNotes
	return f, nil
}

var insertNotes = []string{
	"Ours are durable, the peers are not: every operation goes through the log of the file and survives the end of the process; a Sync after 65,536 and a Checkpoint at the end of each round are within the time.",
	"Where the files are in memory, no disk is in the figures of ours, but all calls of the system are.",
	"All structures are changed in turn, round after round, in one run; keys are drawn before the clock runs; medians. Hashing is in all times.",
}

func fig7Views(f *report.Figure) ([]report.View, error) {
	if err := panels(f, 1, 0); err != nil {
		return nil, err
	}
	p := f.Plots[0]
	low, high := halves(p, "CF")
	_, full := endsOf(p, "CF")
	return []report.View{lookupsView("Do inserts slow down as a filter fills?",
		fmt.Sprintf("From the emptier half to the fuller half packed goes from %s to %s million inserts a second, and at the end to %s: items have to move.", oneDigit(low), oneDigit(high), oneDigit(full)),
		"The paper's Figure 7."+curves+" Inserts into ours go through the log and survive a crash of the process; those of the others survive nothing.",
		picture.Axis{Label: occupancyLabel, Max: 100}, p, "")}, nil
}
