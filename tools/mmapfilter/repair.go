package main

import (
	"fmt"
	"io"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/spf13/cobra"
)

const repairHelp = `Usage: mmapfilter repair FILTER

Verify the filter and, if it is damaged, rebuild it from the hashes that it
keeps (see create --keep-hashes), with the same capacity and rate. If its writer
has died, recover it first. If its log is lost, go back to the keys of the last
checkpoint. Print whether a repair was needed.

` + workHelp + `      --json            print a JSON object

FILTER is replaced once the new one is complete; until then, and if repair is
interrupted, it stays as it is. A filter of which no superblock is intact, or
whose hashes are lost, must be built again from its keys.

Exit status: 0 if the filter is intact now, or 2 after an error.`

func newRepairCommand() *cobra.Command {
	var opts mmapfilter.RebuildOptions
	var asJSON bool
	cmd := &cobra.Command{Use: "repair", Long: repairHelp, Args: needFile}
	addWorkFlags(cmd.Flags(), &opts.MemoryBudget, &opts.Workers)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		path := args[0]
		bar := newProgress(cmd.ErrOrStderr())
		defer bar.close()
		opts.Progress = bar.ofBuild(new(sources))
		repaired, err := mmapfilter.Repair(cmd.Context(), path, &opts)
		bar.close()
		if err != nil {
			return &unchanged{path, err}
		}
		filter, err := mmapfilter.OpenReadOnly(path, nil)
		if err != nil {
			return err
		}
		result := repair{path, repaired, filter.Len()}
		if err := filter.Close(); err != nil {
			return err
		}
		if asJSON {
			return printJSON(cmd.OutOrStdout(), result)
		}
		return result.print(cmd.OutOrStdout())
	}
	return cmd
}

// A repair is what repair prints.
type repair struct {
	Filter   string `json:"filter"`
	Repaired bool   `json:"repaired"`
	Keys     uint64 `json:"keys"`
}

func (r *repair) print(w io.Writer) error {
	what := "not damaged, left as it is"
	if r.Repaired {
		what = "was damaged, rebuilt from its hashes"
	}
	_, err := fmt.Fprintf(w, "%s: %s, %s\n", r.Filter, what, formatNumber(r.Keys, "key", "keys"))
	return err
}
