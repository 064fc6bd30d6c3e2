package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

const setHelp = `Build a set: a manifest, NAME.set, and the filter files that it names, its
shards. Each key belongs to one shard. check, info, verify, add and del take
NAME.set as they take a filter. On one machine, build --shards makes a set. On
many, or with an engine such as make, Slurm, Kubernetes or Spark, these tasks
do, which share PLAN and two directories, of the spools and of the shards.

A task may be killed, be done again, or run twice at the same time; it leaves
the same bytes. Keys are not in any of these files, only their hashes.`

const setExample = `mmapfilter set plan -n 2B -p 0.001 --shards 64 -o users.plan
  mmapfilter set partition --plan users.plan --task a --spool spool a.gz
  mmapfilter set partition --plan users.plan --task b --spool spool b.gz
  mmapfilter set build --plan users.plan --shard 0-63 --spool spool --out .
  mmapfilter set assemble --plan users.plan --spool spool --out . -o users.set`

func newSetCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "set COMMAND", Short: "build a set of filters, for more keys than a file should hold", Long: setHelp,
		Args: cobra.ArbitraryArgs, Example: setExample}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return fmt.Errorf("unknown command %q of set; %s", args[0], suggest(cmd, args[0], "set ", "mmapfilter set --help lists them"))
		}
		return cmd.Help()
	}
	cmd.AddCommand(newSetPlanCommand(), newSetPartitionCommand(), newSetBuildCommand(), newSetAssembleCommand(), newSetGCCommand())
	return cmd
}
