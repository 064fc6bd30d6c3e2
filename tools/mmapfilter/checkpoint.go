package main

import (
	"errors"

	"github.com/mmapfilter/mmapfilter/mmapfilter"
	"github.com/spf13/cobra"
)

const checkpointHelp = `Usage: mmapfilter checkpoint [--seal] FILTER

Make one file of the filter and its log, to be copied. Where a writer has
died, recover the filter first.

      --seal   compute checksums of all of it as well, for verify to find any
               change of a byte; the next change of the filter drops them

Exit status: 0, or 2 after an error, such as a writer that lives.`

func newCheckpointCommand() *cobra.Command {
	var seal bool
	cmd := &cobra.Command{Use: "checkpoint", Long: checkpointHelp, Args: needFile}
	cmd.Flags().BoolVar(&seal, "seal", false, "compute checksums")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		filter, err := mmapfilter.Open(args[0], nil)
		if err != nil {
			return err
		}
		if seal {
			err = filter.Seal(cmd.Context())
		}
		return errors.Join(err, filter.Close())
	}
	return cmd
}
