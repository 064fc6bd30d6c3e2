package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/mmapfilter/mmapfilter/mmapfilter/sets"
	"github.com/spf13/cobra"
)

const setPlanHelp = `Write the plan of a set, which all tasks follow. The plan and the keys alone
determine the files of the set, so the plan also says how set partition, check
and other commands read keys. The same flags write the same plan.

PLAN, the shards and NAME.set contain the seed: if the seed is a secret, keep
them secret too.`

func newSetPlanCommand() *cobra.Command {
	var (
		opts     mmapfilter.Options
		shards   int
		output   string
		multiset bool
		quiet    quiet
	)
	cmd := &cobra.Command{Use: "plan --shards S -o PLAN", Short: "write a plan, which all tasks follow", Long: setPlanHelp, Args: noArgument,
		Example: "mmapfilter set plan -n 2B -p 0.001 --shards 64 -o users.plan"}
	flags := cmd.Flags()
	flags.StringVarP(&output, "output", "o", "", "write the plan to `PLAN`")
	flags.IntVar(&shards, "shards", 0, "number `S` of shards")
	addSharedF(flags)
	addPlanFlags(flags, &opts, sizeForKeys+" (each shard for as many as it gets)", "0.01", "")
	seed := addSeedFlags(flags, "0")
	flags.BoolVar(&multiset, "multiset", false, "store every copy of a key, not only one")
	quiet.addTo(flags)
	format := addFileFormatFlags(flags)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := cmp.Or(needFlags(cmd, "output", "shards"), resolveF(flags), checkPlanFlags(flags)); err != nil {
			return err
		}
		how, err := newFormat(format)
		if err != nil {
			return err
		}
		if opts.Seed, _, err = seed.seed(); err != nil {
			return err
		}
		opts.Normalisation, opts.Distinct = how.note(), !multiset
		p, err := sets.NewPlan(&opts, shards)
		if err != nil {
			return err
		}
		if _, err := sets.ReadPlan(output); errors.Is(err, mmapfilter.ErrCorrupt) && !isEmpty(output) {
			return &fileError{output, errors.New("not a plan; remove it or choose another name")}
		}
		if err := p.Write(output); err != nil {
			return ofTask(err)
		}
		return summarisePlan(quiet.out(cmd), output, p)
	}
	return cmd
}

func isEmpty(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Size() == 0
}

func summarisePlan(w io.Writer, path string, p *sets.Plan) error {
	size := ", each sized for its keys"
	if f := p.Files; f != nil {
		g, err := f.Geometry()
		if err != nil {
			return err
		}
		size = fmt.Sprintf(" of %s keys, %s each", formatCount(f.Capacity), roundSize(g.SealedBytes))
	}
	_, err := fmt.Fprintf(w, "%s: %s%s, plan %s\n", printable(path), formatNumber(p.Shards, "shard", "shards"), size, p.ID())
	return err
}
