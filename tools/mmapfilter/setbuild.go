package main

import (
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"

	"github.com/mmapfilter/mmapfilter/mmapfilter/sets"
	"github.com/spf13/cobra"
)

const setBuildHelp = `When all tasks of partition are done, build a shard from all spools. If the
shard exists and is whole, build leaves it alone. It creates the directory of
the shards if that is missing.`

func newSetBuildCommand() *cobra.Command {
	var f taskFlags
	var which string
	var work sets.Work
	cmd := &cobra.Command{Use: "build --plan PLAN --shard I --spool DIR --out DIR", Short: "build a shard from all spools; one task for each shard",
		Long: setBuildHelp, Args: noArgument, Example: "mmapfilter set build --plan users.plan --shard 7 --spool spool --out ."}
	flags := cmd.Flags()
	f.addTo(flags, true)
	flags.StringVar(&which, "shard", "",
		"build shard `I`, or several one after the other: a number, from 0; a range, 0-7; several of these, 1,4,8-11; "+
			"or K/N, each whose number is K modulo N")
	addWorkFlags(flags, &work.MemoryBudget, &work.Workers)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		p, err := f.readPlan(cmd, "plan", "shard", "spool", "out")
		if err != nil {
			return err
		}
		numbers, err := parseShards(which, p.Shards)
		if err != nil {
			return err
		}
		if err := os.MkdirAll(f.out, 0o777); err != nil {
			return ofTask(err)
		}
		bar := f.quiet.progress(cmd)
		defer bar.close()
		total := sets.Summary{Shards: len(numbers)}
		for _, i := range numbers {
			work.Progress = bar.ofBuild(fmt.Sprintf("shard %d: ", i), new(sources))
			b, err := sets.BuildShard(cmd.Context(), p, i, f.spool, f.out, work)
			if err != nil {
				return ofTask(err)
			}
			total.Read += b.Read
			total.Keys += b.Keys
			total.Bytes += b.Bytes
		}
		bar.close()
		total.Duplicates = total.Read - total.Keys
		name := "shard"
		if len(numbers) != 1 {
			name = "shards"
		}
		return summariseShards(f.quiet.out(cmd), fmt.Sprintf("%s %s of %d: ", name, which, p.Shards), &total)
	}
	return cmd
}

// parseShards parses the value of --shard: numbers and ranges, or a residue class.
func parseShards(text string, shards int) (numbers []int, err error) {
	add := func(from, to, step uint64) error {
		if to >= uint64(shards) || from > to {
			return fmt.Errorf("--shard %s: there are %s, from 0 to %d", text, formatNumber(shards, "shard", "shards"), shards-1)
		}
		for i := from; i <= to; i += step {
			numbers = append(numbers, int(i))
		}
		return nil
	}
	bad := fmt.Errorf("--shard takes numbers such as 7, 0-7, 1,4,8-11 or 3/16, not %q", text)
	if k, n, found := strings.Cut(text, "/"); found {
		first, err1 := strconv.ParseUint(k, 10, 31)
		step, err2 := strconv.ParseUint(n, 10, 31)
		if err1 != nil || err2 != nil || first >= step {
			return nil, bad
		}
		if first >= uint64(shards) {
			return nil, nil // more tasks than shards
		}
		return numbers, add(first, uint64(shards)-1, step)
	}
	seen := make(map[int]bool)
	for _, part := range strings.Split(text, ",") {
		from, to, err := parseRange(part)
		if err != nil || to > math.MaxInt32 {
			return nil, bad
		}
		if err := add(from, to, 1); err != nil {
			return nil, err
		}
	}
	for _, i := range numbers {
		if seen[i] {
			return nil, fmt.Errorf("--shard %s: %d occurs twice", text, i)
		}
		seen[i] = true
	}
	return numbers, nil
}
