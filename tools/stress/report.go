package main

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"
)

// print prints the counters.
func (p *parent) print(out io.Writer, took time.Duration) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) { fmt.Fprintf(w, "%s\t%s\n", name, fmt.Sprintf(format, args...)) }
	n := p.counted
	row("time", "%.1f s", took.Seconds())
	row("operations", "%d inserts, %d deletes; %d of them repeated after a death", n(countInserts), n(countDeletes), n(countRepeated))
	row("load", "%.1f %%, on average after a round", float64(n(countLoad))/1e4/float64(max(n(countRounds), 1)))
	row("moves", "%d, about", n(countMoves))
	row("lookups", "%d by readers, %d beside the writer's goroutines; %d counts", n(countLookups), n(countOwnLookups), n(countCounts))
	for i, c := range p.others {
		row("lookups "+c.role, "%d, and %d times certainly not", n(countOtherLookups+i), n(countOtherNos+i))
	}
	for _, what := range p.missing {
		row("NOT TESTED", "%s", what)
	}
	row("opened by readers", "%d times", n(countOpens))
	row("commits", "%d in lives that did not end before", n(countCommits))
	row("checkpoints", "%d likewise", n(countCheckpoints))
	kills, parts := p.kills(), ""
	for phase := phaseOpen; phase < phases; phase++ {
		parts += fmt.Sprintf("%d at %s, ", n(countKills+phase-1), phaseNames[phase])
	}
	row("kills", "%d: the writer %s%d readers, %d in Recover, %d in Build", kills, parts, n(countKillsReader), n(countKillsRecovery), n(countKillsBuild))
	row("suspended", "%d times", n(countSuspended))
	// A recovery by a reader is inferred from the state of the file. If a reader recovers it on
	// its own just before another process would, that is not counted.
	row("recoveries", "%d by the writer, %d by readers, %d by the parent, %d by another process, of %d files left live",
		n(countByWriter), n(countByReader), n(countByParent), n(countByChild), n(countDead))
	row("replacements", "%d", n(countReplaced))
	row("second writers", "%d refused", n(countLocked))
	row("examined", "%d times all keys, %d times verified", n(countChecked), n(countVerified))
	row("maybe", "%d of %d lookups of absent keys (allowed)", n(countMaybe), n(countAbsent))
	row("violations", "%d", n(countViolations))
	return w.Flush()
}
