package main

import (
	"errors"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/mmapfilter/mmapfilter/mmapfilter/sets"
	"github.com/spf13/cobra"
)

// checkOutput reports an output that is of the other kind: a filter, where a set would be, or a set.
func (b *buildCommand) checkOutput(cmd *cobra.Command) error {
	if cmd.Flags().Changed("shards") {
		if b.opts.KeepHashes {
			return errors.New("--shards and --keep-hashes cannot be used together: a set keeps no hashes")
		}
		return checkSetOutput(b.output)
	}
	if set, err := mmapfilter.IsSet(b.output); err == nil && set {
		return &fileError{b.output, errors.New("a set; give --shards to build it again, or choose another name")}
	}
	return nil
}

// runSet builds a set.
func (b *buildCommand) runSet(cmd *cobra.Command, keys *counter, bar *progress) error {
	p, err := sets.NewPlan(&b.opts, b.shards)
	if err != nil {
		return err
	}
	work := sets.Work{MemoryBudget: b.opts.MemoryBudget, Workers: b.opts.Workers, Progress: b.opts.Progress}
	s, err := sets.Build(cmd.Context(), b.output, p, work, keys.all)
	bar.close()
	if err != nil {
		return ofTask(b.explainFull(err, keys.n))
	}
	warnOfSet(cmd.ErrOrStderr(), b.output, p, s)
	if plan, err := b.opts.Plan(); err == nil && b.opts.Layout == mmapfilter.Auto { // as in warnOfBuilt
		warnOfWear(cmd.ErrOrStderr(), b.output, &b.opts, plan.Layout)
	}
	if b.quiet {
		return nil
	}
	return summariseSet(cmd.OutOrStdout(), b.output, s)
}
