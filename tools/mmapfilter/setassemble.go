package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/mmapfilter/mmapfilter/mmapfilter/sets"
	"github.com/spf13/cobra"
)

const setAssembleHelp = `When all shards have been built, write the manifest of the set. It replaces an
older NAME.set, and readers that follow NAME.set switch. assemble writes nothing
unless every shard is whole, every shard was built from all spools, and, summed
up over all tasks and shards,

  keys read = hashes spooled = hashes read = keys in the shards + repeated keys

When assemble has succeeded, the spools may be removed.

Exit status: 0, or 2 if something is missing or wrong; the error says what.`

func newSetAssembleCommand() *cobra.Command {
	var (
		f        taskFlags
		output   string
		noVerify bool
		tasks    int
		replace  replaceFlags
	)
	cmd := &cobra.Command{Use: "assemble --plan PLAN --spool DIR --out DIR -o NAME.set", Short: "check that no key is missing, and write NAME.set",
		Long: setAssembleHelp, Args: noArgument, Example: "mmapfilter set assemble --plan users.plan --spool spool --out . -o users.set"}
	flags := cmd.Flags()
	f.addTo(flags, true)
	flags.StringVarP(&output, "output", "o", "", "write the manifest to `NAME.set`, best beside the shards: their paths in it are relative to its directory")
	flags.IntVar(&tasks, "tasks", 0, "fail unless `N` tasks have been done (without it, a task that never began goes unnoticed)")
	flags.BoolVar(&noVerify, "no-verify", false, "check only the first and last pages of each shard, not the checksums of all its bytes")
	replace.addTo(flags)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		p, err := f.readPlan(cmd, "plan", "spool", "out", "output")
		if err != nil {
			return err
		}
		if err := checkSetOutput(output); err != nil {
			return err
		}
		if flags.Changed("tasks") {
			entries, err := os.ReadDir(f.spool)
			if err != nil {
				return ofTask(err)
			}
			done := 0
			for _, e := range entries {
				if filepath.Ext(e.Name()) == ".task" {
					done++
				}
			}
			if done != tasks {
				return &fileError{f.spool, fmt.Errorf("it has %s, not %s", formatNumber(done, "task", "tasks"), formatCount(tasks))}
			}
		}
		bar := f.quiet.progress(cmd)
		defer bar.close()
		s, err := sets.Assemble(cmd.Context(), p, f.spool, f.out, output, !noVerify, sets.Work{
			MinKeys:  replace.least(output),
			Progress: func(stage string, done, total uint64) { bar.show(stage, int64(done), int64(total), nil) },
		})
		bar.close()
		if err != nil {
			return ofTask(replace.explain(output, err))
		}
		warnOfSet(cmd.ErrOrStderr(), output, p, s)
		return summariseSet(f.quiet.out(cmd), output, s)
	}
	return cmd
}
