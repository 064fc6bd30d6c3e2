package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/spf13/cobra"
)

const repairHelp = `Verify the filter and, if it is damaged, rebuild it from the hashes that it
keeps (see create --keep-hashes), with the same capacity and rate. If its writer
has died, recover it first; if that fails, add what is left of its log to the
hashes. Print whether a repair was needed, and what is lost. A key that is not
found because a del of another key took its item is no damage: grow gives it
back.

Once the new filter is complete, it replaces FILTER. Until then, and if repair
is interrupted, FILTER stays as it is. Programs that have the old file open
answer "maybe" for every key once it is replaced, until they open FILTER again.
If no superblock is intact, or the hashes are lost, build the filter again from
its keys.

Exit status: 0 if the filter is intact now, 1 if it is intact but lacks, or may
lack, adds or deletes that were durable, 2 after an error.`

func newRepairCommand() *cobra.Command {
	var opts mmapfilter.RebuildOptions
	var json asJSON
	cmd := &cobra.Command{Use: "repair FILTER", Short: "build a damaged filter again, without its keys", Long: repairHelp, Args: needFile}
	addWorkFlags(cmd.Flags(), &opts.MemoryBudget, &opts.Workers)
	json.addTo(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		path := args[0]
		bar := newProgress(cmd.ErrOrStderr())
		defer bar.close()
		opts.Progress = bar.ofBuild("", new(sources))
		repaired, err := mmapfilter.Repair(cmd.Context(), path, &opts)
		bar.close()
		var lost *mmapfilter.LostError
		if err != nil && !errors.As(err, &lost) {
			return unchanged(path, err)
		}
		s, err := statsOf(path, nil)
		if err != nil {
			return err
		}
		result := repair{Filter: path, Repaired: repaired, Keys: s.Len}
		if lost != nil {
			result.Lost, result.LogLost = lost.Operations, lost.Log
		}
		if err := json.print(cmd.OutOrStdout(), &result); err != nil || lost == nil {
			return err
		}
		return errNo
	}
	return cmd
}

// A repair is what repair prints.
type repair struct {
	Filter   string `json:"filter"`
	Repaired bool   `json:"repaired"`
	Keys     uint64 `json:"keys"`
	Lost     uint64 `json:"lost_operations"` // durable operations that are lost, at most
	LogLost  bool   `json:"log_lost"`
}

func (r *repair) print(w io.Writer) error {
	what := "not damaged, left as it is"
	if r.Repaired {
		what = "was damaged, rebuilt from its hashes"
	}
	lost := ""
	if r.LogLost {
		lost = "; its log is lost, and so is what was not durable"
	}
	if r.Lost > 0 {
		lost += fmt.Sprintf("; up to %s lost", formatNumber(r.Lost, "durable add or delete is", "durable adds and deletes are"))
	}
	_, err := fmt.Fprintf(w, "%s: %s, %s%s\n", printable(r.Filter), what, formatNumber(r.Keys, "key", "keys"), lost)
	return err
}
