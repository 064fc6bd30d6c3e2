package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/spf13/cobra"
)

const growHelp = `Make the filter larger, or smaller, from the hashes that it keeps (see create
--keep-hashes). The keys are not needed. The new filter has all keys that were
added and not deleted, including those that add --unique and uniq skipped and
those that a del of another key took. Deletes that were waiting are done (see
del). Once the new filter is complete, it replaces FILTER. Until then, and if
grow is interrupted, FILTER stays as it is. Programs that have the old file open
answer "maybe" for every key once it is replaced, until they open FILTER again.

Print what the filter was before and is now. FILTER.hashes, which grows with
every add and del, is rebuilt too, and then takes 9 bytes a key. The times at
which keys were added, which expire needs, are rounded to 64 different times.`

// A growCommand holds the flags of grow.
type growCommand struct {
	opts mmapfilter.Options
	json asJSON
}

func newGrowCommand() *cobra.Command {
	g := new(growCommand)
	cmd := &cobra.Command{Use: "grow FILTER", Short: "make a filter larger, or smaller, without its keys", Long: growHelp, Args: needFile, RunE: g.run,
		Example: "mmapfilter grow -n 20M sums.mmf"}
	addCapacityFlag(cmd.Flags(), &g.opts, sizeForKeys+", no fewer than it holds (twice as many as now)")
	addRateFlag(cmd.Flags(), &g.opts, "as was asked for before")
	addLayoutFlag(cmd.Flags(), &g.opts, "that of FILTER")
	addWorkFlags(cmd.Flags(), &g.opts.MemoryBudget, &g.opts.Workers)
	g.json.addTo(cmd.Flags())
	return cmd
}

// growFactor is how many times larger grow makes a filter without -n.
const growFactor = 2

func (g *growCommand) run(cmd *cobra.Command, args []string) (err error) {
	if cmd.Flags().Changed("capacity") && g.opts.Capacity == 0 {
		return fmt.Errorf("--capacity %w", errAtLeastOne)
	}
	path := args[0]
	filter, err := mmapfilter.Open(path, &mmapfilter.OpenOptions{Checked: true, RequireHashes: true})
	if err != nil {
		return err
	}
	grown := growth{Filter: path, Before: newMeasures(filter)}
	if g.opts.Capacity == 0 {
		g.opts.Capacity = growFactor * max(filter.Cap(), filter.Len())
	}
	if g.opts.Capacity == 0 {
		return errors.Join(&fileError{path, errors.New("it was sized for no keys; give -n")}, filter.Close())
	}
	if stay := filter.Len() - min(filter.Len(), filter.Stats().Waiting); g.opts.Capacity < stay {
		return errors.Join(&fileError{path, fmt.Errorf("-n %s is less than the %s it holds",
			formatCount(g.opts.Capacity), formatNumber(stay, "key", "keys"))}, filter.Close())
	}
	bar := newProgress(cmd.ErrOrStderr())
	defer bar.close()
	err = filter.Rebuild(cmd.Context(), &mmapfilter.RebuildOptions{
		Capacity: g.opts.Capacity, FalsePositiveRate: g.opts.FalsePositiveRate, Layout: g.opts.Layout,
		MemoryBudget: g.opts.MemoryBudget, Workers: g.opts.Workers, Progress: bar.ofBuild("", new(sources)),
	})
	bar.close()
	if err != nil {
		return errors.Join(unchanged(path, g.explainFull(err, filter.Len())), filter.Close())
	}
	grown.Now = newMeasures(filter)
	warnOfMany(cmd.ErrOrStderr(), path, filter.Len(), filter.Cap()) // the rebuild may have given back keys that stray deletes took
	if err := filter.Close(); err != nil {
		return err
	}
	return g.json.print(cmd.OutOrStdout(), &grown)
}

// explainFull says which flag made the new filter too small.
func (g *growCommand) explainFull(err error, keys uint64) error {
	if !errors.Is(err, mmapfilter.ErrFull) {
		return err
	}
	return fmt.Errorf("%s do not fit -n %s", formatNumber(keys, "key", "keys"), formatCount(g.opts.Capacity))
}

// A growth is what grow prints.
type growth struct {
	Filter string   `json:"filter"`
	Before measures `json:"before"`
	Now    measures `json:"now"`
}

// measures say how large a filter is and how often it errs.
type measures struct {
	Keys          uint64  `json:"keys"`
	EstimatedRate float64 `json:"estimated_rate"`
	mmapfilter.Plan
}

func newMeasures(filter *mmapfilter.Filter) measures {
	s := filter.Stats()
	return measures{filter.Len(), s.EstimatedRate, s.Plan}
}

func (g *growth) print(w io.Writer) error {
	t := newTable(w)
	b, n := &g.Before, &g.Now
	row := func(name, before, now string) { t.row(name, "%s\t%s", before, now) }
	row("", "before", "now")
	row("keys", formatCount(b.Keys), formatCount(n.Keys))
	row("capacity", formatCount(b.Capacity), formatCount(n.Capacity))
	row("file", formatSize(b.FileBytes), formatSize(n.FileBytes))
	row("rate asked", formatRate(b.TargetRate), formatRate(n.TargetRate))
	row("rate estimated", formatRate(b.EstimatedRate), formatRate(n.EstimatedRate))
	row("layout", fmt.Sprintf("%s, %v", b.Layout, paramsOf(&b.Plan)), fmt.Sprintf("%s, %v", n.Layout, paramsOf(&n.Plan)))
	return t.flush()
}
